//! Why there is no plan.

use grid::Degrees;
use hal::error::Bytes;
use std::path::PathBuf;

/// Result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine's description.
    #[error(transparent)]
    Machine(#[from] grid::machine::MachineError),
    /// A setting of the request has a value that it does not take.
    #[error("{setting}: found {found}, needs {needed}")]
    Setting {
        /// The setting, as in `batch`.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What it takes.
        needed: &'static str,
    },
    /// A job of no device, or of more than the machine has.
    #[error("devices: found {found}, {machine} has 1 to {most}")]
    Devices {
        /// The requested number.
        found: usize,
        /// The machine.
        machine: String,
        /// The number that it has.
        most: usize,
    },
    /// No family has a model of that name, and no file has it either.
    #[error("model: found `{found}`, needs a file or one of {}", known.join(", "))]
    UnknownModel {
        /// The name.
        found: String,
        /// The names of the families' models.
        known: Vec<String>,
    },
    /// The model has a size that cannot be.
    #[error(transparent)]
    Model(train::Error),
    /// The requested grid does not fit the model.
    #[error(transparent)]
    Grid(grid::Error),
    /// The requested grid has another number of ranks than the job has devices.
    #[error("grid {degrees}: found {found} ranks, needs {needed}, the number of devices")]
    WorldSize {
        /// The requested grid.
        degrees: Degrees,
        /// Its number of ranks.
        found: usize,
        /// The requested number of devices.
        needed: usize,
    },
    /// No grid of the requested size divides the model and the batch.
    #[error("no grid of {devices} devices fits a batch of {batch} rows of {model}")]
    NoGrid {
        /// The requested number of devices.
        devices: usize,
        /// Rows in the global batch.
        batch: usize,
        /// The model's sizes.
        model: String,
    },
    /// No candidate fits the devices' memory.
    #[error(
        "{model} does not fit {devices} devices of {machine} with {} each{}{}",
        gib(*device_bytes),
        host_bytes.map_or(String::new(), |bytes| format!(" and {} of the host's memory", gib(bytes))),
        remedy(*devices, *enough, *most)
    )]
    OutOfReach {
        /// The model's name.
        model: String,
        /// The requested number of devices.
        devices: usize,
        /// The machine.
        machine: String,
        /// Bytes that a job can use on each device.
        device_bytes: usize,
        /// Bytes of the host's memory that it can use for each device, if they are known.
        host_bytes: Option<usize>,
        /// The smallest number of devices that would do: equal to `devices` if only the requested grid stands in the way,
        /// `None` if the machine is too small.
        enough: Option<usize>,
        /// The number of devices that the machine has.
        most: usize,
    },
    /// No choice for the model's segments fits the capacity.
    #[error(
        "training.memory: found {} for each rank of stage {stage}, needs at least {}, with which as much is recomputed and moved as \
         can be; all that stays needs {}",
        Bytes(*capacity), Bytes(*least), Bytes(*stays)
    )]
    Capacity {
        /// The stage that lacks most.
        stage: usize,
        /// Bytes that its ranks may hold.
        capacity: usize,
        /// Bytes that they need at least.
        least: usize,
        /// Bytes that they need if all segments keep everything on the device.
        stays: usize,
    },
    /// A simulated step has no spans to write, because none were requested.
    #[error("trace: the step was simulated without its spans")]
    NoSpans,
    /// A measured trace cannot be read.
    #[error("trace {}: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: TraceError,
    },
    /// A rank of the simulated run ended without an error of its own: it panicked, hung or could not be started.
    #[error(transparent)]
    Simulation(Box<bootstrap::Failure<train::Error>>),
    /// The simulated run failed, a configuration cannot be read, or a trace cannot be written.
    #[error(transparent)]
    Train(#[from] train::Error),
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is JSON without a list of events.
    #[error("found no list of events")]
    NoEvents,
}

impl From<Error> for train::Error {
    fn from(error: Error) -> train::Error {
        match error {
            Error::Train(error) | Error::Model(error) => error,
            Error::Machine(error) => error.into(),
            Error::Grid(error) => error.into(),
            other => train::Error::Client(Box::new(other)),
        }
    }
}

fn gib(bytes: usize) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn remedy(devices: usize, enough: Option<usize>, most: usize) -> String {
    match enough {
        Some(enough) if enough == devices => {
            " with that grid; another grid of the same size fits".into()
        }
        Some(enough) => format!("; it needs at least {enough}"),
        None => format!(", nor all {most} devices of the machine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_small() -> Error {
        Error::OutOfReach {
            model: "gpt-40b".into(),
            devices: 8,
            machine: "perlmutter".into(),
            device_bytes: 39 << 30,
            host_bytes: Some(60 << 30),
            enough: Some(16),
            most: 6144,
        }
    }

    #[test]
    fn an_error_of_training_comes_back_as_it_was() {
        let lost = hal::Error::Aborted {
            rank: 1,
            reason: "lost".into(),
        };
        let within = Error::from(train::Error::from(lost.clone()));
        assert!(
            matches!(train::Error::from(within), train::Error::Parallel(found) if found == lost)
        );
        let own = train::Error::from(too_small());
        let train::Error::Client(own) = own else {
            panic!("{own}");
        };
        assert!(matches!(
            own.downcast_ref(),
            Some(Error::OutOfReach {
                enough: Some(16),
                ..
            })
        ));
    }

    #[test]
    fn an_error_that_wraps_another_becomes_the_one_inside() {
        let grid = "x=0".parse::<Degrees>().unwrap_err();
        let outer = train::Error::from(Error::Grid(grid.clone()));
        assert!(matches!(outer, train::Error::Grid(found) if found == grid));
        let size = train::Error::setting("model.layers", 0, "at least 1");
        let outer = train::Error::from(Error::Model(size));
        assert!(matches!(outer, train::Error::Setting { key, .. } if key == "model.layers"));
    }

    #[test]
    fn a_model_out_of_reach_states_what_would_do() {
        let told = too_small().to_string();
        assert_eq!(
            told,
            "gpt-40b does not fit 8 devices of perlmutter with 39.0 GiB each and 60.0 GiB of the host's memory; it needs at least 16"
        );
        assert_eq!(remedy(8, None, 64), ", nor all 64 devices of the machine");
    }
}
