//! The ranks that run a checkpoint's model, which need not be those that trained it.

use crate::{
    failure::Outcome,
    grids, launcher,
    numbers::{MOST_THREADS, count},
    ranks::Team,
};
use clap::Args;
use grid::{Degrees, Grid};
use train::{
    Config,
    config::{FrozenWeights, PlaceKind},
};

/// Their grid and threads.
#[derive(Args, Debug)]
pub(super) struct OnRanks {
    /// Ranks along each axis; defaults to one rank
    #[arg(long, value_name = "AXIS=N,...", value_parser = grids::named)]
    grid: Option<Degrees>,
    /// Number of ranks; without --grid they lie along X
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    ranks: Option<usize>,
    /// Threads per rank; by default the ranks share the cores evenly
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    threads: Option<usize>,
    /// Where weights are while no layer uses them, for a model that exceeds the devices; defaults to what the model was trained with
    #[arg(long, value_name = "device|host|files")]
    weights: Option<PlaceKind>,
    /// How weights of hidden linear layers are stored: in the type of activations, or as codes of 8 or 4 bits, to which they are
    /// rounded; defaults to how the model was trained
    #[arg(long, value_name = "compute|int8|nf4")]
    pub(super) frozen_weights: Option<FrozenWeights>,
}

impl OnRanks {
    /// The ranks, and in the configuration their grid.
    ///
    /// # Errors
    /// [`Failure::Usage`](crate::failure::Failure::Usage) for a grid of other ranks, or that the model does not allow.
    pub(super) fn team(&self, config: &mut Config) -> Outcome<Team> {
        let degrees = match (self.grid, self.ranks) {
            (Some(grid), _) => grid,
            (None, ranks) => {
                let ranks = ranks.or_else(launcher::num_ranks).unwrap_or(1);
                Degrees {
                    x: ranks,
                    ..Degrees::default()
                }
            }
        };
        let ranks = self
            .ranks
            .map_or_else(|| degrees.world_size(), Ok)
            .map_err(train::Error::from)?;
        Grid::for_ranks(degrees, config.parallel.order.or_default(), ranks)
            .map_err(train::Error::from)?;
        // Sequences make no demand on the grid: all ranks along Z, Data and Context hold them.
        config
            .model
            .demands()
            .check(&degrees)
            .map_err(train::Error::from)?;
        config.parallel.grid = degrees;
        // The machine of the training run may not be this one.
        config.parallel.machine = None;
        if let Some(weights) = self.weights {
            config.placement.weights = weights;
        }
        train::run::settle_generation(config);
        // The matmuls of few tokens are not those that training has timed.
        config.device.matmul_choices = None;
        let threads = || launcher::threads_each(ranks);
        let team = Team::new(ranks, self.threads.unwrap_or_else(threads));
        Ok(team.with_device(config.device_settings()))
    }
}
