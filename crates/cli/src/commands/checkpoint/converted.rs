//! A model that was converted between this program and another.

use crate::{
    Registry, device,
    failure::Outcome,
    launcher,
    numbers::{counted, grouped},
    output,
    ranks::Team,
};
use bootstrap::World;
use hal::error::Bytes;
use serde::Serialize;
use std::path::PathBuf;
use tensor::Device;
use train::{checkpoint::Reader, foreign::Proof};

/// A model that was converted.
#[derive(Serialize)]
pub(super) struct Converted {
    pub(super) path: PathBuf,
    pub(super) model: String,
    pub(super) parameters: usize,
    pub(super) bytes: u64,
    pub(super) proof: Option<Proof>,
}

impl Converted {
    /// Prints what was made and what was proved.
    pub(super) fn print(&self, json: bool) -> Outcome {
        output::note(&format!(
            "{}; {} parameters, {}",
            self.model,
            grouped(self.parameters as u64),
            Bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX))
        ));
        output::note(&match self.proof {
            Some(proof) => format!(
                "proved: the outputs of {} for {} are those of the tensors in the folder; the largest difference is {:.1e} of an output's size",
                counted(proof.segments, "segment"),
                counted(proof.tokens, "token"),
                proof.difference
            ),
            None => "not proved: outputs were not compared".to_owned(),
        });
        match json {
            true => output::json(self),
            false => output::path(&self.path),
        }
    }
}

/// Runs on one rank, with all processors.
pub(super) fn alone<T: Send + 'static>(
    registry: &Registry,
    body: impl Fn((&World, &Device)) -> train::Result<T> + Send + Sync + 'static,
) -> Outcome<T> {
    let driver = device::preferred(&registry.drivers)?;
    let team = Team::new(1, launcher::threads_each(1));
    let mut found = team.run(driver, move |world, device| body((world, device)))?;
    Ok(found.swap_remove(0))
}

/// Bytes and elements of the weights, without those of adapters.
pub(super) fn sizes(reader: &Reader) -> Outcome<(u64, usize)> {
    let is_adapter = |name: &str| train::foreign::is_of_adapter(name);
    let is_weight = |name: &&str| name.starts_with("weights/") && !is_adapter(name);
    let (mut bytes, mut elements) = (0, 0);
    for name in reader.names().filter(is_weight) {
        let info = reader.info(name).map_err(train::Error::from)?;
        let own: usize = info.global_shape.iter().product();
        elements += own;
        bytes += (own * info.dtype.bytes()) as u64;
    }
    Ok((bytes, elements))
}
