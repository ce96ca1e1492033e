//! What a request must state, and what its model demands of a grid.

use crate::{Error, Request, Result, StatePlaceKinds};
use grid::Demands;
use train::config::PlaceKind;

/// The most rows of a batch, as of [`TrainingConfig`](train::config::TrainingConfig).
const MOST_ROWS: usize = 1 << 24;

impl Request {
    /// The demands of the model and the batch on a grid.
    pub fn demands(&self, micro_batches: usize) -> Demands {
        Demands {
            stages: self.work.segments.len(),
            batch: self.batch,
            micro_batches,
            ..self.model.demands()
        }
    }

    /// Checks everything that can be checked without trying a candidate.
    ///
    /// # Errors
    /// [`Error::Devices`] for a number of devices that the machine does not have; [`Error::Setting`] for an empty
    /// batch, for state in files whose bandwidth is not known, and for updates on a host that cannot be or whose bandwidth is not
    /// known; [`Error::Model`] for a size of the model that cannot be.
    pub fn check(&self) -> Result<()> {
        let most = self.machine.nodes * self.machine.devices_per_node;
        if self.devices == 0 || self.devices > most {
            return Err(Error::Devices {
                found: self.devices,
                machine: self.machine.name.clone(),
                most,
            });
        }
        if !(1..=MOST_ROWS).contains(&self.batch) {
            return Err(Error::Setting {
                setting: "batch",
                found: format!("{} sequences", self.batch),
                needed: "1 to 16777216",
            });
        }
        let micro_batches = self.micro_batches.unwrap_or(1);
        if !(1..=self.batch).contains(&micro_batches) {
            return Err(Error::Setting {
                setting: "micro_batches",
                found: format!("{micro_batches} for {} sequences", self.batch),
                needed: "1 to as many as there are sequences",
            });
        }
        let state = self.state_places.iter().flat_map(StatePlaceKinds::named);
        let activations = self.activation_places.iter().copied();
        let named = activations.map(|place| ("placement.activations", place));
        for (setting, place) in named.chain(state) {
            if place == PlaceKind::Files && self.machine.device.files_gbps.is_none() {
                return Err(Error::Setting {
                    setting,
                    found: format!("files on {}", self.machine.name),
                    needed: "a machine whose description has device.files_gbps",
                });
            }
        }
        for places in &self.state_places {
            if let Some((found, needed)) = self.refuses_update(*places) {
                return Err(Error::Setting {
                    setting: "placement.update",
                    found,
                    needed,
                });
            }
        }
        self.model.check().map_err(Error::Model)
    }
}
