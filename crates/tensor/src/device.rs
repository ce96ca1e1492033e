//! A device as one rank drives it: its streams, GEMMs, kernels and memory.

use crate::{
    MemoryKind, MemoryUse, Stream, StreamKind, memory::Allocator, recording::Notes,
    saved::SavedSegment, trace::Tracer,
};
use hal::{DType, DeviceId, Error, Exchange, Result};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Distinguishes the open devices of a process, because one device may be opened twice under one id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceKey {
    serial: u64,
    id: DeviceId,
}

impl DeviceKey {
    fn new(id: DeviceId) -> DeviceKey {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        DeviceKey { serial, id }
    }

    /// Refuses an object of another device.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming that device.
    #[inline]
    pub(crate) fn owns(self, operation: &str, what: &str, other: DeviceKey) -> Result<()> {
        if self.serial == other.serial {
            return Ok(());
        }
        let again = match self.id == other.id {
            true => ", opened another time",
            false => "",
        };
        Err(Error::invalid(
            operation,
            format!("{what} of {}{again}", other.id),
            format!("one of {}", self.id),
        ))
    }
}

/// A device, shared by everything that one rank makes on it. Cloning clones the handle.
#[derive(Clone)]
pub struct Device(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    // Dropped in this order: streams finish their work before the memory that it uses is freed.
    pub(crate) compute: RefCell<Option<Stream>>,
    pub(crate) blas: Arc<dyn hal::Blas>,
    pub(crate) kernels: Arc<dyn hal::Kernels>,
    pub(crate) memory: Allocator,
    pub(crate) tracer: RefCell<Option<Tracer>>,
    pub(crate) recorded: RefCell<Option<Rc<Notes>>>,
    pub(crate) saving: RefCell<Option<Rc<SavedSegment>>>,
    pub(crate) allocating: Cell<MemoryKind>,
    pub(crate) gradients: Cell<bool>,
    pub(crate) skipped: Cell<bool>,
    pub(crate) next_node: Cell<u64>,
    pub(crate) key: DeviceKey,
    // Opened beside another device.
    is_beside: bool,
    pub(crate) hal: Arc<dyn hal::Device>,
}

impl Device {
    /// Wraps a vendor's device and makes its compute stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the vendor's library or the kernels for this device are missing; [`Error::Vendor`] if a
    /// stream, the GEMM handle or the kernels cannot be made.
    pub fn new(hal: Arc<dyn hal::Device>) -> Result<Device> {
        Device::opened(hal, false)
    }

    fn opened(hal: Arc<dyn hal::Device>, is_beside: bool) -> Result<Device> {
        let device = Device(Rc::new(Inner {
            compute: RefCell::new(None),
            blas: hal.create_blas()?,
            kernels: hal.kernels()?,
            memory: Allocator::new(hal.clone()),
            tracer: RefCell::new(None),
            recorded: RefCell::new(None),
            saving: RefCell::new(None),
            allocating: Cell::default(),
            gradients: Cell::new(true),
            skipped: Cell::default(),
            next_node: Cell::new(0),
            key: DeviceKey::new(hal.id()),
            is_beside,
            hal,
        }));
        let queue = device.0.hal.create_stream(StreamKind::Compute)?;
        // Before ranks wait for each other: to allocate or load something waits for running work, such as a receive.
        device.0.blas.prepare(&*queue)?;
        let compute = Stream::main(queue, device.0.key);
        *device.0.compute.borrow_mut() = Some(compute);
        Ok(device)
    }

    /// Vendor and ordinal.
    pub fn id(&self) -> DeviceId {
        self.0.hal.id()
    }

    /// The capabilities of the device.
    pub fn capabilities(&self) -> &hal::Capabilities {
        self.0.hal.capabilities()
    }

    /// Whether tensors of that type can be made and computed with.
    pub fn supports(&self, dtype: DType) -> bool {
        self.capabilities().dtypes.contains(&dtype)
    }

    /// The stream on which all GEMMs and kernels run.
    pub fn compute(&self) -> Stream {
        self.0
            .compute
            .borrow()
            .clone()
            .expect("a device has its compute stream from `new` on")
    }

    /// How many streams of [communication](StreamKind::Communication) the device runs apart from each other; `None` for any number.
    pub fn num_queues(&self) -> Option<usize> {
        self.0.hal.num_queues()
    }

    /// Makes another stream; `name` appears in traces.
    ///
    /// # Errors
    /// [`Error::Vendor`] if the device cannot make one.
    pub fn create_stream(&self, kind: StreamKind, name: &str) -> Result<Stream> {
        let queue = self.0.hal.create_stream(kind)?;
        Ok(Stream::new(queue, name, self.0.key))
    }

    /// Wraps a vendor's stream that something else has made, such as another framework in this process: work on it runs in that
    /// framework's order, without a wait of the host.
    ///
    /// # Safety
    /// `handle` is a stream of this device (`CUstream`, `hipStream_t`), in the device's primary context. It lives until the stream
    /// and all tensors that it has used are dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vendor without such handles, like the CPU.
    pub unsafe fn adopt_stream(&self, handle: usize, name: &str) -> Result<Stream> {
        // SAFETY: the caller's guarantee.
        let queue = unsafe { self.0.hal.adopt_stream(handle) }?;
        Ok(Stream::new(queue, name, self.0.key))
    }

    /// The vendor's device, for joining groups.
    pub fn hal(&self) -> &Arc<dyn hal::Device> {
        &self.0.hal
    }

    /// A device of `threads` of the host's processors and of the host's memory, which works beside this one: work is queued there
    /// as on any device, and runs on threads of its own.
    ///
    /// # Errors
    /// As [`hal::Device::open_host`].
    pub fn open_host(&self, threads: usize) -> Result<Device> {
        Device::opened(self.0.hal.open_host(threads)?, true)
    }

    /// How many blocks of each size tensors have taken from the device, in use or kept for others.
    pub fn block_sizes(&self) -> BTreeMap<usize, usize> {
        self.0.memory.sizes()
    }

    /// Takes the blocks that are missing to these numbers, so that work that needs no others allocates nothing; no more than the
    /// device has memory for.
    ///
    /// # Errors
    /// [`Error::Vendor`].
    pub fn reserve_blocks(&self, sizes: &BTreeMap<usize, usize>) -> Result<()> {
        self.0.memory.reserve(sizes)
    }

    /// Whether it works on any memory of this process, also on a queue.
    pub(crate) fn works_on_the_host(&self) -> bool {
        let known = self.capabilities();
        known.host_memory || (self.0.is_beside && known.holds_values)
    }

    /// As [`hal::Device::locks_pages`].
    pub fn locks_pages(&self) -> bool {
        self.0.hal.locks_pages()
    }

    /// Makes all ranks use the same variant of each GEMM from now on: the one found by the lowest rank that
    /// timed it.
    ///
    /// Collective over the ranks of `exchange`. Does nothing if GEMMs have only one variant.
    ///
    /// # Errors
    /// Those of the exchange; [`Error::Invalid`] if a rank's choices are not valid or stand for another library than this
    /// rank's, or cannot be saved.
    pub fn agree_on_matmuls(&self, exchange: &dyn Exchange) -> Result<()> {
        let Some(own) = self.0.blas.choices() else {
            return Ok(());
        };
        let all = exchange.all_gather(own.as_bytes())?;
        let text: String = all
            .iter()
            .map(|choices| String::from_utf8_lossy(choices))
            .collect();
        self.0.blas.choose(&text, exchange.rank() == 0)
    }

    /// Bytes in use, cached, and at the peak, in total and by kind.
    pub fn memory_use(&self) -> MemoryUse {
        self.0.memory.usage()
    }

    /// Restarts the peak from the memory in use now.
    pub fn reset_peak_memory(&self) {
        self.0.memory.reset_peak();
    }

    /// Runs `work`; memory that tensors allocate in it counts as `kind` for as long as they hold it.
    pub fn allocating<T>(&self, kind: MemoryKind, work: impl FnOnce() -> T) -> T {
        let before = self.0.allocating.replace(kind);
        let result = work();
        self.0.allocating.set(before);
        result
    }

    /// Runs `work` without recording it for a backward pass: validation, generation, the first pass of a recomputed block.
    pub fn without_gradients<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.0.gradients.replace(false);
        let result = work();
        self.0.gradients.set(before);
        result
    }

    /// As [`without_gradients`](Device::without_gradients), and whether an operation of `work` would have been recorded elsewhere.
    pub fn noting_gradients<T>(&self, work: impl FnOnce() -> T) -> (T, bool) {
        let before = self.0.skipped.replace(false);
        let result = self.without_gradients(work);
        let skipped = self.0.skipped.get();
        self.0.skipped.set(before || skipped);
        (result, skipped)
    }

    /// Runs `work` recording it, also within [`without_gradients`](Device::without_gradients).
    pub fn with_gradients<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.0.gradients.replace(true);
        let result = work();
        self.0.gradients.set(before);
        result
    }

    pub(crate) fn key(&self) -> DeviceKey {
        self.0.key
    }

    pub(crate) fn require(&self, operation: &str, dtype: DType) -> Result<()> {
        match self.supports(dtype) {
            true => Ok(()),
            false => Err(Error::Unsupported {
                operation: operation.into(),
                dtype: Some(dtype),
                device: self.id(),
            }),
        }
    }
}

impl Drop for Inner {
    /// Waits for the compute stream, because a handle to it, and queued work on the device's memory, may
    /// outlive the device.
    fn drop(&mut self) {
        if let Some(compute) = self.compute.get_mut() {
            // A failure has been reported already; `deallocate` then keeps what work may still use.
            let _ = compute.synchronize();
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.id())
    }
}
