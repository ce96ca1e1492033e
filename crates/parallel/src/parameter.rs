//! Parameters: a global name, a global shape, a layout; and this rank's shard.
//!
//! From the layout alone follow the axes that a gradient must be summed over, the weight of a shard in a global norm,
//! its slice of a checkpoint and its slice of the initial values.

use crate::Context;
use ::tensor::{Error, Result, Tensor, Var, ops};
use grid::{Axis, IndexBox, Layout, shard_range};
use hal::{Counts, random::Key};
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

/// Initial values, as a function of seed, name and global index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Every element the same.
    Constant(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in plus or minus this bound.
    Uniform(f64),
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
    // Views into flat buffers, which the set of parameters allocates once all are declared.
    value: RefCell<Option<Tensor>>,
    gradient: RefCell<Option<Tensor>>,
    contributions: Cell<u64>,
}

impl Parameter {
    /// Declares a parameter: nothing is allocated yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the layout has another number of dims than the shape.
    pub fn declare(
        context: &Context,
        name: &str,
        global_shape: &[usize],
        layout: Layout,
        init: Init,
        decays: bool,
    ) -> Result<Parameter> {
        if layout.num_dims() != global_shape.len() {
            let found = format!("layout {layout} for shape {global_shape:?}");
            return Err(Error::invalid(
                format!("parameter {name}"),
                found,
                "as many dims",
            ));
        }
        // A block is gathered by putting the shards of Z one behind the other, so Z cuts rows, after all other axes.
        let z_is_innermost = layout.dims()[0].last() == Some(&Axis::Z);
        if layout.cuts(Axis::Z).is_some() && !z_is_innermost {
            let found = format!("layout {layout}");
            return Err(Error::invalid(
                format!("parameter {name}"),
                found,
                "axis z as the last to cut the first dim",
            ));
        }
        let index = layout.local_box(global_shape, context.grid(), context.coordinates());
        Ok(Parameter(Rc::new(Inner {
            name: name.into(),
            global_shape: global_shape.to_vec(),
            layout,
            index,
            init,
            decays,
            value: RefCell::new(None),
            gradient: RefCell::new(None),
            contributions: Cell::new(0),
        })))
    }

    /// Global name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Shape of the whole.
    pub fn global_shape(&self) -> &[usize] {
        &self.0.global_shape
    }

    /// Which axes cut which dims.
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

    /// Whether weight decay acts on it.
    pub fn decays(&self) -> bool {
        self.0.decays
    }

    /// The shard's values, in the compute type.
    ///
    /// # Panics
    /// When the set of parameters has not been allocated: a bug of ours.
    pub fn value(&self) -> Tensor {
        self.0
            .value
            .borrow()
            .clone()
            .expect("parameters are allocated before a model runs")
    }

    /// The shard's gradient, in the accumulator type; added to by backward passes.
    ///
    /// # Panics
    /// As [`value`](Parameter::value).
    pub fn gradient(&self) -> Tensor {
        self.0
            .gradient
            .borrow()
            .clone()
            .expect("gradients are allocated before a model is trained")
    }

    /// Gives the parameter its memory.
    pub(crate) fn place(&self, value: Tensor, gradient: Option<Tensor>) {
        *self.0.value.borrow_mut() = Some(value);
        *self.0.gradient.borrow_mut() = gradient;
    }

    /// Notes that one product's or look-up's addend has been queued into the gradient.
    pub(crate) fn contributed(&self) {
        self.0.contributions.set(self.0.contributions.get() + 1);
    }

    /// Number of addends queued since the gradients were last set to zero.
    pub(crate) fn contributions(&self) -> &Cell<u64> {
        &self.0.contributions
    }

    /// The axes over which the gradient must still be summed after backward: those that split the batch and do not
    /// cut the parameter. An axis that cuts it was summed by a reduce-scatter.
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
        let key = Key::new(seed, &self.0.name, 0);
        let draw = |index: usize| match self.0.init {
            Init::Constant(value) => value,
            Init::Normal(deviation) => deviation * key.normal(index as u64),
            Init::Uniform(bound) => bound * (2.0 * f64::from(key.uniform(index as u64)) - 1.0),
        };
        let runs = self.0.index.contiguous_runs(&self.0.global_shape);
        runs.flat_map(|(start, len)| (start..start + len).map(draw))
            .collect()
    }

    /// The shard as a differentiable value, for layers that a user writes of plain operations.
    ///
    /// Its gradient is added to the parameter's, and summed over the axes that [`sum_axes`](Parameter::sum_axes) names.
    pub fn var(&self, context: &Context) -> Var {
        let (parameter, context) = (self.clone(), context.clone());
        Var::leaf(self.value(), move |gradient| {
            ops::axpby(1.0, &gradient, 1.0, &parameter.gradient())?;
            context.gradient_added(&parameter)
        })
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

    /// Elements of that block which each rank of axis Z holds: runs of its rows.
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

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Parameter({} {:?} {})",
            self.0.name, self.0.global_shape, self.0.layout
        )
    }
}
