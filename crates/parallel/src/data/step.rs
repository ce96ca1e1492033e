//! A training step on a set of parameters, from the first pass to the update; and a batch that is only
//! evaluated.
//!
//! Each call returns what the next one needs, so that none can be forgotten: a [`TrainingStep`] returns passes,
//! and [`finish`](TrainingStep::finish) returns its [`Gradients`], which alone can
//! [`update`](Gradients::update) the weights.

use super::{Factoring, ParameterSet, SetOptions, UpdateRule};
use crate::{Mode, Pass, Reproducible, RowCut, layers::gather::Gatherer, pass::Shared};
use grid::Axis;
use std::{
    cell::{Cell, RefCell},
    fmt,
    ops::Range,
    rc::Rc,
};
use tensor::{
    Error, Result, Tensor,
    ops::{coded::CodedUpdate, optimiser::Update},
};

/// A training step in progress: gradients are being accumulated.
pub struct TrainingStep {
    shared: Rc<Shared>,
    set: ParameterSet,
}

/// A batch that runs forward only.
pub struct Evaluation {
    shared: Rc<Shared>,
    set: ParameterSet,
}

/// The gradients of a step, summed over all replicas.
pub struct Gradients {
    set: ParameterSet,
    number: u64,
}

impl ParameterSet {
    /// Begins training step `step` on a global batch, without gradients so far. `rows` states how the batch is cut; a number
    /// of rows is a batch in one micro-batch. The cut counts only where sums are to be reproducible on any grid, and where
    /// replicas shard gradients: then the batch is [cut first](super::Sharding::cut) into micro-batches, and each use of a parameter
    /// must occur on all replicas.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a set made for inference, and a batch of 0 rows; also for a rank without a row of a micro-batch,
    /// if the cut counts; [`Error::Vendor`].
    pub fn begin_step(&self, step: u64, rows: impl Into<RowCut>) -> Result<TrainingStep> {
        let SetOptions {
            trains, sharding, ..
        } = *self.options();
        let cut = sharding.cut(rows.into());
        if !trains || cut.batch == 0 {
            let found = match trains {
                true => "a batch of 0 rows",
                false => "a set made for inference",
            };
            return Err(Error::invalid(
                "training step",
                found,
                "a set that trains and at least 1 row",
            ));
        }
        if self.0.context.settings().reproducible == Reproducible::Grid
            || sharding.shards_gradients()
        {
            cut.check(&self.0.context)?;
        }
        self.0.room.begin(Mode::Training);
        self.forget_gradients();
        self.0.cut.set(cut);
        let number = self.0.steps_begun.get() + 1;
        self.0.steps_begun.set(number);
        Ok(TrainingStep {
            shared: self.shared(Mode::Training, (step, number), cut),
            set: self.clone(),
        })
    }

    /// Begins the evaluation of a global batch, cut as in [`begin_step`](Self::begin_step).
    pub fn evaluate(&self, rows: impl Into<RowCut>) -> Evaluation {
        self.0.room.begin(Mode::Evaluation);
        Evaluation {
            shared: self.shared(Mode::Evaluation, (0, 0), rows.into()),
            set: self.clone(),
        }
    }

    fn shared(&self, mode: Mode, (step, number): (u64, u64), cut: RowCut) -> Rc<Shared> {
        Rc::new(Shared {
            context: self.0.context.clone(),
            mode,
            step,
            number,
            cut,
            parameters: Some(self.clone()),
            gatherer: RefCell::new(Gatherer::expecting(self.order(mode))),
            scatterer: RefCell::default(),
            fitting_leaf: Cell::default(),
            norms: RefCell::default(),
            is_open: Cell::new(true),
        })
    }

    /// Whether no later step has begun.
    pub(crate) fn is_current(&self, number: u64) -> bool {
        self.0.steps_begun.get() == number
    }

    // The passes over a batch are over.
    fn close(&self, shared: &Shared) {
        shared.is_open.set(false);
        self.learn_order(shared.mode, shared.gatherer.borrow_mut().finish());
    }
}

impl TrainingStep {
    /// The pass of these rows of the global batch, which are this rank's rows of a micro-batch.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they exceed the batch.
    pub fn pass(&self, rows: Range<usize>) -> Result<Pass> {
        Pass::new(&self.shared, rows)
    }

    /// Ends the step's backward passes. Afterwards all gradients are summed over the replicas. Collective.
    /// # Errors
    /// [`Error::Invalid`] if another step has begun on this set meanwhile, and if a parameter was used more or
    /// less often than in the first step; those of the collectives.
    pub fn finish(self) -> Result<Gradients> {
        let number = self.shared.number;
        check_current(&self.set, number)?;
        self.set.reduce_all(&Pass::new(&self.shared, 0..0)?)?;
        Ok(Gradients {
            set: self.set.clone(),
            number,
        })
    }
}

impl Drop for TrainingStep {
    fn drop(&mut self) {
        self.set.close(&self.shared);
    }
}

impl Evaluation {
    /// As [`TrainingStep::pass`].
    ///
    /// # Errors
    /// As there.
    pub fn pass(&self, rows: Range<usize>) -> Result<Pass> {
        Pass::new(&self.shared, rows)
    }
}

impl Drop for Evaluation {
    fn drop(&mut self) {
        self.set.close(&self.shared);
    }
}

impl Gradients {
    /// The gradients left by a replay of the step, if forward and backward were recorded.
    pub fn replayed(&self) -> Gradients {
        Gradients {
            set: self.set.clone(),
            number: self.number,
        }
    }

    /// The sum of the squares of all gradients of the model: one f64, the same on every rank. Collective.
    ///
    /// A shard counts on one of the ranks that hold it; a shared parameter counts on the first stage that has
    /// it.
    ///
    /// # Cost
    /// One pass over the gradients held here; one number reduced over each axis. On devices with canonical sums two passes,
    /// and four numbers.
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of the collectives.
    pub fn sum_squares(&self) -> Result<Tensor> {
        check_current(&self.set, self.number)?;
        self.set.sum_squares_over(&Axis::ALL)
    }

    /// The same of the gradients on this pipeline stage alone, for a stage that updates its weights by itself. Collective within it.
    ///
    /// # Cost
    /// As there, without the axis of the pipeline.
    /// # Errors
    /// As there.
    pub fn stage_sum_squares(&self) -> Result<Tensor> {
        check_current(&self.set, self.number)?;
        let of_stage = Axis::ALL.into_iter().filter(|axis| *axis != Axis::Pipeline);
        self.set.sum_squares_over(&of_stage.collect::<Vec<_>>())
    }

    /// Passes `work` the pieces of [matrices that the optimiser updates as a whole](SetOptions::matrix_states), grouped by the
    /// learning-rate factor that `rule` assigns, with `factor`, that of gradients. What is done to them before [`transform`](Gradients::transform) changes the
    /// gradients that become whole there; what is done after it, and before [`update`](Gradients::update), sees the result.
    ///
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of `work`.
    pub fn matrices<E: From<Error>>(
        &self,
        factor: &Tensor,
        rule: impl Fn(&crate::Parameter) -> UpdateRule,
        work: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        check_current(&self.set, self.number)?;
        self.set.update_pieces(true, factor, rule, work)
    }

    /// Brings each of those matrices' gradients together at one rank, which calls `work` on it, rows x columns in the
    /// accumulator type; `work` overwrites it, and every rank receives its parts of the result as gradients. Collective.
    ///
    /// The ranks of a pipeline stage share the matrices of the stage by `flop(rows, columns)`, what `work` computes. A matrix is
    /// worked on once and whole, so the result does not depend on the grid.
    ///
    /// # Cost
    /// Along Data, a gather of the results, and with sharded state one of the gradients before it; over the tensor axes, two
    /// all-to-alls. They run in rounds of one matrix per rank, which bounds the memory: some buffers of a matrix's size.
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of `work` and of the collectives.
    pub fn transform(
        &self,
        flop: impl Fn(usize, usize) -> f64,
        work: impl FnMut(&Tensor) -> Result<()>,
    ) -> Result<()> {
        check_current(&self.set, self.number)?;
        self.set.transform(flop, work)
    }

    /// Passes `scales`, and then `update`, the pieces of parameters [whose state is kept as codes](SetOptions::is_coded), grouped
    /// by the learning-rate factor that `rule` assigns. `scales` sets the next scales to the largest magnitudes of the new
    /// state; in between, the ranks that hold parts of one block take the largest of theirs. Collective.
    ///
    /// # Cost
    /// With sharded state, an all-reduce of the scales over Data. Over an axis that cuts rows of a parameter within a block, one
    /// of the scales of these rows; without such a cut none.
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of `scales`, `update` and the collectives.
    pub fn update_coded<E: From<Error>>(
        &self,
        rule: impl Fn(&crate::Parameter) -> UpdateRule,
        scales: impl FnMut(f64, &[CodedUpdate]) -> Result<(), E>,
        update: impl FnMut(f64, &[CodedUpdate]) -> Result<(), E>,
    ) -> Result<(), E> {
        check_current(&self.set, self.number)?;
        self.set.update_coded(rule, scales, update)
    }

    /// Turns the gradients of parameters [whose state is means of rows and columns](SetOptions::is_factored) into directions, and
    /// passes these to `update`, parameter by parameter: the factor of the learning rate that `rule` assigns, and two f64, the
    /// factor that clips the parameter's directions and their root mean square. `factor` is that of gradients; if it is NaN, so are
    /// those of directions. Collective.
    ///
    /// # Cost
    /// Over each tensor axis, and over Data with sharded state, four all-reduces of one f64 for each line: twice of rows and columns,
    /// twice of rows.
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of `update` and the collectives.
    pub fn update_factored<E: From<Error>>(
        &self,
        factoring: Factoring,
        factor: &Tensor,
        rule: impl Fn(&crate::Parameter) -> UpdateRule,
        update: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        check_current(&self.set, self.number)?;
        self.set.update_factored(factoring, factor, rule, update)
    }

    /// Passes `update` the pieces of all parameters that this rank updates, grouped by the learning-rate factor
    /// that `rule` assigns: all at once, but those whose state is [beyond the device](SetOptions::places), which come in
    /// runs of it. With them comes `factor`, two f64 of this rank's device as
    /// [`clip_scale`](tensor::ops::optimiser::clip_scale) gives them, on the device of the pieces: the host's if
    /// [it updates them](super::StatePlaces::update). Those of [`matrices`](Gradients::matrices), of [`update_coded`](Gradients::update_coded) and of
    /// [`update_factored`](Gradients::update_factored) are not among them. With sharded state, every replica
    /// then receives the values that the others have updated. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] when another step has begun meanwhile; those of `update` and of the collectives.
    pub fn update<E: From<Error>>(
        self,
        factor: &Tensor,
        rule: impl Fn(&crate::Parameter) -> UpdateRule,
        update: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        check_current(&self.set, self.number)?;
        self.set.update_pieces(false, factor, rule, update)?;
        Ok(self.set.end_update()?)
    }

    /// As [`update`](Gradients::update), by a factor that no norm decides, and then the [sum of squares](Gradients::sum_squares) of
    /// all gradients. Where the host updates the weights, it begins with the buckets that are reduced while the device runs the
    /// rest of backward, and the weights return after it. The norm beside the factor that `update` sees is NaN, and gradients that are
    /// not finite are not skipped. Collective.
    ///
    /// # Errors
    /// As [`update`](Gradients::update).
    pub fn update_by<E: From<Error>>(
        self,
        factor: f64,
        rule: impl Fn(&crate::Parameter) -> UpdateRule,
        update: impl FnMut(f64, &Tensor, &[Update]) -> Result<(), E>,
    ) -> Result<Tensor, E> {
        check_current(&self.set, self.number)?;
        self.set.update_by(factor, rule, update)?;
        self.set.end_update()?;
        Ok(self.set.sum_squares_over(&Axis::ALL)?)
    }
}

fn check_current(set: &ParameterSet, number: u64) -> Result<()> {
    match set.is_current(number) {
        true => Ok(()),
        false => {
            let begun = set.0.steps_begun.get();
            let found = format!("step {number} of this set after step {begun} has begun");
            Err(Error::invalid(
                "training step",
                found,
                "the end of each step before the next one",
            ))
        }
    }
}

impl fmt::Debug for TrainingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrainingStep({} of {:?})", self.shared.step, self.set)
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Evaluation({} rows of {:?})",
            self.shared.cut.batch, self.set
        )
    }
}

impl fmt::Debug for Gradients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gradients({:?})", self.set)
    }
}
