//! A bucket's small gradients beside each other in one tensor, so that they travel as one.

use crate::Reduced;
use hal::Counts;
use std::ops::Range;
use tensor::{DType, Device, Result, Tensor};

/// Up to this size two copies by the host, into the pack and back, cost less than a collective of its own.
pub(crate) const SMALL_BYTES: usize = 16 << 10;

/// Small gradients in the order of their owners. Each owner's part begins with a mark: it is 0 as long as every rank reduces what all
/// have agreed on, and a rank that has something else makes the sum another number.
///
/// So the agreement of a step costs no message of its own.
#[derive(Debug)]
pub(crate) struct Pack {
    tensor: Tensor,
    // This rank's part, and the mark at its beginning.
    own: Tensor,
    mark: Tensor,
    // The lengths of all owners' parts.
    counts: Counts,
    // For each gradient of the bucket the bytes where it lies, if it is packed.
    places: Vec<Option<Range<usize>>>,
}

impl Pack {
    /// A pack of a bucket whose gradients have these owners, lengths and types, on rank `rank` of `owners`.
    ///
    /// Gradients of another type than the first stay alone, as all do on a device whose memory the host cannot reach.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub(crate) fn new(
        device: &Device,
        gradients: &[(usize, usize, DType)],
        rank: usize,
        owners: usize,
    ) -> Result<Pack> {
        let dtype = gradients.first().map_or(DType::F32, |(_, _, dtype)| *dtype);
        let is_reached = device.capabilities().host_memory;
        let is_small = |&(_, length, of): &(usize, usize, DType)| {
            is_reached && of == dtype && length * dtype.bytes() <= SMALL_BYTES
        };
        let small = || gradients.iter().filter(|gradient| is_small(gradient));
        let mut counts = vec![1; owners];
        small().for_each(|(owner, length, _)| counts[*owner] += length);
        let start = |owner: usize| counts[..owner].iter().sum::<usize>();
        let tensor = Tensor::zeros(device, dtype, &[counts.iter().sum()])?;
        let mut next: Vec<usize> = (0..owners).map(|owner| start(owner) + 1).collect();
        let mut places = Vec::with_capacity(gradients.len());
        for gradient in gradients {
            let (owner, length, _) = *gradient;
            let place = is_small(gradient).then(|| next[owner]..next[owner] + length);
            next[owner] = place.as_ref().map_or(next[owner], |place| place.end);
            let bytes =
                |place: Range<usize>| place.start * dtype.bytes()..place.end * dtype.bytes();
            places.push(place.map(bytes));
        }
        Ok(Pack {
            own: tensor.rows(start(rank), counts[rank])?,
            mark: tensor.rows(start(rank), 1)?,
            tensor,
            counts: Counts::Uneven(counts),
            places,
        })
    }

    /// All parts.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// This rank's part.
    pub(crate) fn own(&self) -> &Tensor {
        &self.own
    }

    /// The lengths of all owners' parts.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether a gradient of the bucket is packed.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.places[index].is_some()
    }

    /// Copies gradients of the bucket, with their indices, in.
    ///
    /// # Errors
    /// As [`Tensor::edit_bytes`].
    pub(crate) fn put<'a>(
        &self,
        all: impl Iterator<Item = (usize, &'a mut Reduced)>,
    ) -> Result<()> {
        self.edit(all, |packed, alone| packed.copy_from_slice(alone))
    }

    /// Copies gradients of the bucket, with their indices, out.
    ///
    /// # Errors
    /// As [`Tensor::edit_bytes`].
    pub(crate) fn take<'a>(
        &self,
        all: impl Iterator<Item = (usize, &'a mut Reduced)>,
    ) -> Result<()> {
        self.edit(all, |packed, alone| alone.copy_from_slice(packed))
    }

    fn edit<'a>(
        &self,
        all: impl Iterator<Item = (usize, &'a mut Reduced)>,
        copy: impl Fn(&mut [u8], &mut [u8]),
    ) -> Result<()> {
        let mut all = all.filter(|(index, _)| self.has(*index)).peekable();
        if all.peek().is_none() {
            return Ok(());
        }
        self.tensor.edit_bytes(|pack| {
            for (index, gradient) in all {
                let place = self.places[index].clone().expect("it is packed");
                gradient.edit_bytes(|alone| copy(&mut pack[place], alone))?;
            }
            Ok(())
        })
    }

    /// Sets the marks and every element.
    pub(crate) fn fill(&self, value: f64) -> Result<()> {
        self.tensor.fill(value)
    }

    /// Whether a rank had something else to reduce; waits for the reduction.
    pub(crate) fn is_marked(&self) -> Result<bool> {
        // Any type's 0 has no bit set, and sums and averages of 0 and 1 are not negative.
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..self.mark.bytes()];
        self.mark.download(bytes)?;
        Ok(bytes.iter().any(|byte| *byte != 0))
    }
}
