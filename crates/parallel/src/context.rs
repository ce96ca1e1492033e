//! The view of one rank: its place on the grid, its device, its streams and groups.

use crate::{
    Counters, Reproducible, Settings,
    counters::{Operation, Subject},
    group::{Group, Purpose},
    lane::Lane,
    mapping::mapping,
    pipeline::schedule::{Placement, Sharing},
    report::{Redistribution, Report},
};
use bootstrap::World;
use grid::{Axis, Coordinates, Grid, Mapping, machine::Machine};
use offload::Place;
use std::{
    array,
    cell::{OnceCell, RefCell},
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::Arc,
};
use tensor::{DType, Device, Error, MemoryKind, Result, Stream, Tensor};

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
    host: OnceCell<Device>,
    settings: Settings,
    // Whether each kind of collective has a stream of its own.
    separates_collectives: bool,
    // Every collective needs its stream, so streams are found without hashing a name or listing members.
    streams: [OnceCell<Stream>; Lane::COUNT],
    axes: [[OnceCell<Rc<Group>>; Purpose::COUNT]; Axis::ALL.len()],
    groups: RefCell<HashMap<(String, Purpose), Rc<Group>>>,
    counters: RefCell<Counters>,
    report: RefCell<Report>,
}

impl Context {
    /// The view of this rank of `world` on `grid`, at the position that follows from its node. Collective.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the grid has another number of ranks than the world, and when sums are to be reproducible on
    /// any grid and the device has no [canonical sums](hal::Capabilities::canonical_sums); those of the exchange of places.
    pub fn new(world: World, grid: Grid, device: Device, settings: Settings) -> Result<Context> {
        if grid.world_size() != world.size() {
            let found = format!("grid {} of {} ranks", grid.degrees(), grid.world_size());
            return Err(Error::invalid(
                "grid",
                found,
                format!("{}, the number of ranks", world.size()),
            ));
        }
        if settings.reproducible == Reproducible::Grid && !device.capabilities().canonical_sums {
            let description = device.capabilities().description.clone();
            return Err(Error::invalid(
                "reproducible sums on any grid",
                description,
                "a device that keeps the order of sums: the CPU, or a GPU opened with canonical sums",
            ));
        }
        let mapping = mapping(&world, &grid, settings.positions)?;
        let coordinates = grid.coordinates(mapping.position_of(world.rank()));
        let separates_collectives = separates_collectives(&device, &grid);
        Ok(Context(Rc::new(Inner {
            separates_collectives,
            world,
            grid,
            mapping,
            coordinates,
            machine: OnceCell::new(),
            device,
            host: OnceCell::new(),
            settings,
            streams: array::from_fn(|_| OnceCell::new()),
            axes: array::from_fn(|_| array::from_fn(|_| OnceCell::new())),
            groups: RefCell::default(),
            counters: RefCell::default(),
            report: RefCell::default(),
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

    /// The placement of ranks on the grid.
    pub fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }

    /// World ranks that differ from this one only on these axes, in the order of the group.
    pub fn members(&self, axes: &[Axis]) -> Vec<usize> {
        self.0
            .mapping
            .members(&self.0.grid, self.0.world.rank(), axes)
    }

    /// Sets the machine on which this runs; only the first call counts. Every rank must set the same machine.
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

    /// This rank's share of the host's processors, beside its device; opened on first use.
    ///
    /// # Errors
    /// As [`Device::open_host`].
    pub(crate) fn host(&self) -> Result<Device> {
        if let Some(host) = self.0.host.get() {
            return Ok(host.clone());
        }
        let host = self.0.device.open_host(self.threads_of_host())?;
        Ok(self.0.host.get_or_init(|| host).clone())
    }

    /// The threads of the host that are this rank's share.
    pub(crate) fn threads_of_host(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (processors / self.world().local_size()).max(1)
    }

    /// How steps run.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Bytes that collectives have moved since the last [reset](Context::reset_counters).
    pub fn counters(&self) -> Counters {
        self.0.counters.borrow().clone()
    }

    /// Resets all counts to zero.
    pub fn reset_counters(&self) {
        self.0.counters.borrow_mut().reset();
    }

    /// Counts one collective on a whole buffer of `bytes`.
    pub(crate) fn count(&self, axis: Axis, operation: Operation, subject: Subject, bytes: usize) {
        self.0
            .counters
            .borrow_mut()
            .add(axis, operation, subject, bytes);
    }

    /// The library's own decisions, such as changes of layout.
    pub fn report(&self) -> Report {
        self.0.report.borrow().clone()
    }

    /// Records a change of layout.
    pub(crate) fn note_redistribution(&self, redistribution: Redistribution) {
        self.0.report.borrow_mut().note(redistribution);
    }

    /// Records a collective in two levels.
    pub(crate) fn note_levels(&self, axis: Axis, operation: Operation) {
        self.0.report.borrow_mut().note_levels(axis, operation);
    }

    /// The stream for this lane, made on first use.
    pub(crate) fn stream(&self, lane: Lane) -> Result<Stream> {
        let lane = match lane.is_of_collectives() && !self.0.separates_collectives {
            true => Lane::Collectives,
            false => lane,
        };
        let slot = &self.0.streams[lane as usize];
        if let Some(stream) = slot.get() {
            return Ok(stream.clone());
        }
        let stream = self.0.device.create_stream(lane.kind(), lane.name())?;
        Ok(slot.get_or_init(|| stream).clone())
    }

    /// The device's queues that collectives leave for messages between stages; `None` for any number.
    pub(crate) fn queues_for_messages(&self) -> Option<usize> {
        let of_collectives = match self.0.separates_collectives {
            true => Lane::COLLECTIVES,
            false => 1,
        };
        let queues = self.device().num_queues()?;
        Some(queues.saturating_sub(of_collectives))
    }

    /// The streams to a place beyond the device and back, which all that is there shares.
    pub(crate) fn links(&self, place: &Place) -> Result<[Stream; 2]> {
        let lanes = match place {
            Place::Files { .. } => [Lane::ToFiles, Lane::FromFiles],
            Place::Host | Place::Nowhere => [Lane::ToHost, Lane::FromHost],
        };
        let [there, back] = lanes.map(|lane| self.stream(lane));
        Ok([there?, back?])
    }

    /// Memory for the result of a collective or a message, counted as a buffer.
    pub(crate) fn buffer(&self, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        let device = self.device();
        device.allocating(MemoryKind::Buffers, || Tensor::empty(device, dtype, shape))
    }

    /// This rank's group along `axis`; `None` if the axis has one rank. Created collectively on first use.
    ///
    /// # Errors
    /// Those of [`Communicator::join`](tensor::Communicator::join): [`Error::Timeout`] naming the ranks that did not
    /// arrive, [`Error::Aborted`] and others.
    pub fn group(&self, axis: Axis, purpose: Purpose) -> Result<Option<Rc<Group>>> {
        if self.degree(axis) == 1 {
            return Ok(None);
        }
        let slot = &self.0.axes[axis as usize][purpose as usize];
        if let Some(group) = slot.get() {
            return Ok(Some(group.clone()));
        }
        let members = self.members(&[axis]);
        let label = format!("axis {}", axis.name());
        let group = Rc::new(Group::join(self, &label, axis, &members, purpose)?);
        Ok(Some(slot.get_or_init(|| group).clone()))
    }

    /// The group of these ranks, which lie along `axis`. Created collectively on first use.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `members` lacks this rank, or lists one twice or one that does not exist; otherwise as
    /// [`group`](Context::group).
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

    /// The host exchange of the ranks whose coordinates differ from this rank's only on `axes`.
    ///
    /// # Errors
    /// Those of [`World::exchange`](bootstrap::World::exchange).
    pub fn exchange(&self, label: &str, axes: &[Axis]) -> Result<Arc<dyn hal::Exchange>> {
        self.world().exchange(label, &self.members(axes))
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

// Kinds wait for each other only where the device has too few queues for all that may go on at a time.
fn separates_collectives(device: &Device, grid: &Grid) -> bool {
    let messages = match grid.degree(Axis::Pipeline) {
        1 => 0,
        _ => Sharing::Links.num_streams(Placement::V, 0),
    };
    let queues = device.num_queues();
    queues.is_none_or(|queues| queues >= Lane::COLLECTIVES + messages)
}
