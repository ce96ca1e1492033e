//! Tensors: a shape and an element type over a piece of device memory.

mod arguments;
mod foreign;
mod locked;
mod rounding;

pub(crate) use arguments::Arguments;

use crate::{Device, Stream, shape, storage::Storage};
use bytemuck::Pod;
use hal::{Access, DType, Element, Error, Kernel, RawSlice, Result, kernel::Fill};
pub use rounding::is_exact;
use rounding::{rounded, to_bf16, to_f16};
use std::{fmt, rc::Rc};

/// A Rust type that is an element type.
pub trait Scalar: Pod + Element {}

impl<T: Pod + Element> Scalar for T {}

/// A dense row-major tensor on a device. Cloning clones the handle; both see the same elements.
///
/// Tensors of one storage may be views of the same memory ([`reshape`](Tensor::reshape), [`rows`](Tensor::rows)).
#[derive(Clone)]
pub struct Tensor {
    storage: Rc<Storage>,
    // In elements, from the start of the storage.
    offset: usize,
    shape: Vec<usize>,
    dtype: DType,
}

impl Tensor {
    /// A tensor with uninitialised elements: write it before reading it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an element type that the device lacks; [`Error::Invalid`] for a shape of 2^63 bytes
    /// or more; [`Error::OutOfMemory`]; the failure of a stream that used the memory before.
    pub fn empty(device: &Device, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        device.require("tensor", dtype)?;
        let bytes = shape::num_elements("tensor", shape, dtype)? * dtype.bytes();
        let storage = Rc::new(Storage::new(device, bytes)?);
        if let Some(notes) = &*device.0.recorded.borrow() {
            notes.make(&storage);
        }
        if let Some(saved) = &*device.0.saving.borrow() {
            saved.note(&storage);
        }
        Ok(Tensor {
            storage,
            offset: 0,
            shape: shape.to_vec(),
            dtype,
        })
    }

    /// A tensor of equal elements.
    ///
    /// # Errors
    /// As [`empty`](Tensor::empty).
    pub fn full(device: &Device, dtype: DType, shape: &[usize], value: f64) -> Result<Tensor> {
        let tensor = Tensor::empty(device, dtype, shape)?;
        tensor.fill(value)?;
        Ok(tensor)
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// As [`empty`](Tensor::empty).
    pub fn zeros(device: &Device, dtype: DType, shape: &[usize]) -> Result<Tensor> {
        Tensor::full(device, dtype, shape, 0.0)
    }

    /// A tensor of these elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] if their number does not match the shape; otherwise as [`empty`](Tensor::empty) and
    /// [`upload`](Tensor::upload).
    pub fn from_slice<T: Scalar>(
        device: &Device,
        shape: &[usize],
        elements: &[T],
    ) -> Result<Tensor> {
        let tensor = Tensor::empty(device, T::DTYPE, shape)?;
        tensor.upload(elements)?;
        Ok(tensor)
    }

    /// A float tensor of these numbers, rounded to `dtype`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an integer type; otherwise as [`from_slice`](Tensor::from_slice).
    pub fn from_f64(
        device: &Device,
        dtype: DType,
        shape: &[usize],
        numbers: &[f64],
    ) -> Result<Tensor> {
        let tensor = Tensor::empty(device, dtype, shape)?;
        tensor.upload_f64(numbers)?;
        Ok(tensor)
    }

    /// Sets every element.
    ///
    /// # Errors
    /// [`Error::Vendor`]; the failure of a stream that uses the tensor.
    pub fn fill(&self, value: f64) -> Result<()> {
        let mut args = Arguments::default();
        let out = args.take(self);
        crate::ops::launch(&mut args, Kernel::Fill(Fill { out, value }))
    }

    /// Copies elements from the host.
    ///
    /// # Errors
    /// [`Error::Invalid`] when type or number differ from the tensor's, and within recorded work; [`Error::Vendor`];
    /// the failure of a stream that uses the tensor.
    pub fn upload<T: Scalar>(&self, elements: &[T]) -> Result<()> {
        if T::DTYPE != self.dtype || elements.len() != self.num_elements() {
            let found = format!("{} elements of {}", elements.len(), T::DTYPE);
            return Err(Error::invalid(
                "upload",
                found,
                format!("{} of {}", self.num_elements(), self.dtype),
            ));
        }
        self.device().not_recorded("upload")?;
        let bytes = bytemuck::cast_slice(elements);
        let used = Arguments::used([(self, Access::Write)]);
        self.device().compute().queue("upload", &used, |stream| {
            // SAFETY: the tensor is live, and holds exactly these bytes (checked above).
            unsafe { stream.upload(self.raw().buffer(), bytes) }
        })
    }

    /// Copies numbers from the host, rounded to the tensor's float type; 16-bit types are rounded through f32,
    /// as in kernels. Bytes lose the fraction, and what lies below 0 or above 255.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tensor of 32-bit integers; otherwise as [`upload`](Tensor::upload).
    pub fn upload_f64(&self, numbers: &[f64]) -> Result<()> {
        self.upload_f64_on(1, numbers)
    }

    /// As [`upload_f64`](Tensor::upload_f64), where up to this many threads round.
    ///
    /// # Errors
    /// As there.
    pub fn upload_f64_on(&self, threads: usize, numbers: &[f64]) -> Result<()> {
        match self.dtype {
            DType::F64 => self.upload(numbers),
            DType::F32 => self.upload(&rounded(threads, numbers, |x| x as f32)),
            DType::Bf16 => self.upload(&rounded(threads, numbers, to_bf16)),
            DType::F16 => self.upload(&rounded(threads, numbers, to_f16)),
            DType::U8 => self.upload(&rounded(threads, numbers, |x| x as u8)),
            other => Err(Error::invalid(
                "upload",
                format!("a tensor of {other}"),
                "a float type or u8",
            )),
        }
    }

    /// Copies the elements to the host, after all work that writes them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another type than the tensor's, within recorded work, and for more elements than the
    /// host can hold; [`Error::NoValues`] on a device whose buffers hold no values; the failure of the work that
    /// writes the tensor.
    pub fn to_vec<T: Scalar>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            return Err(Error::invalid(
                "to_vec",
                format!("{}", T::DTYPE),
                format!("{}, the tensor's type", self.dtype),
            ));
        }
        self.is_readable("to_vec")?;
        let mut elements = on_host(self.num_elements())?;
        self.download(bytemuck::cast_slice_mut(&mut elements))?;
        Ok(elements)
    }

    /// Copies the bytes of the elements, of whatever type, to memory of the host, after all work that writes them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of bytes than the tensor's, and within recorded work; [`Error::NoValues`] on a
    /// device whose buffers hold no values; the failure of the work that writes the tensor.
    pub fn download(&self, bytes: &mut [u8]) -> Result<()> {
        self.takes("download", bytes.len())?;
        self.is_readable("download")?;
        self.download_on(&self.device().compute(), bytes)
    }

    /// Queues a copy of bytes from the host on `stream`: those of the elements, of whatever type. The caller may reuse `bytes`
    /// as soon as this returns.
    ///
    /// # Errors
    /// As [`upload`](Tensor::upload).
    pub fn upload_bytes_on(&self, stream: &Stream, bytes: &[u8]) -> Result<()> {
        self.takes("upload", bytes.len())?;
        self.device().not_recorded("upload")?;
        let used = Arguments::used([(self, Access::Write)]);
        stream.queue("upload", &used, |stream| {
            // SAFETY: the tensor is live, and holds exactly these bytes (checked above).
            unsafe { stream.upload(self.raw().buffer(), bytes) }
        })
    }

    /// As [`download`](Tensor::download), on `stream`, after all work that writes the elements. On a device whose buffers hold
    /// no values, the copy takes its time and leaves `bytes` as they are.
    ///
    /// # Errors
    /// As [`download`](Tensor::download), but for [`Error::NoValues`].
    pub fn download_on(&self, stream: &Stream, bytes: &mut [u8]) -> Result<()> {
        self.takes("download", bytes.len())?;
        self.device().not_recorded("download")?;
        let used = Arguments::used([(self, Access::Read)]);
        stream.queue("download", &used, |stream| {
            // SAFETY: the tensor is live, and holds exactly as many bytes (checked above).
            match unsafe { stream.download(bytes, self.raw().buffer()) } {
                Err(Error::NoValues { .. }) => Ok(()),
                other => other,
            }
        })
    }

    /// Runs `work` with the bytes of the elements, of whatever type, after all work that uses them has run: where they are, if
    /// the device's memory is [memory of this process](hal::Device::host_bytes), and otherwise on a copy that is written back. On a
    /// device whose buffers hold no values, they are zeros. `work` cannot use tensors of the same memory: that is an error.
    ///
    /// # Errors
    /// The error of `work`; [`Error::Invalid`] within recorded work; the failure of a stream that uses the tensor.
    pub fn edit_bytes<R>(&self, work: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
        self.device().not_recorded("edit_bytes")?;
        let buffer = self.raw().buffer();
        self.storage.begin_edit()?;
        // SAFETY: the tensor is live, no stream uses its memory any more (waited for above), and until the end of the edit the
        // storage refuses every use and does not leave.
        if let Some(bytes) = unsafe { self.device().hal().host_bytes(buffer) } {
            let result = work(bytes);
            self.storage.end_edit();
            return result;
        }
        self.storage.end_edit();
        let mut bytes = vec![0; self.bytes()];
        if !self.device().capabilities().holds_values {
            return work(&mut bytes);
        }
        self.download(&mut bytes)?;
        let result = work(&mut bytes)?;
        self.upload_bytes_on(&self.device().compute(), &bytes)?;
        Ok(result)
    }

    /// Records where the uses end that are queued so far: later work on another stream waits for these alone, and not for what
    /// the compute stream is given in the meantime.
    ///
    /// # Errors
    /// The failure of a stream that uses the tensor.
    pub fn record_uses(&self) -> Result<()> {
        self.storage.record_uses()
    }

    /// Waits, on the host, until all work that is queued on the elements has run.
    ///
    /// # Errors
    /// The failure of a stream that uses the tensor; [`Error::Invalid`] within recorded work.
    pub fn synchronize(&self) -> Result<()> {
        self.device().not_recorded("synchronize")?;
        let compute = self.device().compute();
        self.storage.order_after(&compute, true)?;
        compute.synchronize()
    }

    fn takes(&self, operation: &str, found: usize) -> Result<()> {
        let needed = self.bytes();
        match found == needed {
            true => Ok(()),
            false => {
                let found = format!("{found} bytes");
                Err(Error::invalid(operation, found, format!("{needed} bytes")))
            }
        }
    }

    fn is_readable(&self, operation: &'static str) -> Result<()> {
        self.device().not_recorded(operation)?;
        match self.device().capabilities().holds_values {
            true => Ok(()),
            false => Err(Error::NoValues {
                device: self.device().id(),
            }),
        }
    }

    /// Copies the elements of a tensor of floats or bytes to the host as f64.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tensor of 32-bit integers; otherwise as [`to_vec`](Tensor::to_vec).
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        match self.dtype {
            DType::F64 => self.to_vec::<f64>(),
            DType::F32 => Ok(self.to_vec::<f32>()?.into_iter().map(f64::from).collect()),
            DType::Bf16 => Ok(self
                .to_vec::<half::bf16>()?
                .into_iter()
                .map(f64::from)
                .collect()),
            DType::F16 => Ok(self
                .to_vec::<half::f16>()?
                .into_iter()
                .map(f64::from)
                .collect()),
            DType::U8 => Ok(self.to_vec::<u8>()?.into_iter().map(f64::from).collect()),
            other => Err(Error::invalid(
                "to_f64",
                format!("a tensor of {other}"),
                "a float type or u8",
            )),
        }
    }

    /// The only element of a one-element float tensor, on the host.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another number of elements; otherwise as [`to_f64`](Tensor::to_f64).
    pub fn item(&self) -> Result<f64> {
        if self.num_elements() != 1 {
            return Err(Error::invalid(
                "item",
                format!("{} elements", self.num_elements()),
                "1",
            ));
        }
        Ok(self.to_f64()?[0])
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the number of elements differs, and for a shape without elements whose other dims
    /// exceed 2^63 bytes.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        if shape::num_elements("reshape", shape, self.dtype)? != self.num_elements() {
            let needed = format!("{} elements, as {:?} has", self.num_elements(), self.shape);
            return Err(Error::invalid("reshape", format!("{shape:?}"), needed));
        }
        Ok(Tensor {
            shape: shape.to_vec(),
            ..self.clone()
        })
    }

    /// A view of `count` indices of the first dim, from `start` on.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they do not lie within the dim, and for a tensor without dims.
    pub fn rows(&self, start: usize, count: usize) -> Result<Tensor> {
        let Some(&have) = self.shape.first() else {
            return Err(Error::invalid("rows", format!("{self:?}"), "a first dim"));
        };
        if start.checked_add(count).is_none_or(|end| end > have) {
            return Err(Error::invalid(
                "rows",
                format!("{start}..{start}+{count}"),
                format!("at most {have} rows"),
            ));
        }
        let stride: usize = self.shape[1..].iter().product();
        let mut shape = self.shape.clone();
        shape[0] = count;
        Ok(Tensor {
            offset: self.offset + start * stride,
            shape,
            ..self.clone()
        })
    }

    /// Sizes of the dims, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Size of the last dim; 1 for a tensor without dims.
    pub fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Product of all dims but the last.
    pub fn num_rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.num_elements() * self.dtype.bytes()
    }

    /// The device that holds the tensor.
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// Whether no other tensor shares the memory.
    pub fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.storage) == 1
    }

    /// Whether the two share an element.
    pub fn overlaps(&self, other: &Tensor) -> bool {
        Rc::ptr_eq(&self.storage, &other.storage) && self.slice(0).overlaps(&other.slice(0))
    }

    /// A number that each write to the memory changes that this tensor views a part of, and nothing else does.
    pub fn version(&self) -> u64 {
        self.storage.version()
    }

    pub(crate) fn storage(&self) -> &Rc<Storage> {
        &self.storage
    }

    /// `count` bytes of a storage, from `start` on.
    pub(crate) fn of_bytes(storage: &Rc<Storage>, start: usize, count: usize) -> Tensor {
        Tensor {
            offset: start,
            ..Tensor::of(storage, DType::U8, count)
        }
    }

    /// The first `count` elements of a storage.
    pub(crate) fn of(storage: &Rc<Storage>, dtype: DType, count: usize) -> Tensor {
        Tensor {
            storage: storage.clone(),
            offset: 0,
            shape: vec![count],
            dtype,
        }
    }

    // Private to this module, because operations obtain addresses from `Arguments`.
    // Elements that are away come back. If they cannot, the address is none, and the storage refuses to be used.
    fn raw(&self) -> RawSlice {
        if let Some(keeper) = self.storage.away() {
            keeper.bring_back_at_last();
        }
        self.slice(self.storage.block().addr)
    }

    fn slice(&self, start: u64) -> RawSlice {
        RawSlice {
            addr: start + (self.offset * self.dtype.bytes()) as u64,
            len: self.num_elements(),
            dtype: self.dtype,
        }
    }
}

// The device may hold more than the host.
fn on_host<T: Scalar>(count: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(count).map_err(|_| {
        let needed = "fewer than this host's memory holds";
        Error::invalid(
            "to_vec",
            format!("{count} elements of {}", T::DTYPE),
            needed,
        )
    })?;
    elements.resize(count, T::zeroed());
    Ok(elements)
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({} {:?} on {})",
            self.dtype,
            self.shape,
            self.device().id()
        )
    }
}
