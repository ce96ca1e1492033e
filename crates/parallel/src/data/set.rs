//! All parameters of a rank, and when the gradients of a bucket are final.

use super::{
    Sharding, StatePlaces, UpdatePlace,
    addends::Addends,
    bucket::{Bucket, VersionGradients},
    classes::{classes, split},
    lines::LineMeans,
    room::Room,
    shards::Sharded,
};
use crate::{
    Context, Mode, Parameter, Pass, Reproducible, RowCut,
    digest::{Hashed, Observed},
    layers::{gather::Request, scatter},
};
use grid::Axis;
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};
use tensor::{DType, Error, MemoryUse, Result, Tensor, ops};

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
    progress: RefCell<Progress>,
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

// The progress of the gradients in the current step; lists are indexed by parameter.
#[derive(Default)]
struct Progress {
    addends: Vec<u64>,
    // Number of addends that each parameter receives per step, learnt from the first step.
    expected: Option<Vec<u64>>,
    reduces_early: bool,
    reduced: Vec<bool>,
    num_reduced: usize,
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
        let progress = Progress {
            addends: vec![0; parameters.len()],
            reduced: vec![false; buckets.len()],
            ..Progress::default()
        };
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

    /// Forgets all gradients: the first addend to each will replace it. Each bucket will be reduced as soon as its gradients
    /// are final.
    pub(super) fn forget_gradients(&self) {
        let mut progress = self.0.progress.borrow_mut();
        self.forget_addends();
        self.forget_shards();
        if let Some(pages) = &self.0.room.gradients {
            pages.forget();
        }
        progress.addends.fill(0);
        progress.reduced.fill(false);
        progress.num_reduced = 0;
        progress.reduces_early =
            self.0.context.settings().overlap.data && progress.expected.is_some();
    }

    /// The gradient to which an addend to that of a parameter of this set is added in a micro-batch, and the factor of what it
    /// holds: 0 for the first addend, because the tensor still holds another gradient.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; as [`Parameter::gradient`].
    pub(crate) fn gradient_of(
        &self,
        parameter: &Parameter,
        micro_batch: usize,
    ) -> Result<(Tensor, f64)> {
        if self.0.options.sharding.shards_gradients()
            && let Some(open) = self.open_gradient(parameter, micro_batch)?
        {
            return Ok(open);
        }
        let factor = if self.has_no_addend(parameter) {
            0.0
        } else {
            1.0
        };
        Ok((parameter.gradient()?, factor))
    }

    /// Whether the parameter, one of this set, has received nothing in this step.
    fn has_no_addend(&self, parameter: &Parameter) -> bool {
        let progress = self.0.progress.borrow();
        let home = parameter.settled().filter(|_| self.holds(parameter));
        home.is_some_and(|home| progress.addends[home.index] == 0)
    }

    // What the step did not use has a gradient of 0.
    fn clear_unused(&self, bucket: &Bucket) -> Result<()> {
        let unused = |parameter: &&Parameter| self.has_no_addend(parameter);
        let homes = bucket.parameters.iter().filter(unused);
        homes
            .filter_map(|parameter| parameter.settled()?.gradient.as_ref())
            .try_for_each(|gradient| gradient.tensor()?.fill(0.0))
    }

    /// Ends the backward passes of a step: reduces the buckets that are not yet reduced, in their order.
    pub(super) fn reduce_all(&self, pass: &Pass) -> Result<()> {
        scatter::settle(pass, 0)?;
        if self.0.options.sharding.shards_gradients() {
            let stream = self.reduction_stream()?;
            return self
                .0
                .buckets
                .iter()
                .enumerate()
                .try_for_each(|(index, bucket)| {
                    self.end_shards(index)?;
                    bucket.reduce_tied(&self.0.context, &stream)
                });
        }
        self.0.progress.borrow_mut().reduces_early = false;
        (0..self.0.buckets.len()).try_for_each(|index| self.reduce(index))?;
        let mut progress = self.0.progress.borrow_mut();
        let addends = progress.addends.clone();
        if let Some(expected) = &progress.expected
            && *expected != addends
            && self.0.context.settings().overlap.data
        {
            let differs = expected
                .iter()
                .zip(&addends)
                .position(|(one, other)| one != other);
            let index = differs.unwrap_or(0);
            let name = self.0.parameters[index].name();
            let found = format!(
                "{name} used {} times, in the first step {}",
                addends[index], expected[index]
            );
            let needed = "the same uses in every step, or the overlap of Data switched off";
            return Err(Error::invalid("reduction of gradients", found, needed));
        }
        progress.expected = Some(addends);
        Ok(())
    }

    /// Records an addend that has been queued into the gradient of a parameter of this set, and reduces the
    /// parameter's bucket once the last addend of its last parameter is there: the last of the step, or where replicas shard
    /// gradients, of the micro-batch.
    pub(crate) fn note(&self, parameter: &Parameter, micro_batch: usize) -> Result<()> {
        if self.0.options.sharding.shards_gradients() {
            return self.note_open(parameter, micro_batch);
        }
        let Some(home) = parameter.settled() else {
            return Ok(());
        };
        let mut progress = self.0.progress.borrow_mut();
        progress.addends[home.index] += 1;
        let bucket = &self.0.buckets[home.bucket];
        let Some(expected) = progress
            .expected
            .as_ref()
            .filter(|_| progress.reduces_early)
        else {
            return Ok(());
        };
        let is_final = |parameter: &Parameter| {
            let index = parameter.settled().map_or(0, |home| home.index);
            progress.addends[index] >= expected[index]
        };
        // A table that stages share waits for the other stage's backward, and so would everything queued after
        // it.
        let all_final = bucket.tied.is_none() && bucket.parameters.iter().all(is_final);
        drop(progress);
        match all_final {
            true => self.reduce(home.bucket),
            false => Ok(()),
        }
    }

    fn reduce(&self, index: usize) -> Result<()> {
        let bucket = &self.0.buckets[index];
        {
            let progress = &mut *self.0.progress.borrow_mut();
            if std::mem::replace(&mut progress.reduced[index], true) {
                return Ok(());
            }
            bucket.turn.set(progress.num_reduced);
            progress.num_reduced += 1;
        }
        self.reduce_bucket(bucket)?;
        // An update on the host waits for these gradients, and not for the rest of backward.
        match (&self.0.room.host, bucket.own_gradients()?) {
            (Some(_), Some(gradients)) => gradients.record_uses(),
            _ => Ok(()),
        }
    }

    fn reduce_bucket(&self, bucket: &Bucket) -> Result<()> {
        let context = &self.0.context;
        self.clear_unused(bucket)?;
        let is_cut = |axis: &Axis| context.degree(*axis) > 1;
        let by_nodes = context.settings().reproducible == Reproducible::Grid;
        let travels = bucket.sum_axes.iter().any(is_cut) || bucket.tied.is_some();
        if !travels && !by_nodes {
            return Ok(());
        }
        let stream = match travels {
            true => self.reduction_stream()?,
            false => context.device().compute(),
        };
        match by_nodes {
            true => self.reduce_nodes(bucket, self.0.cut.get(), &stream)?,
            false => bucket.reduce(context, &stream)?,
        }
        bucket.reduce_tied(context, &stream)
    }
}

// The tree of a sum has no place for a rounding that depends on the grid.
fn check_wire(context: &Context, options: &SetOptions) -> Result<()> {
    let settings = context.settings();
    let dtype = settings.gradient_wire.over_data(options.dtype);
    let rounds = options.trains && dtype != options.dtype.accumulator();
    match rounds && settings.reproducible == Reproducible::Grid {
        false => Ok(()),
        true => Err(Error::invalid(
            "reproducible sums",
            format!("gradients that travel in {}", dtype.name()),
            "gradient_wire mixed or wide",
        )),
    }
}

// Ranks agree on such state in the middle of an update, and means become directions of all gradients at once.
fn check_placement(options: &SetOptions) -> Result<()> {
    let (state, gradients) = (&options.places.optimiser, &options.places.gradients);
    let on_host = options.trains && options.places.update == UpdatePlace::Host;
    let state_here = "a number for each weight, or state on the device";
    let (found, needed) = match (options.codes, options.factors) {
        (true, _) if state.is_beyond() => ("8-bit codes beyond the device", state_here),
        (_, true) if state.is_beyond() => {
            ("means of rows and columns beyond the device", state_here)
        }
        _ if on_host && !state.is_beyond() => (
            "an update on the host of state on the device",
            "state on the host or in files",
        ),
        _ if on_host && options.matrix_states.is_some() => (
            "an update on the host of matrices that are updated as a whole",
            "a number for each weight, or an update on the device",
        ),
        (_, true) if gradients.is_beyond() => (
            "means of rows and columns, with gradients beyond the device",
            "a number for each weight, or gradients on the device",
        ),
        _ => return Ok(()),
    };
    Err(Error::invalid("optimiser state", found, needed))
}

fn check_names(parameters: &[Parameter]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match parameters
        .iter()
        .find(|parameter| !seen.insert(parameter.name()))
    {
        None => Ok(()),
        Some(twice) => Err(Error::invalid(
            "parameters",
            format!("two named {}", twice.name()),
            "one of each name",
        )),
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
