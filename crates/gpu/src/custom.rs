//! Kernels that a program brings itself: loads their code and packs their arguments.

use crate::{
    context::Context,
    kernels::named,
    stream::Core,
    table::{Handle, KernelCall},
};
use hal::{
    Error, Result,
    kernel::{Custom, DeviceCode},
};
use std::{ffi::CString, sync::Arc};

/// A loaded code object and its function. The holder unloads it.
#[derive(Debug)]
pub(crate) struct CustomCode {
    module: Handle,
    function: Handle,
}

// The vendors' limit for the arguments of a function.
const LONGEST: usize = 4096;

impl CustomCode {
    /// Loads the code object.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a function name with a zero byte; [`Error::Vendor`] when the driver refuses the code, or
    /// the code has no such function.
    pub(crate) fn load(context: &Arc<Context>, code: &DeviceCode) -> Result<CustomCode> {
        let name = CString::new(code.entry).map_err(|_| {
            let found = format!("function {:?}", code.entry);
            Error::invalid("custom kernel", found, "a name without zeros")
        })?;
        let module = context.call(|runtime| runtime.load_module(&code.image))?;
        // SAFETY: the module was just loaded.
        let found = context.call(|runtime| unsafe { runtime.function(module, &name) });
        match found {
            Ok(function) => Ok(CustomCode { module, function }),
            Err(error) => {
                // SAFETY: as above; none of its functions runs.
                context.release(|runtime| unsafe { runtime.unload_module(module) });
                Err(named(error, code.entry))
            }
        }
    }

    /// The loaded code object.
    pub(crate) fn module(&self) -> Handle {
        self.module
    }

    /// Queues the function.
    ///
    /// # Safety
    /// The operands are live until the function has run, and it accesses them as the launch declares.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more operands and numbers than a function can take; [`Error::Vendor`].
    pub(crate) unsafe fn launch(
        &self,
        core: &Core,
        code: &DeviceCode,
        custom: &Custom,
    ) -> Result<()> {
        let arguments = arguments(custom)?;
        let call = KernelCall {
            function: self.function,
            grid: (code.grid)(custom.elements),
            block: (code.block)(custom.elements),
            shared_bytes: 0,
            arguments: &arguments,
        };
        // SAFETY: the arguments are those that `DeviceCode` describes; the caller vouches for the memory behind them.
        core.context
            .call(|runtime| unsafe { runtime.launch(&call, core.handle()) })
    }
}

// The structure that the function takes: addresses, lengths, numbers.
fn arguments(custom: &Custom) -> Result<Vec<u8>> {
    let slices = || custom.operands.iter().map(|operand| operand.slice);
    let addresses = slices().map(|slice| slice.addr.to_ne_bytes());
    let lengths = slices().map(|slice| (slice.len as u64).to_ne_bytes());
    let numbers = custom.numbers.iter().map(|number| number.to_bytes());
    let bytes: Vec<u8> = addresses.chain(lengths).chain(numbers).flatten().collect();
    if bytes.len() > LONGEST {
        let found = format!("{} bytes of arguments", bytes.len());
        let needed = format!("at most {LONGEST}");
        return Err(Error::invalid(custom.kernel.name(), found, needed));
    }
    Ok(bytes)
}
