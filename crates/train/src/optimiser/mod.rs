//! Optimisers: how weights follow their gradients.
//!
//! An [`Optimiser`] declares the state that it keeps for each weight, and updates pieces of flat buffers. The
//! library handles norms over the grid, clipping, the loss scale and sharding of the state over replicas.
//! [`Adafactor`], [`AdamW`], [`AdamW8bit`], [`Lion`], [`Muon`] and [`Sgd`] are here; [`Rate`] is a learning rate over the course of a run.

mod adafactor;
mod adamw;
mod adamw8bit;
mod lion;
mod muon;
mod rate;
mod sgd;

pub use adafactor::Adafactor;
pub use adamw::AdamW;
pub use adamw8bit::AdamW8bit;
pub use lion::Lion;
pub use muon::Muon;
pub use parallel::data::Factoring;
pub use rate::{Rate, RateSchedule};
pub use sgd::Sgd;
pub use tensor::ops::{coded::CodedUpdate, factored::Means, optimiser::Update};

use parallel::Result;
use std::fmt;
use tensor::{DType, Device, Tensor, ops::Transpose};

/// How weights follow their gradients.
pub trait Optimiser: fmt::Debug {
    /// Its name, by which checkpoints of different optimisers are distinguished.
    fn name(&self) -> &'static str;

    /// Number of state tensors that it keeps for each weight, in the accumulator type and initially zero.
    fn num_states(&self) -> usize;

    /// The learning rate of a step, counted from 0.
    fn rate(&self, step: u64) -> f64;

    /// The decay of weights that decay, unless their group has its own.
    fn weight_decay(&self) -> f64 {
        0.0
    }

    /// Updates all pieces.
    ///
    /// # Errors
    /// Those of the operations.
    fn update(&self, call: &UpdateCall<'_>) -> Result<()>;

    /// The rule of [hidden matrices](parallel::Parameter::is_hidden_matrix), if their update needs each of them as a whole;
    /// [`update`](Optimiser::update) then sees only the other parameters.
    fn matrices(&self) -> Option<&dyn MatrixRule> {
        None
    }

    /// The rule of [large parameters](parallel::data::SetOptions::is_coded), if their two state tensors are kept as 8-bit codes;
    /// [`update`](Optimiser::update) then sees only the other parameters.
    fn codes(&self) -> Option<&dyn CodedRule> {
        None
    }

    /// The rule of all parameters, if the state is the means of the squares of each one's rows and columns;
    /// [`update`](Optimiser::update) then sees none, and [`num_states`](Optimiser::num_states) is 0.
    fn factors(&self) -> Option<&dyn FactoredRule> {
        None
    }
}

/// How parameters follow their gradients whose second moments are kept as means of rows and columns.
///
/// A step turns gradients into directions, which are gradients over the roots of their moments, and calls
/// [`apply`](FactoredRule::apply) on the shards of each parameter.
pub trait FactoredRule: fmt::Debug {
    /// How the directions of an update follow the gradients; updates are counted as in [`UpdateCall`].
    fn factoring(&self, number: u64) -> Factoring;

    /// Updates the weights of one parameter's pieces by their gradients, which are directions. The factor of the call clips the
    /// parameter's directions; beside it is their root mean square.
    ///
    /// # Errors
    /// Those of the operations.
    fn apply(&self, call: &UpdateCall<'_>) -> Result<()>;
}

/// How parameters follow their gradients whose state is kept as 8-bit codes.
///
/// A step calls [`scales`](CodedRule::scales) on the shards, agrees on the scales of blocks that several ranks hold, and calls
/// [`update`](CodedRule::update) on the shards.
pub trait CodedRule: fmt::Debug {
    /// Sets the next scales of each piece to the largest magnitudes of its new state. If the factor is NaN, they are the old ones.
    ///
    /// # Errors
    /// Those of the operations.
    fn scales(&self, call: &UpdateCall<'_, CodedUpdate>) -> Result<()>;

    /// Updates weights and codes of all pieces.
    ///
    /// # Errors
    /// Those of the operations.
    fn update(&self, call: &UpdateCall<'_, CodedUpdate>) -> Result<()>;
}

/// How hidden matrices follow their gradients, where that needs each matrix as a whole.
///
/// A step calls [`prepare`](MatrixRule::prepare) on the shards, [`transform`](MatrixRule::transform) on each matrix at the one
/// rank that owns it in this step, and [`apply`](MatrixRule::apply) on the shards again.
pub trait MatrixRule: fmt::Debug {
    /// Number of state tensors that it keeps for each matrix, instead of [`Optimiser::num_states`].
    fn num_states(&self) -> usize;

    /// Updates the state, and leaves in the gradients of each piece what is to be transformed. If the factor is NaN, both stay.
    ///
    /// # Errors
    /// Those of the operations.
    fn prepare(&self, call: &UpdateCall<'_>) -> Result<()>;

    /// Overwrites a matrix, rows x columns in the accumulator type, with what its weights follow. `dtype` is the type in which
    /// the model computes. If the update is skipped, the matrix may hold any values, and so may the result.
    ///
    /// # Errors
    /// Those of the operations.
    fn transform(&self, matrix: &Tensor, dtype: DType) -> Result<()>;

    /// The matmuls of that: matrices are shared among ranks by their work, and planned by their time.
    fn matmuls(&self, rows: usize, columns: usize) -> Vec<RuleMatmul>;

    /// The learning rate of hidden matrices in a step, from 0.
    fn rate(&self, step: u64) -> f64;

    /// Updates the weights of all pieces by their gradients, which are parts of transformed matrices.
    ///
    /// # Errors
    /// Those of the operations.
    fn apply(&self, call: &UpdateCall<'_>) -> Result<()>;
}

/// A matmul of a [`MatrixRule`]: m x k by k x n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMatmul {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// What is contracted.
    pub k: usize,
    /// Which factor is transposed.
    pub transpose: Transpose,
}

impl RuleMatmul {
    /// Its floating-point operations.
    pub fn flop(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

/// One update of weights that share a learning rate.
#[derive(Debug)]
pub struct UpdateCall<'a, P = Update> {
    /// The device that holds them.
    pub device: &'a Device,
    /// Pieces of parameters: weights, gradients, state, and the copy in the compute type if there is one.
    pub pieces: &'a [P],
    /// Two f64: the factor for gradients, and their norm. The factor is NaN if the update must be skipped, and the norm is NaN if an
    /// update on the host begins before it is known.
    pub factor: &'a Tensor,
    /// The learning rate.
    pub rate: f64,
    /// Number of this update, from 1; skipped updates do not count.
    pub number: u64,
}
