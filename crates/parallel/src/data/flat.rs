//! A flat buffer of a bucket, or a part of it, that may be beyond the device while nothing uses it.

use super::pages::Pages;
use std::{ops::Range, rc::Rc};
use tensor::{DType, Device, MemoryKind, Result, Tensor};

/// Its elements. Cloning clones the handle.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    tensor: Tensor,
    page: Option<(Rc<Pages>, usize)>,
}

impl Flat {
    /// Zeros: on the device, or a page.
    ///
    /// # Errors
    /// [`Error::Unsupported`](tensor::Error::Unsupported) for a type that the device lacks;
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn zeros(
        device: &Device,
        kind: MemoryKind,
        (dtype, len): (DType, usize),
        pages: Option<&Rc<Pages>>,
    ) -> Result<Flat> {
        device.allocating(kind, || {
            let Some(pages) = pages else {
                let tensor = Tensor::zeros(device, dtype, &[len])?;
                return Ok(Flat { tensor, page: None });
            };
            let tensor = Tensor::empty(device, dtype, &[len])?;
            let page = Some((pages.clone(), pages.add(&tensor)));
            Ok(Flat { tensor, page })
        })
    }

    /// The tensor, on the device. It may leave again as soon as another one is asked for; what uses it then brings it back.
    ///
    /// # Errors
    /// Those of bringing it to the device.
    pub(crate) fn tensor(&self) -> Result<&Tensor> {
        if let Some((pages, page)) = &self.page {
            pages.touch(*page)?;
        }
        Ok(&self.tensor)
    }

    /// Some of its elements, under a shape.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if they are not within it, or not as many as the shape has.
    pub(super) fn part(&self, range: &Range<usize>, shape: &[usize]) -> Result<Flat> {
        let tensor = self.tensor.rows(range.start, range.len())?.reshape(shape)?;
        let page = self.page.clone();
        Ok(Flat { tensor, page })
    }

    /// A number that each write to its memory changes, and coming or going does not.
    pub(super) fn version(&self) -> u64 {
        self.tensor.version()
    }

    /// Their type.
    pub(crate) fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.tensor.num_elements()
    }

    /// The device that has or uses them.
    pub(super) fn device(&self) -> &Device {
        self.tensor.device()
    }
}
