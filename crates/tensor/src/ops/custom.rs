//! Custom kernels, supplied by a program, on tensors.

use super::launch;
use crate::{Arguments, Tensor};
use hal::{Access, Kernel, Operand, RawSlice, Result, kernel};
use std::sync::Arc;

pub use hal::kernel::{CustomArguments, CustomCost, CustomKernel, CustomNumber, DeviceCode};

/// A launch of a [`CustomKernel`], assembled operand by operand; operands are numbered in that order.
///
/// ```
/// use fascicle_tensor::{Device, ops::{CustomKernel, custom}, Tensor};
/// # use std::sync::Arc;
/// let scale = Arc::new(CustomKernel::new("scale").on_host(|args| {
///     let (x, y, factor) = (args.read::<f32>(0)?, args.write::<f32>(1)?, args.f64(0)?);
///     x.iter().zip(y).for_each(|(x, y)| *y = x * factor as f32);
///     Ok(())
/// }));
/// let device = Device::new(cpu::open(cpu::Options::default())?)?;
/// let x = Tensor::from_slice(&device, &[3], &[1.0f32, 2.0, 3.0])?;
/// let y = Tensor::empty(&device, x.dtype(), x.shape())?;
/// custom(&scale).read(&x).write(&y).number(2.0).launch()?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), hal::Error>(())
/// ```
#[must_use = "nothing is queued before `launch`"]
pub struct Custom<'a> {
    kernel: Arc<CustomKernel>,
    arguments: Arguments<'a>,
    operands: Vec<Operand>,
    numbers: Vec<CustomNumber>,
    elements: Option<usize>,
}

/// Begins a launch of a custom kernel.
pub fn custom<'a>(kernel: &Arc<CustomKernel>) -> Custom<'a> {
    Custom {
        kernel: kernel.clone(),
        arguments: Arguments::default(),
        operands: Vec::new(),
        numbers: Vec::new(),
        elements: None,
    }
}

impl<'a> Custom<'a> {
    /// Adds an operand that the kernel reads.
    pub fn read(self, tensor: &'a Tensor) -> Self {
        self.operand(tensor, Access::Read)
    }

    /// Adds an operand that the kernel overwrites.
    pub fn write(self, tensor: &'a Tensor) -> Self {
        self.operand(tensor, Access::Write)
    }

    /// Adds an operand that the kernel reads and writes.
    pub fn update(self, tensor: &'a Tensor) -> Self {
        self.operand(tensor, Access::ReadWrite)
    }

    /// A number.
    pub fn number(mut self, number: impl Into<CustomNumber>) -> Self {
        self.numbers.push(number.into());
        self
    }

    /// Sets the number of elements that the kernel computes; by default that of its first written operand.
    pub fn elements(mut self, elements: usize) -> Self {
        self.elements = Some(elements);
        self
    }

    /// Queues the kernel on the device's compute stream.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for tensors of several devices, and where one that is written overlaps
    /// another; [`Error::Unsupported`](hal::Error::Unsupported) on a device that the kernel has no code for; on the
    /// host, the error that the kernel's own function returns.
    pub fn launch(mut self) -> Result<()> {
        let written = self.operands.iter().find(|operand| operand.access.writes());
        let elements = written.map_or(0, |operand| operand.slice.len);
        let kernel = kernel::Custom {
            kernel: self.kernel,
            elements: self.elements.unwrap_or(elements),
            operands: self.operands,
            numbers: self.numbers,
        };
        launch(&mut self.arguments, Kernel::Custom(kernel))
    }

    fn operand(mut self, tensor: &'a Tensor, access: Access) -> Self {
        let slice: RawSlice = self.arguments.take(tensor);
        self.operands.push(Operand {
            slice,
            access,
            in_place: false,
        });
        self
    }
}
