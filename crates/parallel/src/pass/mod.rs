//! A pass through a model: its position in the run, and the resources that its layers may use.
//!
//! A [`Pass`] travels with the data: every [`DTensor`] carries the pass to which it belongs. So
//! a layer finds its mode, its rows and the weights in flight without any look-up. Passes come from a
//! [`TrainingStep`](crate::data::TrainingStep) or an [`Evaluation`](crate::data::Evaluation), which hold the
//! state shared by the micro-batches of one batch.

mod gradients;
mod later;
mod norms;
mod rows;

pub(crate) use later::Later;

use crate::{
    Context, DTensor, Reproducible, RowCut,
    cache::CachedRows,
    data::ParameterSet,
    layers::{gather::Gatherer, scatter::Scatterer},
    work::Ledger,
};
use grid::Axis;
use hal::random::Key;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    rc::Rc,
};
use tensor::{Error, Result, Tensor};

/// The purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forward and backward; dropout acts.
    Training,
    /// Forward only, without dropout.
    Evaluation,
}

/// One micro-batch as it passes through the model on this rank. Cloning clones the handle.
#[derive(Clone)]
pub struct Pass {
    shared: Rc<Shared>,
    rows: (usize, usize),
    is_backward: bool,
    // Number of the micro-batch; known where sums are reproducible or replicas shard gradients.
    micro_batch: usize,
    // How often each parameter has received a gradient in this pass, by its index.
    uses: Rc<RefCell<HashMap<usize, usize>>>,
    later: Rc<later::List>,
    // The ledger, if the model's work is being counted.
    ledger: Option<Rc<Ledger>>,
    // The sequences of which this is a pass over new tokens.
    cached: Option<CachedRows>,
}

/// State shared by all passes over one batch.
pub(crate) struct Shared {
    pub(crate) context: Context,
    pub(crate) mode: Mode,
    pub(crate) step: u64,
    // Counts the steps of the set: a later step has cleared the gradients of this one.
    pub(crate) number: u64,
    pub(crate) cut: RowCut,
    pub(crate) parameters: Option<ParameterSet>,
    pub(crate) gatherer: RefCell<Gatherer>,
    pub(crate) scatterer: RefCell<Scatterer>,
    // Rows of the leaves whose borders were last found to fit the micro-batches of all ranks; 0 for none.
    pub(crate) fitting_leaf: Cell<usize>,
    // The norms of the columns of adapted weights, by the index of the weight within the set: no weight changes during a batch.
    pub(crate) norms: RefCell<BTreeMap<usize, Tensor>>,
    // True until the batch is done; later addends would go to gradients that are already reduced.
    pub(crate) is_open: Cell<bool>,
}

impl Pass {
    /// A pass that evaluates plain operations on `num_rows` rows of this rank, without a set of parameters.
    pub fn evaluation(context: &Context, num_rows: usize) -> Pass {
        let shared = Shared {
            context: context.clone(),
            mode: Mode::Evaluation,
            step: 0,
            number: 0,
            cut: num_rows.into(),
            parameters: None,
            gatherer: RefCell::default(),
            scatterer: RefCell::default(),
            fitting_leaf: Cell::default(),
            norms: RefCell::default(),
            is_open: Cell::new(true),
        };
        Pass {
            shared: Rc::new(shared),
            rows: (0, num_rows),
            is_backward: false,
            micro_batch: 0,
            uses: Rc::default(),
            later: Rc::default(),
            ledger: None,
            cached: None,
        }
    }

    /// The pass of these rows of the global batch.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they do not lie within it, and if sums are to be reproducible, when they are not those of a
    /// micro-batch.
    pub(crate) fn new(shared: &Rc<Shared>, rows: Range<usize>) -> Result<Pass> {
        if rows.start > rows.end || rows.end > shared.cut.batch {
            let needed = format!("rows within the global batch of {}", shared.cut.batch);
            return Err(Error::invalid("pass", format!("rows {rows:?}"), needed));
        }
        let set = shared.parameters.as_ref();
        let is_needed = shared.context.settings().reproducible == Reproducible::Grid
            || set.is_some_and(|set| set.options().sharding.shards_gradients());
        // Only gradients are summed over rows.
        let micro_batch = match is_needed && shared.mode == Mode::Training && !rows.is_empty() {
            true => shared.cut.micro_batch_of(&shared.context, &rows)?,
            false => 0,
        };
        Ok(Pass {
            shared: shared.clone(),
            rows: (rows.start, rows.end),
            is_backward: false,
            micro_batch,
            uses: Rc::default(),
            later: Rc::default(),
            ledger: None,
            cached: None,
        })
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The purpose of the pass.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// Whether dropout acts.
    pub fn is_training(&self) -> bool {
        self.shared.mode == Mode::Training
    }

    /// Number of the training step, from 0.
    pub fn step(&self) -> u64 {
        self.shared.step
    }

    /// Indices, within the global batch, of the rows that this rank holds of the micro-batch.
    pub fn rows(&self) -> Range<usize> {
        self.rows.0..self.rows.1
    }

    /// Rows of the global batch, on all ranks and in all micro-batches; means are taken over them.
    pub fn num_rows(&self) -> usize {
        self.shared.cut.batch
    }

    /// How the rows of the batch are cut.
    pub(crate) fn cut(&self) -> RowCut {
        self.shared.cut
    }

    /// Number of the micro-batch.
    pub(crate) fn micro_batch(&self) -> usize {
        self.micro_batch
    }

    /// A pass of the same batch, as far as gradients are concerned that another micro-batch has left.
    pub(crate) fn of_micro_batch(&self, micro_batch: usize) -> Pass {
        Pass {
            micro_batch,
            ..self.clone()
        }
    }

    /// Key of the random draws of the operation called `name`, the same on every grid; use it for your own
    /// masks.
    pub fn key(&self, name: &str) -> Key {
        if let Some(set) = self
            .shared
            .parameters
            .as_ref()
            .filter(|_| self.is_training())
        {
            set.note_masks();
        }
        Key::new(self.context().settings().seed, name, self.step())
    }

    /// Whether this is the backward half, including recomputation.
    pub(crate) fn is_backward(&self) -> bool {
        self.is_backward
    }

    /// The same pass, with layers that record their work.
    pub(crate) fn with_ledger(&self, ledger: Rc<Ledger>) -> Pass {
        Pass {
            ledger: Some(ledger),
            ..self.clone()
        }
    }

    /// Whether this is a pass over the [new tokens](crate::cache::NewTokens) of sequences.
    pub fn is_incremental(&self) -> bool {
        self.cached.is_some()
    }

    /// The same pass, over new tokens of these sequences.
    pub(crate) fn with_cached(&self, rows: CachedRows) -> Pass {
        Pass {
            cached: Some(rows),
            ..self.clone()
        }
    }

    /// The rows of a pass over new tokens.
    pub(crate) fn cached(&self) -> Option<&CachedRows> {
        self.cached.as_ref()
    }

    /// Whether sums over X may leave runs of vectors. It saves memory, of which new tokens take little, and the fewest of them
    /// cannot be cut.
    pub(crate) fn spreads_runs(&self) -> bool {
        self.cached.is_none()
    }

    /// Whether values that enter the model are cut over Context. Also where work is counted, as for any grid. New tokens are
    /// on all ranks of Context, as the keys are that they attend to.
    pub(crate) fn cuts_tokens(&self) -> bool {
        let is_cut = self.context().degree(Axis::Context) > 1 && self.cached.is_none();
        is_cut || self.ledger.is_some()
    }

    /// The ledger in which work is being counted.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// The same pass in its backward half.
    pub(crate) fn backward(&self) -> Pass {
        Pass {
            is_backward: true,
            ..self.clone()
        }
    }

    /// Hashes what a segment returns, if that is wanted.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn observe(&self, segment: usize, wire: &str, value: &DTensor) -> Result<()> {
        match &self.shared.parameters {
            Some(set) if self.is_training() && !self.is_backward => {
                let name = || format!("segment {segment}, {wire}");
                set.observed().add(name, value)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn gatherer(&self) -> &RefCell<Gatherer> {
        &self.shared.gatherer
    }

    pub(crate) fn scatterer(&self) -> &RefCell<Scatterer> {
        &self.shared.scatterer
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mode, step) = (self.shared.mode, self.shared.step);
        write!(f, "Pass({mode:?}, step {step}, rows {:?})", self.rows())
    }
}
