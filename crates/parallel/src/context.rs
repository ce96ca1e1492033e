//! What one rank knows: its place on the grid, its device, its streams and groups, and where in the run it is.

use crate::{
    Counters, Parameter, Settings,
    group::{Group, Purpose},
    mapping::mapping,
    report::Report,
    tensor::{gather::Gatherer, scatter::Scatterer},
};
use ::tensor::{DType, Device, Error, MemoryKind, Result, Stream, StreamKind, Tensor};
use bootstrap::World;
use grid::{Axis, Coordinates, Grid, Mapping, machine::Machine};
use std::{
    cell::{Cell, OnceCell, Ref, RefCell, RefMut},
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::Arc,
};

/// Where in the run the current forward pass is: all that random masks depend on besides the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the training step.
    pub step: u64,
    /// Global index, within the batch, of the first sequence of this rank's current micro-batch.
    pub first_sequence: usize,
    /// Whether dropout acts.
    pub training: bool,
}

/// The view of one rank, shared by everything it runs. Cloning clones the handle.
#[derive(Clone)]
pub struct Context(Rc<Inner>);

struct Inner {
    world: World,
    grid: Grid,
    mapping: Mapping,
    coordinates: Coordinates,
    machine: OnceCell<Arc<Machine>>,
    device: Device,
    settings: Settings,
    streams: RefCell<HashMap<&'static str, Stream>>,
    groups: RefCell<HashMap<(String, Purpose), Rc<Group>>>,
    // Asked for by every collective, so found without listing members or writing a label.
    axes: RefCell<HashMap<(Axis, Purpose), Rc<Group>>>,
    counters: RefCell<Counters>,
    report: RefCell<Report>,
    position: Cell<Position>,
    backward: Cell<bool>,
    gatherer: RefCell<Gatherer>,
    scatterer: RefCell<Scatterer>,
    // Told of each addend that has been queued into a gradient; the buckets listen.
    listener: RefCell<Option<Listener>>,
}

/// Called with each parameter into whose gradient an addend has been queued.
pub(crate) type Listener = Rc<dyn Fn(&Context, &Parameter) -> Result<()>>;

impl Context {
    /// The view of this rank of `world` on `grid`, at the position that its node gives it. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the grid has another number of ranks than the world; those of the exchange of places.
    pub fn new(world: World, grid: Grid, device: Device, settings: Settings) -> Result<Context> {
        if grid.world_size() != world.size() {
            let found = format!("grid {} of {} ranks", grid.degrees(), grid.world_size());
            return Err(Error::invalid(
                "grid",
                found,
                format!("{}, the number of ranks", world.size()),
            ));
        }
        let mapping = mapping(&world, &grid, settings.positions)?;
        let coordinates = grid.coordinates(mapping.position_of(world.rank()));
        Ok(Context(Rc::new(Inner {
            world,
            grid,
            mapping,
            coordinates,
            machine: OnceCell::new(),
            device,
            settings,
            streams: RefCell::default(),
            groups: RefCell::default(),
            axes: RefCell::default(),
            counters: RefCell::default(),
            report: RefCell::default(),
            position: Cell::default(),
            backward: Cell::default(),
            gatherer: RefCell::default(),
            scatterer: RefCell::default(),
            listener: RefCell::new(None),
        })))
    }

    /// This rank's place among all ranks.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// The grid of ranks.
    pub fn grid(&self) -> &Grid {
        &self.0.grid
    }

    /// Which rank sits at which position of the grid.
    pub fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }

    /// World ranks that differ from this one on no axis but these, in the order of the group.
    pub fn members(&self, axes: &[Axis]) -> Vec<usize> {
        self.0
            .mapping
            .members(&self.0.grid, self.0.world.rank(), axes)
    }

    /// Says on which machine this runs; the first time counts. Every rank must say the same.
    pub fn describe_machine(&self, machine: Arc<Machine>) {
        self.0.machine.get_or_init(|| machine);
    }

    /// The machine, if its description is known.
    pub fn machine(&self) -> Option<&Machine> {
        self.0.machine.get().map(Arc::as_ref)
    }

    /// This rank's coordinates on the grid.
    pub fn coordinates(&self) -> &Coordinates {
        &self.0.coordinates
    }

    /// Number of ranks along `axis`.
    pub fn degree(&self, axis: Axis) -> usize {
        self.0.grid.degree(axis)
    }

    /// This rank's index along `axis`.
    pub fn index(&self, axis: Axis) -> usize {
        self.0.coordinates.get(axis)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// How steps run.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Where in the run the current forward pass is.
    pub fn position(&self) -> Position {
        self.0.position.get()
    }

    /// Says where in the run the next forward pass is, and gives the position before.
    pub fn set_position(&self, position: Position) -> Position {
        self.0.position.replace(position)
    }

    /// Runs a backward pass, and with it what it computes again.
    pub(crate) fn in_backward<T>(&self, pass: impl FnOnce() -> T) -> T {
        let before = self.0.backward.replace(true);
        let result = pass();
        self.0.backward.set(before);
        result
    }

    /// Whether a backward pass is under way.
    pub(crate) fn is_backward(&self) -> bool {
        self.0.backward.get()
    }

    /// Bytes that collectives have moved so far.
    pub fn counters(&self) -> RefMut<'_, Counters> {
        self.0.counters.borrow_mut()
    }

    /// What the library decided by itself, such as changes of layout.
    pub fn report(&self) -> RefMut<'_, Report> {
        self.0.report.borrow_mut()
    }

    /// The weights' gatherer.
    pub(crate) fn gatherer(&self) -> &RefCell<Gatherer> {
        &self.0.gatherer
    }

    /// Weight gradients on their way through a reduce-scatter.
    pub(crate) fn scatterer(&self) -> &RefCell<Scatterer> {
        &self.0.scatterer
    }

    /// Has `listener` called from now on, or nobody.
    pub(crate) fn listen(&self, listener: Option<Listener>) {
        *self.0.listener.borrow_mut() = listener;
    }

    /// Notes that an addend has been queued into the gradient of `parameter`.
    pub(crate) fn gradient_added(&self, parameter: &Parameter) -> Result<()> {
        parameter.contributed();
        let listener = self.0.listener.borrow().clone();
        listener.map_or(Ok(()), |listener| listener(self, parameter))
    }

    /// The communication stream of that name, made at its first use.
    pub(crate) fn stream(&self, name: &'static str) -> Result<Stream> {
        if let Some(stream) = self.0.streams.borrow().get(name) {
            return Ok(stream.clone());
        }
        let stream = self
            .0
            .device
            .create_stream(StreamKind::Communication, name)?;
        self.0.streams.borrow_mut().insert(name, stream.clone());
        Ok(stream)
    }

    /// Memory for what a collective or a message brings, counted as that.
    pub(crate) fn buffer(&self, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        let device = self.device();
        device.allocating(MemoryKind::Buffers, || Tensor::empty(device, dtype, shape))
    }

    /// This rank's group along `axis`; `None` when the axis has one rank. Made, collectively, at its first use.
    ///
    /// # Errors
    /// [`Error::Timeout`] naming the ranks that did not come; [`Error::Aborted`].
    pub fn group(&self, axis: Axis, purpose: Purpose) -> Result<Option<Rc<Group>>> {
        if self.degree(axis) == 1 {
            return Ok(None);
        }
        if let Some(group) = self.0.axes.borrow().get(&(axis, purpose)) {
            return Ok(Some(group.clone()));
        }
        let members = self.members(&[axis]);
        let group = Group::join(
            self,
            &format!("axis {}", axis.name()),
            axis,
            &members,
            purpose,
        )?;
        let group = Rc::new(group);
        self.0
            .axes
            .borrow_mut()
            .insert((axis, purpose), group.clone());
        Ok(Some(group))
    }

    /// The group of these ranks, which lie along `axis`. Made, collectively, at its first use.
    ///
    /// # Errors
    /// As [`group`](Context::group).
    pub fn group_of(
        &self,
        label: String,
        axis: Axis,
        members: &[usize],
        purpose: Purpose,
    ) -> Result<Rc<Group>> {
        let key = (label, purpose);
        if let Some(group) = self.0.groups.borrow().get(&key) {
            return Ok(group.clone());
        }
        let group = Rc::new(Group::join(self, &key.0, axis, members, purpose)?);
        self.0.groups.borrow_mut().insert(key, group.clone());
        Ok(group)
    }

    /// The host exchange of the ranks that share this rank's coordinates on all axes but `axes`.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn exchange(&self, label: &str, axes: &[Axis]) -> Result<Arc<dyn hal::Exchange>> {
        self.world().exchange(label, &self.members(axes))
    }

    /// Forgets what the last step left behind, and starts a pass of weights' gathers of that kind.
    pub fn begin(&self, pass: &'static str) {
        self.0.gatherer.borrow_mut().begin(pass);
    }

    /// What collectives have moved, for reading.
    pub fn counted(&self) -> Ref<'_, Counters> {
        self.0.counters.borrow()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Context(rank {} at {})",
            self.0.world.rank(),
            self.0.coordinates
        )
    }
}
