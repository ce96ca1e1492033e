//! The choices from which a plan starts.

use crate::{Error, Result};
use parallel::{Hierarchical, Overlap};

/// The choices from which a plan starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// This library's defaults: everything overlaps, and gradients are reduced in buckets during backward.
    #[default]
    Ours,
    /// The settings of AxoNN's published runs: every layer recomputed, weights kept from there to their gradients,
    /// collectives of layers beside compute, gradients reduced after backward, tensor by tensor, no pipelining, no
    /// sharded optimiser.
    ///
    /// # Source
    /// axonn-ai/Megatron-AxoNN, branch gordon-bell-perlmutter: `pretrain_gpt.py` and `schedules.py` run forward and
    /// backward under `optimize_communication`; axonn-ai/axonn of March 2024: `AsyncLinear` saves the gathered weight.
    PublishedAxonn,
}

impl Preset {
    /// The preset with this name.
    ///
    /// # Errors
    /// [`Error::Setting`] with the valid names.
    pub fn parse(name: &str) -> Result<Preset> {
        match name {
            "ours" | "default" => Ok(Preset::Ours),
            "published-axonn" => Ok(Preset::PublishedAxonn),
            other => Err(Error::Setting {
                setting: "settings",
                found: format!("`{other}`"),
                needed: "ours or published-axonn",
            }),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Ours => "ours",
            Preset::PublishedAxonn => "published-axonn",
        }
    }

    /// Which collectives run beside compute.
    pub const fn overlap(self) -> Overlap {
        match self {
            Preset::Ours => Overlap::ALL,
            Preset::PublishedAxonn => Overlap {
                all_reduce: true,
                reduce_scatter: true,
                all_gather: true,
                all_gather_forward: true,
                data: false,
            },
        }
    }

    /// Whether collectives may cross nodes in two levels.
    pub const fn hierarchical(self) -> Hierarchical {
        match self {
            Preset::Ours => Hierarchical::Auto,
            Preset::PublishedAxonn => Hierarchical::Off,
        }
    }

    /// Largest bucket of gradients, in MiB; 0 reduces every tensor separately.
    pub const fn bucket_mib(self) -> usize {
        match self {
            Preset::Ours => 200,
            Preset::PublishedAxonn => 0,
        }
    }
}
