//! A device as one rank drives it.

use crate::{
    Options,
    budget::Budget,
    collectives,
    context::{Context, vendor},
    event::Clock,
    kernels::GpuKernels,
    locked,
    matmul::{CanonicalBlas, GpuBlas},
    stream::GpuStream,
    table::{Properties, Tables},
};
use hal::{
    Blas, Capabilities, CollectiveBackend, Communicator, DType, Device, DeviceId, DeviceSettings,
    EpiloguePlacement, Error, GroupId, Join, Kernels, Memory, OpenOptions, PageLock, RawBuffer,
    Result, Stream, StreamKind, SumOrder, lock,
};
use std::sync::{Arc, Mutex};

/// Opens a device. `accept` may refuse it with the found and the needed of the error.
///
/// # Errors
/// [`Error::Invalid`] where there is no such device or `accept` refuses it; [`Error::Vendor`].
pub fn open(
    tables: Arc<Tables>,
    options: Options,
    accept: impl FnOnce(&Properties) -> Result<(), (String, String)>,
) -> Result<Arc<dyn Device>> {
    let id = DeviceId {
        vendor: tables.runtime.vendor(),
        ordinal: options.ordinal,
    };
    let count = tables
        .runtime
        .device_count()
        .map_err(|fault| vendor(id, fault))?;
    let ordinal = placed(id, &options, count, tables.visible_devices.name)?;
    let context = Context::open(tables, id, ordinal)?;
    accept(&context.properties).map_err(|(found, needed)| {
        Error::invalid(
            format!("open {id} ({})", context.properties.name),
            found,
            needed,
        )
    })?;
    let clock = Arc::new(Clock::new(&context)?);
    let capabilities = capabilities(&context, ordinal, &options.settings)?;
    Ok(Arc::new(Gpu {
        capabilities,
        clock,
        budget: Budget::new(id, options.settings.memory_limit),
        options,
        kernels: Mutex::default(),
        num_queues: context.tables.num_queues(),
        context,
    }))
}

// Staged ranks may outnumber the devices. Other ranks have a device each, unless ordinals wrap around.
fn placed(id: DeviceId, options: &Options, count: usize, visible: &str) -> Result<usize> {
    let wraps = options.wraps || options.settings.collectives == CollectiveBackend::Staged;
    match options.ordinal {
        ordinal if ordinal < count => Ok(ordinal),
        ordinal if wraps && count > 0 => Ok(ordinal % count),
        ordinal => {
            let found = match count {
                0 => "no device".to_string(),
                count => format!("{count} devices (as {visible} allows), numbered from 0"),
            };
            Err(Error::invalid(
                format!("open {id}"),
                found,
                format!("device {ordinal}"),
            ))
        }
    }
}

fn capabilities(
    context: &Context,
    ordinal: usize,
    settings: &DeviceSettings,
) -> Result<Capabilities> {
    let Properties {
        name,
        architecture,
        multiprocessors,
        ..
    } = &context.properties;
    let (_, total) = context.call(|runtime| runtime.memory())?;
    let version = context.call(|runtime| runtime.version())?;
    let memory = hal::error::Bytes(total);
    let by = collectives::description(&context.tables, settings.collectives);
    let mut description =
        format!("{name} ({architecture}, {multiprocessors} multiprocessors, {memory}), {version}");
    description += &format!(", collectives by {by}");
    let canonical_sums = settings.sums == SumOrder::Canonical;
    if canonical_sums {
        description += ", canonical sums by our own GEMMs";
    }
    if ordinal != context.id.ordinal {
        description += &format!(", on device {ordinal} of those that this process sees");
    }
    Ok(Capabilities {
        dtypes: DType::ALL.into(),
        holds_values: true,
        host_memory: false,
        overlaps_streams: true,
        records_work: true,
        canonical_sums,
        // Their blocks of keys are other ones than those of the kernels for many queries.
        paged_sums: false,
        description,
    })
}

#[derive(Debug)]
struct Gpu {
    capabilities: Capabilities,
    clock: Arc<Clock>,
    budget: Budget,
    options: Options,
    kernels: Mutex<Option<Arc<GpuKernels>>>,
    // As the vendor's library read it when it was opened.
    num_queues: usize,
    context: Arc<Context>,
}

impl Gpu {
    fn load_kernels(&self) -> Result<Arc<GpuKernels>> {
        let mut kernels = lock(&self.kernels);
        if let Some(kernels) = &*kernels {
            return Ok(kernels.clone());
        }
        let loaded = Arc::new(GpuKernels::load(&self.context)?);
        *kernels = Some(loaded.clone());
        Ok(loaded)
    }
}

// SAFETY: the id is that of the options; the vendor's allocator aligns to 256 bytes and keeps live buffers apart; what
// the device makes works on the memory that its arguments name.
unsafe impl Device for Gpu {
    fn id(&self) -> DeviceId {
        self.context.id
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn memory(&self) -> Result<Memory> {
        let (free, total) = self.context.call(|runtime| runtime.memory())?;
        Ok(self.budget.within(Memory { free, total }))
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.context.check()?;
        self.budget.enter(bytes)?;
        // The vendors refuse to allocate zero bytes.
        let addr = self.context.allocate(bytes.max(1));
        let addr = addr.inspect_err(|_| self.budget.leave(bytes))?;
        Ok(RawBuffer { addr, bytes })
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        self.context.land();
        // SAFETY: from `allocate`, once, says the caller; and out of use, if no wait has failed.
        if unsafe { self.context.free(buffer.addr) } {
            self.budget.leave(buffer.bytes);
        }
    }

    fn num_queues(&self) -> Option<usize> {
        Some(self.num_queues)
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        self.context.check()?;
        let queued = kind == StreamKind::Communication
            && self.options.settings.collectives == CollectiveBackend::Staged;
        Ok(Arc::new(GpuStream::new(
            &self.context,
            &self.clock,
            kind,
            queued,
        )?))
    }

    unsafe fn adopt_stream(&self, handle: usize) -> Result<Arc<dyn Stream>> {
        self.context.check()?;
        Ok(Arc::new(GpuStream::adopted(
            &self.context,
            &self.clock,
            handle,
        )))
    }

    fn open_host(&self, threads: usize) -> Result<Arc<dyn Device>> {
        let without = || hal::without_host(self.id(), threads);
        let host = self.options.host.ok_or_else(without)?;
        let options = OpenOptions {
            ordinal: self.options.ordinal,
            threads,
            ..OpenOptions::default()
        };
        (host.open)(options)?.open_host(threads)
    }

    fn locks_pages(&self) -> bool {
        true
    }

    unsafe fn lock_pages(&self, pages: RawBuffer) -> Result<Option<Box<dyn PageLock>>> {
        self.context.check()?;
        // SAFETY: guaranteed by the caller.
        unsafe { locked::lock_pages(&self.context, pages) }
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        if self.capabilities.canonical_sums {
            let module = self.load_kernels()?.module().clone();
            return Ok(Arc::new(CanonicalBlas::new(module)));
        }
        let choices = self.options.settings.matmul_choices.as_deref();
        let choices = choices.map(|path| Ok((path, self.load_kernels()?.module().clone())));
        let fuses = self.options.settings.epilogues == EpiloguePlacement::Fused;
        Ok(Arc::new(GpuBlas::new(
            &self.context,
            choices.transpose()?,
            fuses,
        )?))
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        Ok(self.load_kernels()?)
    }

    fn create_group(&self) -> Result<GroupId> {
        collectives::create_group(&self.context, self.options.settings.collectives)
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.context.check()?;
        match self.options.settings.collectives {
            CollectiveBackend::Library => collectives::join_library(&self.context, join),
            CollectiveBackend::Staged => {
                collectives::join_staged(&self.context, self.load_kernels()?.module(), join)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::VendorId;

    fn place(ordinal: usize, collectives: CollectiveBackend, count: usize) -> Result<usize> {
        let id = DeviceId {
            vendor: VendorId::CUDA,
            ordinal,
        };
        placed(
            id,
            &Options {
                ordinal,
                settings: DeviceSettings {
                    collectives,
                    ..DeviceSettings::default()
                },
                ..Options::default()
            },
            count,
            "CUDA_VISIBLE_DEVICES",
        )
    }

    #[test]
    fn staged_ranks_share_devices_and_others_do_not() {
        assert_eq!(place(5, CollectiveBackend::Staged, 2), Ok(1));
        assert_eq!(place(1, CollectiveBackend::Library, 2), Ok(1));
        let error = place(5, CollectiveBackend::Library, 2)
            .unwrap_err()
            .to_string();
        let text = "open cuda:5: 2 devices (as CUDA_VISIBLE_DEVICES allows), numbered from 0, needs device 5";
        assert_eq!(error, text);
        let error = place(0, CollectiveBackend::Staged, 0)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "open cuda:0: no device, needs device 0");
    }

    #[test]
    fn a_rank_whose_launcher_shows_it_one_device_takes_that() {
        let id = DeviceId {
            vendor: VendorId::ROCM,
            ordinal: 3,
        };
        let options = Options {
            ordinal: 3,
            wraps: true,
            ..Options::default()
        };
        assert_eq!(placed(id, &options, 1, "ROCR_VISIBLE_DEVICES"), Ok(0));
        assert_eq!(placed(id, &options, 8, "ROCR_VISIBLE_DEVICES"), Ok(3));
        assert!(placed(id, &options, 0, "ROCR_VISIBLE_DEVICES").is_err());
    }
}
