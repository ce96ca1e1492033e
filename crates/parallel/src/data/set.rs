//! All parameters of a rank.

use super::{
    Sharding, StatePlaces,
    addends::Addends,
    bucket::{Bucket, VersionGradients},
    checks::{check_names, check_placement, check_wire},
    classes::{classes, split},
    lines::LineMeans,
    progress::Progress,
    room::Room,
    shards::Sharded,
};
use crate::{
    Context, Mode, Parameter, RowCut,
    digest::{Hashed, Observed},
    layers::gather::Request,
};
use grid::Axis;
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};
use tensor::{DType, Error, MemoryUse, Result, ops};

/// The purpose of the buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// Type of values and activations.
    pub dtype: DType,
    /// Whether there are gradients.
    pub trains: bool,
    /// State tensors of the optimiser per weight.
    pub num_states: usize,
    /// The same for [hidden matrices](Parameter::is_hidden_matrix), if the optimiser has a rule for each of them as a whole.
    pub matrix_states: Option<usize>,
    /// Whether the state of [large parameters](SetOptions::is_coded), of two tensors each, is kept as 8-bit codes.
    pub codes: bool,
    /// Whether the state is means of the rows and columns of each parameter, and no state tensors.
    pub factors: bool,
    /// What replicas along Data hold in shards.
    pub sharding: Sharding,
    /// Where state is.
    pub places: StatePlaces,
    /// How many [versions](ParameterSet::version) of its parameters there are.
    pub versions: usize,
}

impl SetOptions {
    /// Only values, for running a model forward.
    pub const fn inference(dtype: DType) -> SetOptions {
        SetOptions {
            dtype,
            trains: false,
            num_states: 0,
            matrix_states: None,
            codes: false,
            factors: false,
            sharding: Sharding::None,
            places: StatePlaces::DEVICE,
            versions: 1,
        }
    }

    /// Whether the optimiser updates this parameter as a whole matrix.
    pub fn is_whole(&self, parameter: &Parameter) -> bool {
        self.matrix_states.is_some() && parameter.is_hidden_matrix() && !parameter.is_frozen()
    }

    /// State tensors of this parameter, if it is trained.
    pub fn states_of(&self, parameter: &Parameter) -> usize {
        let of_matrix = self.matrix_states.filter(|_| self.is_whole(parameter));
        of_matrix.unwrap_or(self.num_states)
    }
}

/// A parameter of which several pipeline stages hold a copy.
#[derive(Clone, Debug)]
pub struct Tied {
    /// The parameter.
    pub parameter: Parameter,
    /// World ranks that hold it, starting with the one whose copy counts in norms and checkpoints.
    pub members: Vec<usize>,
    /// Segments of this stage that use it.
    pub uses: usize,
}

/// The parameters of a rank with their memory. Cloning clones the handle.
#[derive(Clone)]
pub struct ParameterSet(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) context: Context,
    pub(super) parameters: Vec<Parameter>,
    pub(super) buckets: Vec<Bucket>,
    pub(super) options: SetOptions,
    /// If the state is kept as means of rows and columns.
    pub(super) lines: Option<LineMeans>,
    /// What holds state beyond the device.
    pub(super) room: Room,
    // Its address identifies the set.
    token: Rc<()>,
    pub(super) progress: RefCell<Progress>,
    // Where sums are to be reproducible: the nodes of each use of each parameter in this step.
    pub(super) addends: RefCell<Vec<Vec<Addends>>>,
    // Where replicas shard gradients: what this step has added to those of each bucket.
    pub(super) sharded: RefCell<Vec<Sharded>>,
    // The weights that the last pass of each mode requested, in order.
    orders: RefCell<[Rc<[Request]>; 2]>,
    // Whether a pass has requested random masks.
    draws_masks: Cell<bool>,
    // What segments return, while it is wanted.
    observed: Observed,
    // How the batch of the current step is cut.
    pub(super) cut: Cell<RowCut>,
    // Number of steps begun so far, by which results of an earlier step are recognised.
    pub(super) steps_begun: Cell<u64>,
}

impl ParameterSet {
    /// Allocates values, gradients and state for `parameters`, and sets the initial values.
    ///
    /// # Errors
    /// [`Error::Invalid`] for two parameters with one name, for one that belongs to another set, for codes of other than two
    /// states, for means beside states, for codes or means beyond the device, for an update on the host of state on the device or
    /// of whole matrices, and if the host or the disk lacks room for state that is to be there;
    /// [`Error::Unsupported`] for a type that the device lacks; [`Error::OutOfMemory`].
    pub fn allocate(
        context: &Context,
        parameters: Vec<Parameter>,
        tied: &[Tied],
        options: SetOptions,
    ) -> Result<ParameterSet> {
        ParameterSet::make(context, parameters, tied, options, None)
    }

    /// A further version of this set's parameters, which are declared once more: with values of its own, `gradients` as that says,
    /// and the same state of the optimiser. [`take_turns`](Self::take_turns) sets the order of all versions.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a set of one [version](SetOptions::versions), and for other parameters; as
    /// [`allocate`](Self::allocate).
    pub fn version(
        &self,
        parameters: Vec<Parameter>,
        tied: &[Tied],
        gradients: VersionGradients,
    ) -> Result<ParameterSet> {
        let invalid = |found: &str| {
            let needed = "the same parameters, in a set of several versions";
            Err(Error::invalid("version of parameters", found, needed))
        };
        let names = |all: &[Parameter]| -> Vec<(String, Vec<usize>)> {
            let name = |one: &Parameter| (one.name().to_owned(), one.local_shape().to_vec());
            all.iter().map(name).collect()
        };
        if self.0.options.versions < 2 {
            return invalid("a set of one version");
        }
        if names(&parameters) != names(&self.0.parameters) {
            return invalid("other parameters");
        }
        let options = self.0.options.clone();
        let of = Some((self, gradients));
        ParameterSet::make(&self.0.context, parameters, tied, options, of)
    }

    /// Sets the order in which versions are updated: each after the one before it, and the first after the last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of versions than their [options](SetOptions::versions) state, and if their order is
    /// set already.
    pub fn take_turns(versions: &[ParameterSet]) -> Result<()> {
        let count = versions.len();
        let refuse = |found: String, needed: String| {
            Err(Error::invalid("versions of parameters", found, needed))
        };
        for (index, set) in versions.iter().enumerate() {
            let needed = set.0.options.versions;
            if needed != count {
                return refuse(count.to_string(), needed.to_string());
            }
            let before = |back: usize| &versions[(index + count - back) % count];
            for (number, bucket) in set.0.buckets.iter().enumerate() {
                let others = (1..count).map(|back| before(back).0.buckets[number].values.clone());
                if bucket.previous.set(others.collect()).is_err() {
                    return refuse("an order".into(), "versions without one".into());
                }
            }
        }
        Ok(())
    }

    /// Sets the values to those of the version that was updated before this one, after all work that reads the ones that were here.
    ///
    /// # Cost
    /// A copy of the weights, in the type of activations.
    /// # Errors
    /// [`Error::Invalid`] for a set of one version; those of the device.
    pub fn catch_up(&self) -> Result<()> {
        let mut buckets = self.0.buckets.iter();
        buckets.try_for_each(|bucket| ops::copy(bucket.previous(1)?, bucket.values.tensor()?))
    }

    fn make(
        context: &Context,
        parameters: Vec<Parameter>,
        tied: &[Tied],
        options: SetOptions,
        other: Option<(&ParameterSet, VersionGradients)>,
    ) -> Result<ParameterSet> {
        check_names(&parameters)?;
        if options.codes && options.num_states != 2 {
            let found = format!("{} states of 8-bit codes", options.num_states);
            return Err(Error::invalid(
                "optimiser state",
                found,
                "2, of two moments",
            ));
        }
        if options.factors && (options.num_states > 0 || options.codes) {
            let found = format!("{} states beside means of rows", options.num_states);
            return Err(Error::invalid("optimiser state", found, "either of them"));
        }
        check_wire(context, &options)?;
        check_placement(&options)?;
        let sharding = match options.trains && context.degree(Axis::Data) > 1 {
            true => options.sharding,
            false => Sharding::None,
        };
        let options = SetOptions {
            sharding,
            ..options
        };
        let sum_bytes = options.dtype.accumulator().bytes();
        let token = Rc::new(());
        let room = match other {
            Some((other, _)) => other.0.room.version(),
            None => Room::new(context, &options)?,
        };
        let mut buckets = Vec::new();
        for class in classes(context, &parameters, tied, &options) {
            for group in split(
                class.parameters,
                context.settings().bucket_bytes / sum_bytes,
            ) {
                let place = (&token, buckets.len());
                buckets.push(Bucket::allocate(
                    context,
                    group,
                    (class.tie.clone(), class.uses),
                    (&options, &room),
                    other.map(|(other, gradients)| (&other.0.buckets[buckets.len()], gradients)),
                    place,
                )?);
            }
        }
        room.reserve(context)?;
        let lines = match other {
            Some((other, _)) => other.0.lines.clone(),
            None => LineMeans::allocate(context, &parameters, &options)?,
        };
        let progress = Progress::new(parameters.len(), buckets.len());
        let addends = parameters.iter().map(|_| Vec::new()).collect();
        let sharded = buckets.iter().map(|_| Sharded::default()).collect();
        let set = ParameterSet(Rc::new(Inner {
            context: context.clone(),
            addends: RefCell::new(addends),
            sharded: RefCell::new(sharded),
            parameters,
            buckets,
            lines,
            room,
            options,
            token,
            progress: RefCell::new(progress),
            orders: RefCell::default(),
            draws_masks: Cell::new(false),
            observed: Observed::default(),
            cut: Cell::new(RowCut::from(0)),
            steps_begun: Cell::new(0),
        }));
        set.initialise()?;
        Ok(set)
    }

    /// The parameters, in the order of their declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.0.parameters
    }

    /// The purpose of the buffers.
    pub fn options(&self) -> &SetOptions {
        &self.0.options
    }

    /// The host's memory that an update there holds: its state, and buffers. `None` if the device updates the weights.
    pub fn host_memory(&self) -> Option<MemoryUse> {
        let host = self.0.room.host.as_ref()?;
        Some(host.device().memory_use())
    }

    /// Whether this rank's copy of a parameter is the one that counts: the first of the stages that share it.
    pub fn is_first_copy(&self, parameter: &Parameter) -> bool {
        let home = parameter.settled().filter(|_| self.holds(parameter));
        let members = home.and_then(|home| self.0.buckets[home.bucket].tied.as_ref());
        members.is_none_or(|members| members[0] == self.0.context.world().rank())
    }

    /// From now on, hashes what segments return in forward; [`take_observed`](Self::take_observed) ends that.
    pub fn observe(&self) {
        self.0.observed.begin();
    }

    /// The hashes of what segments returned since [`observe`](Self::observe), on this rank.
    pub fn take_observed(&self) -> Vec<Hashed> {
        self.0.observed.take()
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.0.observed
    }

    pub(crate) fn note_masks(&self) {
        self.0.draws_masks.set(true);
    }

    /// Whether a training pass has drawn random masks so far.
    pub fn draws_masks(&self) -> bool {
        self.0.draws_masks.get()
    }

    /// Whether the parameter belongs to this set.
    pub fn holds(&self, parameter: &Parameter) -> bool {
        parameter
            .settled()
            .is_some_and(|home| Rc::ptr_eq(&home.set, &self.0.token))
    }

    /// The weights that the last pass of this mode requested, in order.
    pub(super) fn order(&self, mode: Mode) -> Rc<[Request]> {
        self.0.orders.borrow()[mode as usize].clone()
    }

    /// Stores that order for the next pass.
    pub(super) fn learn_order(&self, mode: Mode, asked: Vec<Request>) {
        if !asked.is_empty() {
            self.0.orders.borrow_mut()[mode as usize] = asked.into();
        }
    }
}

impl fmt::Debug for ParameterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ParameterSet({} parameters in {} buckets)",
            self.0.parameters.len(),
            self.0.buckets.len()
        )
    }
}
