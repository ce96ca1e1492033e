//! Kernels: lowers a kernel value to launches, and looks their functions up in the device's module.

use crate::{
    context::Context,
    custom::CustomCode,
    grown::Grown,
    lower::{self, DeviceTraits, Launch, name::Name},
    objects,
    stream::{Core, GpuStream},
    table::{Handle, KernelCall},
};
use hal::{DeviceId, Error, Kernel, Kernels, Result, Stream, kernel::Custom};
use std::{
    ffi::CString,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
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
    functions: Grown<Name, Function>,
    // The program's own kernels by their serial numbers.
    customs: Grown<u64, CustomCode>,
}

#[derive(Debug)]
struct Function {
    handle: Handle,
    // Shared memory that a block may have.
    allowed: AtomicU32,
}

impl GpuKernels {
    /// Loads the code object for this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a code object for its architecture; [`Error::Vendor`].
    pub(crate) fn load(context: &Arc<Context>) -> Result<GpuKernels> {
        let properties = &context.properties;
        let object =
            objects::choose(&context.tables.objects, properties).ok_or_else(|| missing(context))?;
        let traits = DeviceTraits {
            device: context.id,
            warp: properties.warp,
            multiprocessors: properties.multiprocessors,
            shared_bytes_per_block: properties.shared_bytes_per_block,
            warpgroups: objects::has_warpgroups(object, properties),
        };
        let handle = context.call(|runtime| runtime.load_module(&object.1))?;
        let module = Module {
            context: context.clone(),
            traits,
            handle,
            functions: Grown::default(),
            customs: Grown::default(),
        };
        Ok(GpuKernels {
            module: Arc::new(module),
        })
    }

    /// The module, for the kernels that staged collectives launch.
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
    /// The device that has loaded it.
    pub(crate) fn device(&self) -> DeviceId {
        self.context.id
    }

    /// The properties that launches depend on.
    pub(crate) fn traits(&self) -> &DeviceTraits {
        &self.traits
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// As for [`Kernels::launch`].
    pub(crate) unsafe fn launch(&self, core: &Core, kernel: &Kernel) -> Result<()> {
        if let Kernel::Custom(custom) = kernel {
            // SAFETY: passed on from the caller.
            return unsafe { self.launch_custom(core, custom) };
        }
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
        let call = KernelCall {
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

    // Safety: as for `Kernels::launch`.
    unsafe fn launch_custom(&self, core: &Core, custom: &Custom) -> Result<()> {
        let code = custom.kernel.code(self.context.id.vendor);
        let code = code.ok_or_else(|| self.traits.without_code(custom.kernel.name()))?;
        let load = |_: &u64| CustomCode::load(&self.context, code);
        let loaded = self.customs.get(custom.kernel.serial(), load)?;
        // SAFETY: the caller vouches for the operands, and whoever attached the code for its accesses to them.
        unsafe { loaded.launch(core, code, custom) }
    }

    fn function(&self, launch: &Launch) -> Result<Handle> {
        let function = self
            .functions
            .get(launch.function, |name| self.find(name))?;
        let (handle, shared_bytes) = (function.handle, launch.shared_bytes);
        if shared_bytes > function.allowed.load(Ordering::Relaxed) {
            let context = &self.context;
            // SAFETY: the module is live as long as `self`.
            context.call(|runtime| unsafe { runtime.allow_shared(handle, shared_bytes) })?;
            function.allowed.fetch_max(shared_bytes, Ordering::Relaxed);
        }
        Ok(handle)
    }

    fn find(&self, name: &str) -> Result<Function> {
        let c_name = CString::new(name).map_err(|_| {
            let needed = "a name without zeros";
            Error::invalid("kernels", format!("{name:?}"), needed)
        })?;
        // SAFETY: the module is live as long as `self`.
        let found = self
            .context
            .call(|runtime| unsafe { runtime.function(self.handle, &c_name) });
        Ok(Function {
            handle: found.map_err(|error| named(error, name))?,
            allowed: self.traits.shared_bytes_per_block.into(),
        })
    }
}

/// Adds the function's name to the error of a lookup.
pub(crate) fn named(error: Error, function: &str) -> Error {
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
        let customs = std::mem::take(&mut self.customs).into_values();
        let modules = customs.map(|code| code.module()).chain([self.handle]);
        for module in modules {
            // SAFETY: a stream waits for its work when it is dropped, so none of the functions runs any more.
            self.context
                .release(|runtime| unsafe { runtime.unload_module(module) });
        }
    }
}

// SAFETY: the launches that `lower` makes access only the kernel's slices and the stream's scratch memory. Whoever
// attached code to a program's own kernel has vouched for the same.
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
