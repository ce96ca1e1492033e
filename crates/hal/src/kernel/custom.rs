//! Custom kernels, supplied by a program.
//!
//! A [`CustomKernel`] is made once: its name, a function for host devices, code objects for other devices, and
//! its cost on a simulated device. A launch of it is a [`Custom`]: operands and numbers.

use crate::{DType, Element, Error, Operand, Result, VendorId};
use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A function that runs where memory is host memory.
type HostFunction = dyn Fn(&mut CustomArguments<'_>) -> Result<()> + Send + Sync;

/// Computes the cost of a launch.
type CostFunction = dyn Fn(&Custom) -> CustomCost + Send + Sync;

/// A custom kernel.
pub struct CustomKernel {
    name: &'static str,
    serial: u64,
    host: Option<Box<HostFunction>>,
    codes: Vec<DeviceCode>,
    cost: Box<CostFunction>,
}

/// A kernel's code for the devices of one vendor.
///
/// The function takes one structure by value. Its fields are, in this order: the address of each operand, the number of
/// elements of each operand, and the numbers of the launch. Every field has 8 bytes: a pointer, an unsigned integer, and a
/// double or an integer as given by [`CustomNumber`]. In CUDA and HIP:
///
/// ```c
/// struct Arguments { const float* x; float* y; unsigned long long x_len, y_len; double factor; };
/// extern "C" __global__ void scale(Arguments arguments);
/// ```
#[derive(Clone)]
pub struct DeviceCode {
    /// The vendor whose devices run it.
    pub vendor: VendorId,
    /// A code object in the format of the vendor's driver: a cubin, fatbin or PTX for CUDA, an HSA code object
    /// for ROCm.
    pub image: Cow<'static, [u8]>,
    /// The function's name in the code object.
    pub entry: &'static str,
    /// Blocks in x, y and z, for a number of elements.
    pub grid: fn(usize) -> [u32; 3],
    /// Threads per block in x, y and z, for a number of elements.
    pub block: fn(usize) -> [u32; 3],
}

/// The work of a launch, as a simulated device counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CustomCost {
    /// Floating-point operations.
    pub flop: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// A number that a launch passes to its kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CustomNumber {
    /// A double.
    F64(f64),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
}

impl CustomNumber {
    /// The number as device code receives it.
    pub const fn to_bytes(self) -> [u8; 8] {
        match self {
            CustomNumber::F64(number) => number.to_ne_bytes(),
            CustomNumber::I64(number) => number.to_ne_bytes(),
            CustomNumber::U64(number) => number.to_ne_bytes(),
        }
    }
}

impl From<f64> for CustomNumber {
    fn from(number: f64) -> Self {
        CustomNumber::F64(number)
    }
}

impl From<i64> for CustomNumber {
    fn from(number: i64) -> Self {
        CustomNumber::I64(number)
    }
}

impl From<u64> for CustomNumber {
    fn from(number: u64) -> Self {
        CustomNumber::U64(number)
    }
}

impl CustomKernel {
    /// A kernel with that name, which no device can run yet. Its cost is that of moving its operands.
    pub fn new(name: &'static str) -> CustomKernel {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        CustomKernel {
            name,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            host: None,
            codes: Vec::new(),
            cost: Box::new(|launch| CustomCost {
                flop: 0.0,
                bytes: launch.moved_bytes() as f64,
            }),
        }
    }

    /// Adds a function for host devices; it runs on the rank's own thread.
    #[must_use]
    pub fn on_host(
        self,
        function: impl Fn(&mut CustomArguments<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> CustomKernel {
        CustomKernel {
            host: Some(Box::new(function)),
            ..self
        }
    }

    /// Adds code for the devices of one vendor.
    ///
    /// # Safety
    /// The function of the code object takes the structure that [`DeviceCode`] describes. For every launch it reads only
    /// operands, writes only those that the launch declares as written, and nothing beyond their lengths.
    #[must_use]
    pub unsafe fn on_device(mut self, code: DeviceCode) -> CustomKernel {
        self.codes.push(code);
        self
    }

    /// Sets another cost.
    #[must_use]
    pub fn costing(
        self,
        cost: impl Fn(&Custom) -> CustomCost + Send + Sync + 'static,
    ) -> CustomKernel {
        CustomKernel {
            cost: Box::new(cost),
            ..self
        }
    }

    /// The name, for messages and traces.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Distinguishes the kernels of a process.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The function for host devices.
    pub fn host(&self) -> Option<&HostFunction> {
        self.host.as_deref()
    }

    /// The code for a vendor's devices.
    pub fn code(&self, vendor: VendorId) -> Option<&DeviceCode> {
        self.codes.iter().find(|code| code.vendor == vendor)
    }
}

impl fmt::Debug for CustomKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vendors: Vec<_> = self.codes.iter().map(|code| code.vendor.name()).collect();
        write!(f, "CustomKernel({}, code for {vendors:?})", self.name)
    }
}

/// A launch of a custom kernel.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The kernel.
    pub kernel: Arc<CustomKernel>,
    /// What it reads and writes; a written operand overlaps nothing.
    pub operands: Vec<Operand>,
    /// Numbers.
    pub numbers: Vec<CustomNumber>,
    /// The number of elements that it computes, from which device code derives its grid.
    pub elements: usize,
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        Arc::ptr_eq(&self.kernel, &other.kernel)
            && self.operands == other.operands
            && self.numbers == other.numbers
            && self.elements == other.elements
    }
}

impl Custom {
    pub(crate) fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        self.operands.iter().copied().for_each(visit);
    }

    /// Bytes of its operands; those that are updated count twice.
    pub fn moved_bytes(&self) -> usize {
        self.operands.iter().map(Operand::moved_bytes).sum()
    }

    /// Its cost on a simulated device.
    pub fn cost(&self) -> CustomCost {
        (self.kernel.cost)(self)
    }

    /// The type of its first operand.
    pub fn dtype(&self) -> Option<DType> {
        self.operands.first().map(|operand| operand.slice.dtype)
    }

    /// Calls the kernel's function for host devices; `None` if there is none.
    ///
    /// # Safety
    /// As for [`Kernels::launch`](crate::Kernels::launch), in the host's memory.
    ///
    /// # Errors
    /// The function's own.
    pub unsafe fn run_on_host(&self) -> Option<Result<()>> {
        let function = self.kernel.host()?;
        let mut arguments = CustomArguments {
            launch: self,
            taken: vec![false; self.operands.len()],
        };
        Some(function(&mut arguments))
    }
}

/// The arguments of a function on the host: its operands as slices, without copies, and its numbers.
///
/// Made by [`Custom::run_on_host`], whose caller guarantees the operands' memory for as long as this lives.
#[derive(Debug)]
pub struct CustomArguments<'a> {
    launch: &'a Custom,
    // Operands that were taken to be written.
    taken: Vec<bool>,
}

impl<'a> CustomArguments<'a> {
    /// The number of elements that the launch computes.
    pub fn elements(&self) -> usize {
        self.launch.elements
    }

    /// The elements of an operand that the launch only reads.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an operand that is written, has another type, or does not exist.
    pub fn read<T: Element>(&self, index: usize) -> Result<&'a [T]> {
        let operand = self.operand::<T>(index)?;
        if operand.access.writes() {
            return Err(self.refuse(format!("operand {index} to read"), "one that is only read"));
        }
        let (first, len) = (operand.slice.addr as *const T, operand.slice.len);
        // SAFETY: the maker of this value guarantees that the operand is live, of this type (checked) and
        // length, and aligned; nothing writes to it meanwhile, because written operands overlap nothing.
        Ok(unsafe { std::slice::from_raw_parts(first, len) })
    }

    /// The elements of an operand that the launch writes; each can be taken once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an operand that is only read, was taken before, has another type, or does not
    /// exist.
    pub fn write<T: Element>(&mut self, index: usize) -> Result<&'a mut [T]> {
        let operand = self.operand::<T>(index)?;
        if !operand.access.writes() || std::mem::replace(&mut self.taken[index], true) {
            let needed = "one that is written, taken once";
            return Err(self.refuse(format!("operand {index} to write"), needed));
        }
        let (first, len) = (operand.slice.addr as *mut T, operand.slice.len);
        // SAFETY: the maker of this value guarantees that the operand is live, of this type (checked) and
        // length, and aligned; it overlaps no other operand, and is taken once (checked).
        Ok(unsafe { std::slice::from_raw_parts_mut(first, len) })
    }

    /// A number of the launch.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not exist.
    pub fn number(&self, index: usize) -> Result<CustomNumber> {
        let number = self.launch.numbers.get(index).copied();
        number.ok_or_else(|| {
            let needed = format!("one of {}", self.launch.numbers.len());
            self.refuse(format!("number {index}"), needed)
        })
    }

    /// A number of the launch that is a double.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does not exist or is an integer.
    pub fn f64(&self, index: usize) -> Result<f64> {
        match self.number(index)? {
            CustomNumber::F64(number) => Ok(number),
            other => Err(self.refuse(format!("number {index}, {other:?}"), "a double")),
        }
    }

    fn operand<T: Element>(&self, index: usize) -> Result<Operand> {
        let operands = &self.launch.operands;
        let Some(operand) = operands.get(index) else {
            let needed = format!("one of {}", operands.len());
            return Err(self.refuse(format!("operand {index}"), needed));
        };
        if operand.slice.dtype != T::DTYPE {
            let found = format!("operand {index} as {}", T::DTYPE);
            return Err(self.refuse(found, operand.slice.dtype.name()));
        }
        Ok(*operand)
    }

    fn refuse(&self, found: String, needed: impl Into<String>) -> Error {
        Error::invalid(self.launch.kernel.name(), found, needed)
    }
}
