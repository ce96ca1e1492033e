//! Choices about a device: those that change its numbers, and the memory that it may use. They come from a run's
//! configuration, so that the run records them.

use crate::{Error, Result};
use std::{fmt, path::PathBuf, str::FromStr};

/// How a device computes where it has a choice, and how much memory it may use. A device without that choice ignores the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceSettings {
    /// The backend that runs the collectives.
    pub collectives: CollectiveBackend,
    /// Where a bias, and GELU behind it, are computed.
    pub epilogues: EpiloguePlacement,
    /// The file that holds the fastest variant of each matmul: an algorithm of the library, or a matrix that is transposed
    /// first. If it does not exist, the first step times the variants and the first rank writes it. A file of another
    /// version of the library, or of another device, is refused. Without a file the library chooses.
    pub matmul_choices: Option<PathBuf>,
    /// The order in which sums are added.
    pub sums: SumOrder,
    /// The most bytes that live buffers of [`Device::allocate`](crate::Device::allocate) may have in all, on each rank. A
    /// device refuses the allocation that would exceed it as one that its memory cannot hold. `None` is all of its memory.
    pub memory_limit: Option<usize>,
}

// An enum of which each variant is written as one word.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $setting:literal: $needed:literal {
        $($(#[$of_variant:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of_variant])* $variant,)*
        }

        impl $name {
            /// Every choice.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Reads its word.
            ///
            /// # Errors
            /// [`Error::Invalid`] for another word.
            fn from_str(text: &str) -> Result<Self> {
                let mut all = $name::ALL.into_iter();
                all.find(|choice| choice.name() == text)
                    .ok_or_else(|| Error::invalid($setting, format!("found `{text}`"), $needed))
            }
        }
    };
}

words! {
    /// The backend that runs the collectives. Written as `library` or `staged`.
    CollectiveBackend, "collectives": "library or staged" {
        /// The vendor's own: NCCL or RCCL.
        #[default]
        Library = "library",
        /// Device copies and kernels between ranks of this process: for several ranks on one device, which the libraries
        /// refuse, and for machines without them. Slow, and never chosen silently.
        Staged = "staged",
    }
}

words! {
    /// Where a bias, and GELU behind it, are computed. Written as `fused` or `separate`.
    EpiloguePlacement, "epilogues": "fused or separate" {
        /// In the matmul where the vendor's library takes them, and by kernels elsewhere.
        #[default]
        Fused = "fused",
        /// Always by kernels.
        Separate = "separate",
    }
}

words! {
    /// The order in which a device adds. Written as `device` or `canonical`.
    SumOrder, "sums": "device or canonical" {
        /// The device's own, which is its fastest, and may depend on all sizes.
        #[default]
        Device = "device",
        /// That of the seam: the device then has [canonical sums](crate::Capabilities::canonical_sums) if it can.
        Canonical = "canonical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_choices() {
        for backend in CollectiveBackend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        for placement in EpiloguePlacement::ALL {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        for order in SumOrder::ALL {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        let error = "stage".parse::<CollectiveBackend>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "collectives: found `stage`, needs library or staged"
        );
        let error = "no".parse::<EpiloguePlacement>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "epilogues: found `no`, needs fused or separate"
        );
    }
}
