//! Parameters: a global name, a global shape, a layout; and this rank's shard.
//!
//! The layout alone determines the axes over which a gradient must be summed, the weight of a shard in a global
//! norm, its slice of a checkpoint and its slice of the initial values.

use crate::{
    Context, DTensor, Init, Pass, Purpose, Reproducible,
    counters::Subject,
    layers::{
        gather,
        scatter::{Addend, Grain},
    },
    sums::Leaves,
};
use grid::{Axis, IndexBox, Layout, shard_range};
use hal::{Counts, random::Key};
use std::{
    cell::{OnceCell, RefCell},
    fmt,
    ops::Range,
    rc::Rc,
};
use tensor::{DType, Error, ReduceOp, Result, Tensor, Var, ops};

/// Properties shared by the parameters of a part of a model.
#[derive(Clone, Debug)]
pub struct Scope {
    /// This rank's context.
    pub context: Context,
    /// The segment of the model that uses them.
    pub segment: usize,
    /// Name of the group with its own learning rate and weight decay, if they belong to one.
    pub group: Option<Rc<str>>,
    /// Whether they are frozen: no gradient, no optimiser state.
    pub frozen: bool,
}

impl Scope {
    /// Trained parameters of the first segment, in no group.
    pub fn new(context: &Context) -> Scope {
        Scope {
            context: context.clone(),
            segment: 0,
            group: None,
            frozen: false,
        }
    }
}

/// One parameter of a model as one rank holds it. Cloning clones the handle.
#[derive(Clone)]
pub struct Parameter(Rc<Inner>);

struct Inner {
    name: String,
    global_shape: Vec<usize>,
    layout: Layout,
    index: IndexBox,
    init: Init,
    decays: bool,
    group: Option<Rc<str>>,
    frozen: bool,
    segments: RefCell<Vec<usize>>,
    home: OnceCell<Home>,
}

/// Where the parameter set has stored a parameter.
#[derive(Debug)]
pub(crate) struct Home {
    /// The same for all parameters of a set.
    pub(crate) set: Rc<()>,
    /// Index of the parameter within the set.
    pub(crate) index: usize,
    /// Index of its bucket.
    pub(crate) bucket: usize,
    /// Views into the bucket's flat buffers.
    pub(crate) value: Tensor,
    pub(crate) gradient: Option<Tensor>,
}

impl Parameter {
    /// Declares a parameter: nothing is allocated yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape without dims or with a dim of 0 elements, a layout and a shape with different
    /// numbers of dims, a layout that cuts by Data or Pipeline, and one in which Z is not the last axis to cut the
    /// first dim.
    pub fn declare(
        scope: &Scope,
        name: &str,
        global_shape: &[usize],
        layout: Layout,
        init: Init,
        decays: bool,
    ) -> Result<Parameter> {
        check(name, global_shape, &layout)?;
        let context = &scope.context;
        let index = layout.local_box(global_shape, context.grid(), context.coordinates());
        Ok(Parameter(Rc::new(Inner {
            name: name.into(),
            global_shape: global_shape.to_vec(),
            layout,
            index,
            init,
            decays,
            group: scope.group.clone(),
            frozen: scope.frozen,
            segments: RefCell::new(vec![scope.segment]),
            home: OnceCell::new(),
        })))
    }

    /// Global name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Shape of the full parameter.
    pub fn global_shape(&self) -> &[usize] {
        &self.0.global_shape
    }

    /// The axes that cut its dims.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Global indices of this rank's shard.
    pub fn index(&self) -> &IndexBox {
        &self.0.index
    }

    /// Shape of this rank's shard.
    pub fn local_shape(&self) -> &[usize] {
        &self.0.index.shape
    }

    /// Number of elements of this rank's shard.
    pub fn num_elements(&self) -> usize {
        self.0.index.num_elements()
    }

    /// Whether weight decay applies to it.
    pub fn decays(&self) -> bool {
        self.0.decays
    }

    /// Name of the group with its own learning rate and weight decay, if it belongs to one.
    pub fn group(&self) -> Option<&str> {
        self.0.group.as_deref()
    }

    /// Whether it is frozen: no gradient, no optimiser state.
    pub fn is_frozen(&self) -> bool {
        self.0.frozen
    }

    /// The segments of the model that use it, in the order of their declaration.
    pub fn segments(&self) -> Vec<usize> {
        self.0.segments.borrow().clone()
    }

    /// Declares another segment that uses it. Each stage that holds one of these segments has a copy, and the
    /// gradients of the copies are summed.
    pub fn share_with(&self, segment: usize) {
        let mut segments = self.0.segments.borrow_mut();
        if !segments.contains(&segment) {
            segments.push(segment);
        }
    }

    /// Whether both are handles of one parameter.
    pub fn is(&self, other: &Parameter) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The shard's values, in the compute type.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter without memory on this rank: one that is not yet part of a set, or
    /// that belongs to segments of other stages.
    pub fn value(&self) -> Result<Tensor> {
        Ok(self.home("value")?.value.clone())
    }

    /// The shard's gradient, in the accumulator type; backward passes add to it.
    ///
    /// # Errors
    /// As [`value`](Parameter::value); [`Error::Invalid`] also for a frozen parameter, and in a set made for
    /// inference.
    pub fn gradient(&self) -> Result<Tensor> {
        let gradient = &self.home("gradient")?.gradient;
        gradient.clone().ok_or_else(|| {
            let found = if self.0.frozen {
                "a frozen parameter"
            } else {
                "a set made for inference"
            };
            let operation = format!("gradient of {}", self.0.name);
            Error::invalid(operation, found, "a parameter that is trained")
        })
    }

    fn home(&self, what: &str) -> Result<&Home> {
        self.0.home.get().ok_or_else(|| {
            let found = format!("no memory on this rank, for segments {:?}", self.segments());
            let needed = "a use in one of its segments, after the model is built; `share` names further segments";
            Error::invalid(format!("{what} of {}", self.0.name), found, needed)
        })
    }

    /// Assigns the parameter its memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it already has memory.
    pub(crate) fn settle(&self, home: Home) -> Result<()> {
        self.0.home.set(home).map_err(|_| {
            let operation = format!("parameter {}", self.0.name);
            Error::invalid(operation, "a part of another set", "a parameter of one set")
        })
    }

    /// Where its set has stored it.
    pub(crate) fn settled(&self) -> Option<&Home> {
        self.0.home.get()
    }

    /// The axes over which the gradient must still be summed after backward: those that split the batch and do
    /// not cut the parameter. For an axis that cuts it, a reduce-scatter has done the sum.
    pub fn sum_axes(&self) -> Vec<Axis> {
        [Axis::Z, Axis::Data]
            .into_iter()
            .filter(|&axis| self.0.layout.cuts(axis).is_none())
            .collect()
    }

    /// Whether this rank counts its shard in a global norm, so that each element counts once over X, Y and Z.
    pub fn counts_in_norm(&self, context: &Context) -> bool {
        Axis::tensor()
            .into_iter()
            .all(|axis| self.0.layout.cuts(axis).is_some() || context.index(axis) == 0)
    }

    /// The initial values of this rank's shard.
    pub fn initial_values(&self, seed: u64) -> Vec<f64> {
        let mut values = vec![0.0; self.num_elements()];
        self.draw_initial(seed, 1, &mut values);
        values
    }

    /// Draws them into `values` on that many threads.
    pub(crate) fn draw_initial(&self, seed: u64, threads: usize, values: &mut [f64]) {
        let key = Key::new(seed, &self.0.name, 0);
        let runs = self.0.index.contiguous_runs(&self.0.global_shape);
        self.0.init.draw(key, runs, threads, values);
    }

    /// The shard as a differentiable value for use with `x`, in layers that a user writes from plain
    /// operations.
    ///
    /// Its gradient is added to the parameter's in the accumulator type, like the gradients of layers: a sum over
    /// rows is not rounded to 16 bits in each micro-batch. If an axis cuts the features of `x` but not the
    /// parameter, every rank along it sees part of the parameter's uses, and their gradients are summed first. If sums are
    /// to be [reproducible](Reproducible::Grid) on any grid, a rank's micro-batch must then have a single row, and features
    /// must not be cut.
    ///
    /// # Cost
    /// That sum: an all-reduce of the shard.
    /// # Errors
    /// [`Error::Invalid`] for a parameter that Z cuts, which [`block`](Parameter::block) returns, for one cut by an
    /// axis that does not cut the features of `x`, and for one without memory on this rank.
    pub fn var(&self, x: &DTensor) -> Result<Var> {
        let (pass, context) = (x.pass().clone(), x.context());
        let cut_by = |axis: &Axis| self.0.layout.cuts(*axis).is_some() && context.degree(*axis) > 1;
        if let Some(axis) = Axis::tensor()
            .into_iter()
            .find(|axis| cut_by(axis) && Some(*axis) != x.cut())
        {
            let found = format!("a parameter cut by {axis} with {x:?}");
            let needed = "features cut by the same axis, and none of the parameter's dims by z";
            return Err(Error::invalid(&self.0.name, found, needed));
        }
        let value = self.value()?;
        if self.0.frozen || !pass.is_training() {
            return Ok(Var::constant(value));
        }
        let summed_over = x.cut().filter(|axis| self.0.layout.cuts(*axis).is_none());
        let by_nodes = context.settings().reproducible == Reproducible::Grid;
        if by_nodes {
            self.check_plain_use(&pass, summed_over)?;
        }
        let parameter = self.clone();
        Ok(Var::summed_leaf(value, move |gradient| {
            let context = pass.context();
            let group = summed_over.map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
            let gradient = match group {
                Some(group) => {
                    let dtype = gradient.dtype().accumulator();
                    let sum = Tensor::empty(gradient.device(), dtype, gradient.shape())?;
                    ops::cast_into(&gradient, &sum)?;
                    let compute = context.device().compute();
                    group.all_reduce(context, Subject::Gradients, &compute, &sum, ReduceOp::Sum)?;
                    sum
                }
                None => gradient,
            };
            let (sum, factor) = pass.gradient_of(&parameter)?;
            match by_nodes {
                true => {
                    let (batch, row) = (pass.num_rows(), pass.rows().start);
                    let at_use = (pass.count_use(&parameter), Leaves { rows: 1, batch });
                    let add = |target: &Tensor, beta| ops::axpby(1.0, &gradient, beta, target);
                    pass.add_node(&parameter, at_use, row..row + 1, add)?;
                }
                false => ops::axpby(1.0, &gradient, factor, &sum)?,
            }
            pass.gradient_added(&parameter)
        }))
    }

    // Plain operations sum a gradient over all rows of a pass and all features of a rank, in an order of their own.
    fn check_plain_use(&self, pass: &Pass, summed_over: Option<Axis>) -> Result<()> {
        let rows = pass.rows().len();
        let ranks = summed_over.map_or(1, |axis| pass.context().degree(axis));
        match rows == 1 && ranks == 1 {
            true => Ok(()),
            false => {
                let name = &self.0.name;
                let found = format!(
                    "{name} in plain operations on {rows} rows, and features cut by {ranks}"
                );
                let needed = "one row in each micro-batch of a rank and features that are not cut, or a layer that \
                              calls Parameter::add_gradient";
                Err(Error::invalid("reproducible sums", found, needed))
            }
        }
    }

    /// The block that the ranks of Z hold together, for a custom layer; without ranks on Z, the shard itself.
    ///
    /// # Shapes
    /// Rows of all shards of Z x columns of this rank's.
    /// # Cost
    /// An all-gather over Z, which may have been issued ahead.
    /// # Errors
    /// As [`value`](Parameter::value); those of the collective.
    pub fn block(&self, pass: &Pass) -> Result<Tensor> {
        gather::gather(pass, self, Subject::Linear)
    }

    /// Adds a gradient to the parameter's, for a custom layer whose weight Z may cut.
    ///
    /// `into(rows, target, beta)` computes the gradient of the full [`block`](Parameter::block) from some of the pass's
    /// rows, counted from its first one, and stores `beta * target` plus it in `target`. Without ranks on Z the target is
    /// the gradient itself; otherwise it is a block of type `dtype`, which is then reduce-scattered. The rows are all of
    /// the pass; or, if sums are to be [reproducible](Reproducible::Grid) on any grid, each row in turn, or a few short
    /// ones. `inner` is the number of vectors in a row of the batch, such as tokens; [`Pass::part`] cuts a tensor.
    ///
    /// # Errors
    /// Those of `into` and of the collective; [`Error::Invalid`] outside a training step or after its end, for a
    /// parameter of another set, and for one without memory on this rank.
    pub fn add_gradient(
        &self,
        pass: &Pass,
        (dtype, inner): (DType, usize),
        into: impl FnMut(&Range<usize>, &Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let addend = Addend {
            parameter: self,
            subject: Subject::Linear,
            block_dtype: dtype,
            inner,
            grain: Grain::Leaf,
            number: pass.count_use(self),
        };
        addend.add(pass, into)
    }

    /// Shape of the block that the ranks of axis Z hold together.
    pub(crate) fn block_shape(&self, context: &Context) -> Vec<usize> {
        let without_z = self
            .0
            .layout
            .dims()
            .iter()
            .map(|axes| axes.iter().copied().filter(|&a| a != Axis::Z).collect());
        let layout = Layout::cut(without_z.collect()).expect("a part of a valid layout is valid");
        layout.local_shape(&self.0.global_shape, context.grid(), context.coordinates())
    }

    /// Elements of that block that each rank of axis Z holds: runs of its rows.
    pub(crate) fn block_counts(&self, context: &Context) -> Counts {
        let block = self.block_shape(context);
        let (ranks, columns) = (
            context.degree(Axis::Z),
            block[1..].iter().product::<usize>(),
        );
        match block[0] % ranks {
            0 => Counts::Even(block[0] / ranks * columns),
            _ => Counts::Uneven(
                (0..ranks)
                    .map(|i| shard_range(block[0], ranks, i).len() * columns)
                    .collect(),
            ),
        }
    }

    /// Whether ranks of axis Z hold different rows of it, so that it must be gathered before use.
    pub(crate) fn is_scattered(&self, context: &Context) -> bool {
        context.degree(Axis::Z) > 1 && self.0.layout.cuts(Axis::Z).is_some()
    }
}

fn check(name: &str, shape: &[usize], layout: &Layout) -> Result<()> {
    let refuse = |found: String, needed: &str| {
        Err(Error::invalid(format!("parameter {name}"), found, needed))
    };
    if shape.is_empty() || shape.contains(&0) {
        return refuse(
            format!("shape {shape:?}"),
            "at least one dim, and none of 0 elements",
        );
    }
    if layout.num_dims() != shape.len() {
        return refuse(
            format!("layout {layout} for shape {shape:?}"),
            "as many dims",
        );
    }
    // Replicas along Data hold full weights, and stages are cut by segments.
    if let Some(axis) = [Axis::Data, Axis::Pipeline]
        .into_iter()
        .find(|axis| layout.cuts(*axis).is_some())
    {
        return refuse(
            format!("layout {layout}, cut by {axis}"),
            "cuts by x, y and z alone",
        );
    }
    // A block is gathered by concatenating the shards of Z, so Z cuts rows, after all other axes.
    let z_is_innermost = layout.dims()[0].last() == Some(&Axis::Z);
    match layout.cuts(Axis::Z).is_none() || z_is_innermost {
        true => Ok(()),
        false => refuse(
            format!("layout {layout}"),
            "axis z as the last to cut the first dim",
        ),
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Parameter({} {:?} {})",
            self.0.name, self.0.global_shape, self.0.layout
        )
    }
}
