//! The rows of the table: a model, a number of devices and a machine.

use crate::Result;
use fascicle::families::{GptConfig, families};
use fascicle::grid::{Degrees, machine::Machine};
use fascicle::train::config::Precision;
use plan::{Preset, Request};
use std::time::Duration;

/// One row: its model grows in proportion to the machine.
#[derive(Clone, Debug)]
pub struct Row {
    /// The machine's name or file.
    pub machine: String,
    /// Devices of the job.
    pub devices: usize,
    /// The model's name.
    pub model: String,
    grid: Option<Degrees>,
}

/// Devices and models of AxoNN's weak-scaling runs, by machine.
///
/// # Source
/// Singh et al., SC 2024, arXiv 2502.08145. A batch has 16.8M tokens in every row.
const PUBLISHED: [(&str, &[(usize, &str)]); 3] = [
    (
        "perlmutter",
        &[(512, "5b"), (1024, "10b"), (2048, "20b"), (4096, "40b")],
    ),
    (
        "frontier",
        &[
            (512, "5b"),
            (1024, "10b"),
            (2048, "20b"),
            (4096, "40b"),
            (8192, "80b"),
            (16_384, "160b"),
            (32_768, "320b"),
        ],
    ),
    (
        "alps",
        &[(1024, "10b"), (2048, "20b"), (4096, "40b"), (6144, "60b")],
    ),
];

/// The first rows at laptop size, with the grid of each: Z and Data grow, because widths are not divisible by more.
const TOY: [(usize, &str, &str); 4] = [
    (1, "5b", "x=1"),
    (2, "10b", "data=2"),
    (4, "20b", "z=2,data=2"),
    (8, "40b", "z=2,data=4"),
];

/// A toy model is this many times narrower, in width and head size, than the model after which it is named.
const NARROWER: usize = 32;

/// Prefix of a toy's name, followed by its model.
const TOY_PREFIX: &str = "toy-gpt-";

/// Machines with their own rows.
pub fn machines() -> Vec<&'static str> {
    PUBLISHED.iter().map(|(machine, _)| *machine).collect()
}

/// The rows of a machine. A machine without published runs gets the toys that fit on its devices.
///
/// # Errors
/// Those of the machine's file.
pub fn rows(machine: &str) -> Result<Vec<Row>> {
    let row = |devices, model: String, grid| Row {
        machine: machine.into(),
        devices,
        model,
        grid,
    };
    if let Some((_, rows)) = PUBLISHED.iter().find(|(name, _)| *name == machine) {
        return Ok(rows
            .iter()
            .map(|(devices, model)| row(*devices, format!("gpt-{model}"), None))
            .collect());
    }
    let found = Machine::find(machine)?;
    let most = found.nodes * found.devices_per_node;
    let toys = TOY.iter().filter(|(devices, ..)| *devices <= most);
    toys.map(|(devices, model, grid)| {
        Ok(row(
            *devices,
            format!("{TOY_PREFIX}{model}"),
            Some(grid.parse()?),
        ))
    })
    .collect()
}

impl Row {
    /// A row with the given values.
    pub fn new(machine: &str, devices: usize, model: &str) -> Row {
        Row {
            machine: machine.into(),
            devices,
            model: model.into(),
            grid: None,
        }
    }

    /// The request to the planner for this row.
    ///
    /// # Errors
    /// Unknown machines and models, by name.
    pub fn request(&self, preset: Preset, budget: Duration) -> Result<Request> {
        let machine = Machine::find(&self.machine)?;
        let Some(large) = self.model.strip_prefix(TOY_PREFIX) else {
            let (name, config) = plan::model::find(&self.model, &families())?;
            return Ok(Request {
                preset,
                budget,
                ..Request::new(machine, self.devices, name, config.model)?
            });
        };
        let (_, config) = plan::model::find(large, &families())?;
        let mut model = config.model;
        model.edit(|model: &mut GptConfig| {
            model.hidden /= NARROWER;
            (model.context, model.vocabulary) = (64, 512);
        })?;
        let request = Request::new(machine, self.devices, self.model.clone(), model)?;
        Ok(Request {
            preset,
            budget,
            grid: self.grid,
            batch: 8,
            precision: Precision::F32,
            ..request
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_per_device_is_the_same_within_a_machine() {
        for machine in machines().into_iter().chain(["laptop"]) {
            let per_device = |row: &Row| {
                let request = row.request(Preset::Ours, Duration::ZERO).unwrap();
                request.flop(true) / row.devices as f64
            };
            let work: Vec<_> = rows(machine).unwrap().iter().map(per_device).collect();
            for one in &work {
                assert!((one / work[0] - 1.0).abs() < 0.16, "{machine}: {work:?}");
            }
        }
    }

    #[test]
    fn a_row_of_an_unknown_machine_or_model_is_an_error() {
        assert!(rows("moon").unwrap_err().to_string().contains("`moon`"));
        let row = Row::new("frontier", 8, "gpt-9b");
        assert!(
            row.request(Preset::Ours, Duration::ZERO)
                .unwrap_err()
                .to_string()
                .contains("gpt-9b")
        );
    }
}
