//! Parameters: a global name, a global shape, a layout; and this rank's shard.
//!
//! `initial` has its initial values, `shard` what follows from the layout, `quantised` weights that are stored as codes, and `used`
//! how layers read a parameter and add to its gradient.
//!
//! The layout alone determines the axes over which a gradient must be summed, the weight of a shard in a global
//! norm, its slice of a checkpoint and its slice of the initial values.

mod initial;
mod quantised;
mod shard;
mod used;

pub use initial::column_norms;

use crate::{Context, Init, data::Flat};
use grid::{Axis, IndexBox, Layout};
use hal::quantised::Quantised;
use initial::Initial;
use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
    rc::Rc,
};
use tensor::{DType, Error, Result, Tensor};

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
    /// Whether linear layers give the model's output, so that their weights are no
    /// [hidden matrices](Parameter::is_hidden_matrix).
    pub output: bool,
}

impl Scope {
    /// Trained parameters of the first segment, in no group.
    pub fn new(context: &Context) -> Scope {
        Scope {
            context: context.clone(),
            segment: 0,
            group: None,
            frozen: false,
            output: false,
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
    initial: Initial,
    decays: bool,
    group: Option<Rc<str>>,
    frozen: Cell<bool>,
    hidden: Cell<bool>,
    quantised: Cell<Option<Quantised>>,
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
    /// Its place among the bucket's parameters.
    pub(crate) place: usize,
    /// The type of the values, however they are stored.
    pub(crate) dtype: DType,
    /// Views into the bucket's flat buffers; none of a gradient that replicas hold in shards.
    pub(crate) stored: Flat,
    pub(crate) gradient: Option<Flat>,
    /// Whether they do.
    pub(crate) shards_gradient: bool,
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
        Parameter::begun(
            scope,
            name,
            global_shape,
            layout,
            (Initial::Drawn(init), decays),
        )
    }

    fn begun(
        scope: &Scope,
        name: &str,
        global_shape: &[usize],
        layout: Layout,
        (initial, decays): (Initial, bool),
    ) -> Result<Parameter> {
        check(name, global_shape, &layout)?;
        let context = &scope.context;
        let index = layout.local_box(global_shape, context.grid(), context.coordinates());
        Ok(Parameter(Rc::new(Inner {
            name: name.into(),
            global_shape: global_shape.to_vec(),
            layout,
            index,
            initial,
            decays,
            group: scope.group.clone(),
            frozen: Cell::new(scope.frozen),
            hidden: Cell::new(false),
            quantised: Cell::new(None),
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
        self.0.frozen.get()
    }

    /// Freezes it. All ranks must do so, before a parameter set is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter that is part of a set.
    pub fn freeze(&self) -> Result<()> {
        if self.settled().is_some() {
            let operation = format!("freezing {}", self.0.name);
            return Err(Error::invalid(
                operation,
                "a part of a set",
                "one before its set is made",
            ));
        }
        self.0.frozen.set(true);
        Ok(())
    }

    /// Whether it is the matrix of a linear map between hidden features, for which an optimiser may have a rule of its own.
    ///
    /// Weights of linear layers are, as long as they keep two dims and their layer does not give the model's output. Look-up
    /// tables are not, nor are heads over a table, biases, gains, and parameters of custom layers that do not
    /// [say so](Parameter::set_hidden_matrix).
    pub fn is_hidden_matrix(&self) -> bool {
        self.0.hidden.get()
    }

    /// Declares that it is the matrix of a linear map between hidden features, or that it is not. All ranks must do so, before
    /// a parameter set is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a hidden matrix without exactly two dims, and for a parameter that is part of a set.
    pub fn set_hidden_matrix(&self, hidden: bool) -> Result<()> {
        let found = match self.settled() {
            Some(_) => "a part of a set".to_owned(),
            None if hidden && self.0.global_shape.len() != 2 => {
                format!("shape {:?}", self.0.global_shape)
            }
            None => {
                self.0.hidden.set(hidden);
                return Ok(());
            }
        };
        let operation = format!("hidden matrix {}", self.0.name);
        Err(Error::invalid(
            operation,
            found,
            "two dims, before its set is made",
        ))
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
    /// # Cost
    /// If weights are [beyond the device](crate::data::StatePlaces), the host's time to bring them there, unless they have come ahead.
    /// If they are stored [as codes](Parameter::quantise), a pass over them, and memory for the result.
    /// # Errors
    /// [`Error::Invalid`] for a parameter without memory on this rank: one that is not yet part of a set, or
    /// that belongs to segments of other stages. Those of bringing it to the device.
    pub fn value(&self) -> Result<Tensor> {
        let dtype = self.dtype()?;
        self.dequantised(&self.stored()?, dtype)
    }

    /// The type of the values.
    ///
    /// # Errors
    /// For a parameter without memory on this rank.
    pub(crate) fn dtype(&self) -> Result<DType> {
        Ok(self.home("value")?.dtype)
    }

    /// The shard's values as they are stored: under its shape, or the bytes of codes.
    ///
    /// # Errors
    /// As [`value`](Parameter::value).
    pub(crate) fn stored(&self) -> Result<Tensor> {
        self.home("value")?.stored.tensor().cloned()
    }

    /// The shard's gradient, in the accumulator type; backward passes add to it.
    ///
    /// # Errors
    /// As [`value`](Parameter::value); [`Error::Invalid`] also for a frozen parameter, in a set made for inference, and where
    /// replicas hold gradients in shards.
    pub fn gradient(&self) -> Result<Tensor> {
        let home = self.home("gradient")?;
        let gradient = home.gradient.as_ref().ok_or_else(|| {
            let (found, needed) = if home.shards_gradient {
                (
                    "shards along Data",
                    "ParameterSet::read, which gathers them",
                )
            } else if self.is_frozen() {
                ("a frozen parameter", "a parameter that is trained")
            } else {
                ("a set made for inference", "a parameter that is trained")
            };
            Error::invalid(format!("gradient of {}", self.0.name), found, needed)
        })?;
        gradient.tensor().cloned()
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
    if let Some(axis) = [Axis::Context, Axis::Data, Axis::Pipeline]
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
