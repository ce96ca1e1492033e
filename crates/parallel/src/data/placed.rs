//! A bucket's state beyond the device: how it is cut into pieces, and how whole tensors of it are read and written.

use super::{pieces::PieceCut, placement::StateStore};
use std::{ops::Range, rc::Rc};
use tensor::{DType, Device, MemoryKind, Result, Tensor};

/// Tensors of one length, of which each piece holds the same range: first the states, then the weights in the accumulator
/// type, if they are among them.
#[derive(Clone, Debug)]
pub(super) struct PlacedState {
    pub(super) store: Rc<StateStore>,
    first_piece: usize,
    cut: PieceCut,
    dtype: DType,
    pub(super) num_states: usize,
    pub(super) has_master: bool,
}

impl PlacedState {
    /// Adds `num_states` tensors of `len` elements to the store, and the weights if they are to be there.
    pub(super) fn add(
        store: &Rc<StateStore>,
        (len, dtype): (usize, DType),
        (num_states, has_master): (usize, bool),
        alignment: usize,
    ) -> PlacedState {
        let num_tensors = num_states + usize::from(has_master);
        let most = store.piece_bytes / (num_tensors * dtype.bytes());
        let placed = PlacedState {
            store: store.clone(),
            first_piece: 0,
            cut: PieceCut::new(len, most, alignment),
            dtype,
            num_states,
            has_master,
        };
        let numbers = placed.cut.ranges().map(|range| {
            if let Some(host) = &store.host {
                host.expect(range.len());
            }
            store.add(num_tensors * range.len())
        });
        let first_piece = numbers.min().unwrap_or(0);
        PlacedState {
            first_piece,
            ..placed
        }
    }

    /// Tensors of which a piece holds its range.
    pub(super) fn num_tensors(&self) -> usize {
        self.num_states + usize::from(self.has_master)
    }

    /// The number of each piece, and the elements that it holds of each tensor.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        (self.first_piece..).zip(self.cut.ranges())
    }

    /// The index of the weights among the tensors.
    pub(super) fn master_index(&self) -> usize {
        self.num_states
    }

    /// A copy of a tensor on the device, by its index.
    ///
    /// # Errors
    /// Those of the store; [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn tensor(&self, device: &Device, index: usize) -> Result<Tensor> {
        let (dtype, len) = (self.dtype, self.cut.len);
        let tensor =
            device.allocating(MemoryKind::Buffers, || Tensor::empty(device, dtype, &[len]))?;
        for (piece, range) in self.pieces() {
            let bytes = self.store.store.borrow().read(piece)?;
            let part = tensor.rows(range.start, range.len())?;
            part.upload_bytes_on(&device.compute(), &bytes[self.within(&range, index)])?;
        }
        Ok(tensor)
    }

    /// Sets a tensor, by its index, to these numbers, rounded to its type.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn set(&self, index: usize, numbers: &[f64]) -> Result<()> {
        for (piece, range) in self.pieces() {
            let mut bytes = self.store.store.borrow().read(piece)?;
            let part = &mut bytes[self.within(&range, index)];
            write(self.dtype, &numbers[range], part);
            self.store.store.borrow_mut().write(piece, &bytes)?;
        }
        Ok(())
    }

    // Where a tensor's bytes are among those of a piece.
    fn within(&self, range: &Range<usize>, index: usize) -> Range<usize> {
        let bytes = range.len() * self.dtype.bytes();
        index * bytes..(index + 1) * bytes
    }
}

// Accumulators have 32 or 64 bits.
fn write(dtype: DType, numbers: &[f64], bytes: &mut [u8]) {
    let bytes = bytes.chunks_exact_mut(dtype.bytes());
    for (number, bytes) in numbers.iter().zip(bytes) {
        match dtype {
            DType::F64 => bytes.copy_from_slice(&number.to_ne_bytes()),
            _ => bytes.copy_from_slice(&(*number as f32).to_ne_bytes()),
        }
    }
}
