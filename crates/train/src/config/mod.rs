//! What a run is asked to be: one value, read from TOML, checked before anything runs.

mod order;
mod overlap;
mod parse;
mod sections;
pub mod suggest;

pub use order::OrderChoice;
pub use overlap::{OverlapNames, overlap_from_names};
pub use sections::{
    DataConfig, Optimiser, ParallelConfig, Precision, RateSchedule, TrainingConfig,
};

use crate::{Error, Result, placement};
use bootstrap::World;
use grid::{Grid, machine::Machine};
use nn::GptConfig;
use parallel::{Settings, pipeline::Plan};
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc};

/// A whole configuration. Every key has a default; an unknown one is refused with the nearest that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Seed of initial values, data order and dropout.
    pub seed: u64,
    /// Sizes of the model.
    pub model: GptConfig,
    /// Where the data comes from.
    pub data: DataConfig,
    /// Steps, batch, optimiser, validation, checkpoints.
    pub training: TrainingConfig,
    /// Grid, schedule, overlap, threads.
    pub parallel: ParallelConfig,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read; [`Error::Config`] with the place of a mistake.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        Config::parse(&text).map_err(|error| Error::Config(format!("{}: {error}", path.display())))
    }

    /// Reads a configuration from TOML.
    ///
    /// # Errors
    /// [`Error::Config`] with line and key, and the nearest key for one that does not exist.
    pub fn parse(text: &str) -> Result<Config> {
        parse::config(text)
    }

    /// The configuration as TOML.
    ///
    /// # Errors
    /// [`Error::Config`] never, for a configuration that was read.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Config(format!("configuration: {error}")))
    }

    /// The grid, once the vocabulary is known and everything fits it; where the order of axes is left to the library, in the
    /// default order, as [`grid_on`](Config::grid_on) alone knows the nodes.
    ///
    /// # Errors
    /// [`Error::Grid`] or [`Error::Config`], in one sentence with the numbers and the nearest grids that would work.
    pub fn grid(&self) -> Result<Grid> {
        let degrees = self.parallel.grid;
        let ranks = self
            .parallel
            .ranks
            .map_or_else(|| degrees.world_size(), Ok)?;
        let grid = Grid::for_ranks(degrees, self.parallel.order.or_default(), ranks)?;
        let training = &self.training;
        let chunks = self.parallel.schedule.num_chunks();
        let demands = self
            .model
            .demands(training.batch, training.micro_batches, chunks);
        demands.check(&degrees)?;
        Ok(grid)
    }

    /// The grid in the order of axes that suits the nodes of the job. Collective where there are several.
    ///
    /// # Errors
    /// As [`grid`](Config::grid); those of the exchange of places.
    pub fn grid_on(&self, world: &World) -> Result<Grid> {
        self.grid().and_then(|_| self.ordered_on(world))
    }

    /// As [`grid_on`](Config::grid_on), for a model that asks nothing of the grid.
    ///
    /// # Errors
    /// As [`grid_on`](Config::grid_on).
    pub fn ordered_on(&self, world: &World) -> Result<Grid> {
        let order = match self.parallel.order {
            OrderChoice::Fixed(order) => order,
            OrderChoice::Auto => {
                let nodes = parallel::mapping::nodes(world)?;
                placement::best_order(self, &nodes, self.machine()?.as_deref())?
            }
        };
        Ok(Grid::for_ranks(self.parallel.grid, order, world.size())?)
    }

    /// The description of the machine, if one is named.
    ///
    /// # Errors
    /// [`Error::Config`] when there is none of that name, or the file is none.
    pub fn machine(&self) -> Result<Option<Arc<Machine>>> {
        let named = self
            .parallel
            .machine
            .as_deref()
            .map(Machine::find)
            .transpose();
        named
            .map(|machine| machine.map(Arc::new))
            .map_err(|error| Error::Config(error.to_string()))
    }

    /// Everything that can be checked without a device: the model's sizes, the training's numbers, the grid, the schedule.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Grid`].
    pub fn check(&self) -> Result<()> {
        self.model.check().map_err(as_config)?;
        self.training.check()?;
        self.grid()?;
        self.check_graph()?;
        self.machine()?;
        self.plan().map(drop)
    }

    // Masks are drawn by numbers that kernels take by value, and collectives run on other streams.
    fn check_graph(&self) -> Result<()> {
        let (ranks, dropout) = (self.grid()?.world_size(), self.model.dropout);
        match self.training.graph && (ranks > 1 || dropout > 0.0) {
            true => Err(Error::Config(format!(
                "training.graph: found {ranks} ranks and dropout {dropout}, needs 1 rank and no dropout"
            ))),
            false => Ok(()),
        }
    }

    /// The schedule for the grid's stages.
    ///
    /// # Errors
    /// [`Error::Config`] when it cannot be built.
    pub fn plan(&self) -> Result<Plan> {
        let stages = self.parallel.grid.pipeline;
        Plan::new(self.parallel.schedule, stages, self.training.micro_batches).map_err(as_config)
    }

    /// What the layers need to know of the configuration.
    pub fn settings(&self) -> Settings {
        let parallel = &self.parallel;
        Settings {
            overlap: parallel.overlap.0,
            gather_budget: parallel.gather_budget_mib << 20,
            keep_gathered: parallel.keep_gathered,
            gather_wide: parallel.gather_wide,
            bucket_bytes: parallel.bucket_mib << 20,
            hierarchical: parallel.hierarchical,
            positions: parallel.positions,
            checked: parallel.checked,
            seed: self.seed,
        }
    }
}

fn as_config(error: hal::Error) -> Error {
    Error::Config(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::factorisations;

    #[test]
    fn the_default_model_fits_every_grid_of_up_to_8_ranks() {
        for degrees in [1, 2, 4, 8].into_iter().flat_map(factorisations) {
            let mut config = Config::default();
            config.model.vocabulary = 256;
            config.parallel.grid = degrees;
            config
                .check()
                .unwrap_or_else(|error| panic!("{degrees}: {error}"));
        }
    }

    #[test]
    fn the_rate_warms_up_and_then_falls_to_its_lowest() {
        let training = TrainingConfig {
            steps: 100,
            warmup_steps: 10,
            ..TrainingConfig::default()
        };
        assert_eq!(training.rate(9), training.learning_rate);
        assert!(training.rate(4) < training.rate(5) && training.rate(50) > training.rate(51));
        assert!((training.rate(100) - training.lowest_rate).abs() < 1e-12);
    }
}
