//! Kernels: a value is lowered to launches, whose functions come from the device's module.

use crate::{
    context::Context,
    lock::lock,
    lower::{self, DeviceTraits, Launch},
    objects,
    stream::{Core, GpuStream},
    table::{Call, Handle},
};
use hal::{Error, Kernel, Kernels, Result, Stream};
use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Arc, Mutex},
};

/// The device's kernels, loaded.
#[derive(Debug)]
pub(crate) struct GpuKernels {
    module: Arc<Module>,
}

/// A loaded code object.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    traits: DeviceTraits,
    handle: Handle,
    // By name; with the shared memory that each function may have.
    functions: Mutex<HashMap<String, (Handle, u32)>>,
}

impl GpuKernels {
    /// Loads the code object for this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none for its architecture; [`Error::Vendor`].
    pub(crate) fn load(context: &Arc<Context>) -> Result<GpuKernels> {
        let properties = &context.properties;
        let image =
            objects::choose(&context.tables.objects, properties).ok_or_else(|| missing(context))?;
        let traits = DeviceTraits {
            device: context.id,
            warp: properties.warp,
            multiprocessors: properties.multiprocessors,
            shared_bytes_per_block: properties.shared_bytes_per_block,
        };
        let handle = context.call(|runtime| runtime.load_module(image))?;
        let module = Module {
            context: context.clone(),
            traits,
            handle,
            functions: Mutex::default(),
        };
        Ok(GpuKernels {
            module: Arc::new(module),
        })
    }

    /// The module, for kernels that staged collectives launch.
    pub(crate) fn module(&self) -> &Arc<Module> {
        &self.module
    }
}

fn missing(context: &Context) -> Error {
    let have: Vec<&str> = context
        .tables
        .objects
        .iter()
        .map(|(name, _)| &name[..])
        .collect();
    let found = if have.is_empty() {
        "none in this build".into()
    } else {
        format!("code for {}", have.join(", "))
    };
    let needed = format!(
        "code for {} ({})",
        context.properties.architecture, context.id
    );
    Error::invalid("kernels", found, needed)
}

impl Module {
    /// Queues a kernel.
    ///
    /// # Safety
    /// As for [`Kernels::launch`].
    pub(crate) unsafe fn launch(&self, core: &Core, kernel: &Kernel) -> Result<()> {
        let workspace = core.scratch(lower::workspace_bytes(kernel, &self.traits))?;
        let launches = lower::lower(kernel, &self.traits, workspace)?;
        // SAFETY: passed on from the caller.
        launches
            .iter()
            .try_for_each(|launch| unsafe { self.launch_one(core, launch) })
    }

    /// Queues one call of a device function.
    ///
    /// # Safety
    /// `lower` made the launch, and the memory behind its arguments is live until it has run.
    pub(crate) unsafe fn launch_one(&self, core: &Core, launch: &Launch) -> Result<()> {
        let function = self.function(launch)?;
        let Launch {
            grid,
            block,
            shared_bytes,
            arguments,
            ..
        } = launch;
        let (grid, block, shared_bytes) = (*grid, *block, *shared_bytes);
        let call = Call {
            function,
            grid,
            block,
            shared_bytes,
            arguments,
        };
        // SAFETY: the arguments were made for this function; the caller vouches for the memory behind them.
        self.context
            .call(|runtime| unsafe { runtime.launch(&call, core.handle()) })
    }

    fn function(&self, launch: &Launch) -> Result<Handle> {
        let mut functions = lock(&self.functions);
        match functions.get(&launch.function) {
            Some(&(function, allowed)) if launch.shared_bytes <= allowed => return Ok(function),
            _ => {}
        }
        let function = self.find(launch)?;
        functions.insert(launch.function.clone(), function);
        Ok(function.0)
    }

    fn find(&self, launch: &Launch) -> Result<(Handle, u32)> {
        let name = CString::new(&launch.function[..]).map_err(|_| {
            Error::invalid(
                "kernels",
                format!("{:?}", launch.function),
                "a name without zeros",
            )
        })?;
        // SAFETY: the module is live as long as `self`.
        let found = self
            .context
            .call(|runtime| unsafe { runtime.function(self.handle, &name) });
        let function = found.map_err(|error| named(error, &launch.function))?;
        let usual = self.traits.shared_bytes_per_block;
        if launch.shared_bytes > usual {
            // SAFETY: as above.
            self.context
                .call(|runtime| unsafe { runtime.allow_shared(function, launch.shared_bytes) })?;
        }
        Ok((function, usual.max(launch.shared_bytes)))
    }
}

fn named(error: Error, function: &str) -> Error {
    match error {
        Error::Vendor {
            call,
            code,
            reason,
            device,
        } => Error::Vendor {
            call: format!("{call}({function})"),
            code,
            reason,
            device,
        },
        other => other,
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the device's streams, which may run its functions, are waited for when they are dropped.
        self.context
            .release(|runtime| unsafe { runtime.unload_module(self.handle) });
    }
}

// SAFETY: `lower` makes launches that touch only what the kernel names, and scratch memory of the stream.
unsafe impl Kernels for GpuKernels {
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()> {
        let stream = GpuStream::of(stream, self.module.context.id)?;
        let module = self.module.clone();
        // SAFETY: the caller vouches for the kernel's slices until it has run.
        stream.submit(kernel, move |core, kernel| unsafe {
            module.launch(core, kernel)
        })
    }
}
