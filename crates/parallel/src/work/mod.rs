//! The work of a model per row, counted by running it once on a device that computes nothing.
//!
//! Layers know which axis cuts their work, even if that axis has one rank. So one pass over one row on one rank
//! determines what every grid will compute and move. The planner's estimates, the order of axes and `--explain`
//! follow from it. `linear` and `attention` have the collectives of these layers, `column_norms` those of adapted weights,
//! `kept` what a segment keeps for its backward, `passes` how much of it runs, `place` how activations lie on ranks.

mod attention;
mod column_norms;
mod kept;
mod linear;
mod passes;
mod place;

pub use attention::{AttentionTraffic, AttentionWork};
pub use column_norms::ColumnNormsWork;
pub use linear::{LinearTraffic, LinearWork, Phase, WeightUse};
pub use place::Place;

use crate::{
    Context, Parameter, Settings,
    data::{ParameterSet, SetOptions},
    memory::{ActivationMemory, SegmentMemory},
    model::{Cut, MicroBatch, Model, hops},
    pipeline::{Program, schedule::Stages},
};
use grid::{AxisOrder, Degrees, Grid};
use std::{cell::RefCell, ops::Range, rc::Rc};
use tensor::{DType, Device, Error, Result};

/// The work of one segment per row of the batch, forward.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentWork {
    /// Its [kind](Model::kind).
    pub kind: String,
    /// Its linear layers.
    pub linear: Vec<LinearWork>,
    /// The norms of its weights' columns, once in a step.
    pub column_norms: Vec<ColumnNormsWork>,
    /// Its attentions, cut over X.
    pub attention: Vec<AttentionWork>,
    /// Flop of matmuls between activations outside attention, cut over X.
    pub activation_flop: f64,
    /// Elements that elementwise operations and norms output, by [`Place`].
    pub elements: [usize; Place::COUNT],
    /// Elements of its parameters; a shared one counts in the first segment that uses it.
    pub parameters: usize,
    /// Those of them that are trained.
    pub trained: usize,
    /// Those of them that are stored as codes.
    pub quantised: usize,
    /// Bytes of these codes and their scales.
    pub code_bytes: f64,
    /// Rows and columns of those that are [hidden matrices](Parameter::is_hidden_matrix) and are trained.
    pub matrices: Vec<[usize; 2]>,
    /// Whether recomputation runs its forward again.
    pub recomputed: bool,
    /// Whether backward reaches it: not before the first trained parameter.
    pub has_backward: bool,
    /// Its cost, by which stages are cut: without the passes that frozen parameters spare it.
    pub cost: f64,
}

/// A tensor that flows between segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireWork {
    /// The segment that makes it.
    pub from: usize,
    /// The segments that use it.
    pub to: Vec<usize>,
    /// Elements per row of the batch.
    pub elements: usize,
    /// How they lie on ranks.
    pub place: Place,
    /// Whether its gradient comes back.
    pub wants_gradient: bool,
}

impl WireWork {
    /// How often it passes in a micro-batch: there, and its gradient back.
    pub fn times(&self) -> usize {
        1 + usize::from(self.wants_gradient)
    }
}

/// The work of a model per row of the batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// By segment.
    pub segments: Vec<SegmentWork>,
    /// The wires between them.
    pub wires: Vec<WireWork>,
    /// Runs of segments that recomputation treats as one.
    pub recomputed: Vec<Range<usize>>,
}

/// What a pass counts, if counting is requested.
#[derive(Debug, Default)]
pub(crate) struct Ledger(RefCell<SegmentWork>);

/// The context of one rank on a device that computes nothing, for building a model there and inspecting it.
///
/// # Errors
/// None that a user can cause.
pub fn dry_context() -> Result<Context> {
    let device = Device::new(hal::dry::open())?;
    let grid = Grid::new(Degrees::default(), AxisOrder::default());
    let grid = grid.map_err(|error| Error::invalid("work", error.to_string(), "one rank"))?;
    // Which vectors can be spread is counted whether or not they will be.
    let settings = Settings {
        sequence_parallel: true,
        ..Settings::default()
    };
    Context::new(bootstrap::World::alone(), grid, device, settings)
}

impl Ledger {
    pub(crate) fn linear(&self, work: LinearWork) {
        self.0.borrow_mut().linear.push(work);
    }

    pub(crate) fn column_norms(&self, work: ColumnNormsWork) {
        self.0.borrow_mut().column_norms.push(work);
    }

    pub(crate) fn attention(&self, work: AttentionWork) {
        self.0.borrow_mut().attention.push(work);
    }

    pub(crate) fn activations(&self, flop: f64) {
        self.0.borrow_mut().activation_flop += flop;
    }

    pub(crate) fn elements(&self, place: Place, elements: usize) {
        self.0.borrow_mut().elements[place.index()] += elements;
    }
}

impl Work {
    /// Counts the work of a model that `build` declares on the given context, for rows with these columns.
    ///
    /// # Cost
    /// The host's part of one forward pass; nothing is computed and no memory is taken.
    /// # Errors
    /// Those of `build` and of the model.
    pub fn count<M: Model + 'static>(
        columns: impl FnOnce(&Device) -> Result<MicroBatch>,
        dtype: DType,
        build: impl FnOnce(&Context) -> Result<(M, Vec<Parameter>)>,
    ) -> Result<Work> {
        let context = dry_context()?;
        let device = context.device().clone();
        let (model, parameters) = build(&context)?;
        let cut = Cut::new(&model, &parameters, Stages::plain(1), None)?;
        let costs = Cut::costs(&model, &parameters)?;
        let set = ParameterSet::allocate(
            &context,
            parameters.clone(),
            &[],
            SetOptions::inference(dtype),
        )?;
        let recomputed = model.recomputed();
        let program = Program {
            model: Rc::new(model),
            cut: Rc::new(cut),
            memory: Rc::default(),
            recomputed: Rc::default(),
        };
        let rows = columns(&device)?;
        let evaluation = set.evaluate(rows.rows().len());
        let pass = evaluation.pass(rows.rows())?.with_ledger(Rc::default());
        let (mut segments, wires) = device.with_gradients(|| program.count(&pass, &rows))?;
        for wire in wires.iter().filter(|wire| wire.wants_gradient) {
            segments[wire.from].has_backward = true;
        }
        for parameter in &parameters {
            let first = parameter.segments().first().copied();
            if let Some(work) = first.and_then(|segment| segments.get_mut(segment)) {
                let elements = parameter.global_shape().iter().product::<usize>();
                work.parameters += elements;
                work.trained += if parameter.is_frozen() { 0 } else { elements };
                if let Some(format) = parameter.quantised() {
                    work.quantised += elements;
                    work.code_bytes += elements as f64 * format.bytes_per_weight();
                }
                if parameter.is_hidden_matrix() && !parameter.is_frozen() {
                    let shape = parameter.global_shape();
                    work.matrices.push([shape[0], shape[1]]);
                }
            }
        }
        // Of a run that backward does not reach, nothing is computed again.
        let reached = |run: &&Range<usize>| {
            let of_run = segments.get((*run).clone());
            of_run.is_some_and(|all| all.iter().any(|work| work.has_backward))
        };
        let again: Vec<Range<usize>> = recomputed.iter().filter(reached).cloned().collect();
        for (segment, work) in segments.iter_mut().enumerate() {
            work.recomputed = again.iter().any(|run| run.contains(&segment));
            work.cost = costs[segment] * work.share_of_passes();
            work.kind = program.model.kind(segment).to_owned();
        }
        Ok(Work {
            segments,
            wires,
            recomputed,
        })
    }

    /// What each segment does with what it keeps.
    ///
    /// # Errors
    /// As [`ActivationMemory::of_segments`].
    pub fn memory(&self, memory: &ActivationMemory) -> Result<Vec<SegmentMemory>> {
        memory.of_segments(&self.kinds(), &self.recomputed)
    }

    /// The [kind](Model::kind) of each segment.
    pub fn kinds(&self) -> Vec<&str> {
        self.segments.iter().map(|segment| &*segment.kind).collect()
    }

    /// Elements of all parameters.
    pub fn num_parameters(&self) -> usize {
        self.segments.iter().map(|segment| segment.parameters).sum()
    }

    /// Elements of those that are trained.
    pub fn num_trained(&self) -> usize {
        self.segments.iter().map(|segment| segment.trained).sum()
    }

    /// The wires that cross between stages if the model is cut into these parts, each once for every message: a
    /// stage receives a wire once, however many of its parts read it.
    pub fn crossing(&self, parts: &[Range<usize>], stages: Stages) -> Vec<&WireWork> {
        let mut crossing = Vec::new();
        for wire in &self.wires {
            let hops = hops(parts, stages, wire.from, &wire.to);
            let stage = |part: usize| stages.location(part).stage;
            let messages = hops.iter().filter(|(from, to)| stage(*from) != stage(*to));
            crossing.extend(messages.map(|_| wire));
        }
        crossing
    }

    /// Flop per row of matmuls and attention, forward and backward, as published figures count them: 6 per
    /// weight and vector, and attention's full square, half of which causal attention never computes.
    pub fn flop_per_row(&self) -> f64 {
        let linear = |work: &LinearWork| {
            6.0 * (work.vectors * work.inputs) as f64 * work.outputs.iter().sum::<usize>() as f64
        };
        let segment = |work: &SegmentWork| {
            let attention = work.attention.iter().map(AttentionWork::flop).sum::<f64>();
            work.linear.iter().map(linear).sum::<f64>() + 6.0 * (attention + work.activation_flop)
        };
        self.segments.iter().map(segment).sum()
    }
}

impl Ledger {
    /// The work counted since the last call.
    pub(crate) fn take(&self) -> SegmentWork {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}
