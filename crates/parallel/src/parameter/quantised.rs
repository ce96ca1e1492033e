//! Weights that are stored as codes: the parts of a matrix that ranks store, and what they stand for.

use super::Parameter;
use crate::Context;
use grid::{Axis, shard_range};
use hal::{
    Counts,
    quantised::{Quantised, QuantisedPart},
};
use tensor::{DType, Error, Result, Tensor, ops};

impl Parameter {
    /// Stores its weights as codes from which each use computes them. All ranks must do so, before a parameter set is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a parameter that is trained, that has not exactly two dims, or that is part of a set.
    pub fn quantise(&self, format: Quantised) -> Result<()> {
        let found = match self.settled() {
            Some(_) => "a part of a set".to_owned(),
            None if !self.is_frozen() => "a parameter that is trained".to_owned(),
            None if self.global_shape().len() != 2 => format!("shape {:?}", self.global_shape()),
            None => {
                self.0.quantised.set(Some(format));
                return Ok(());
            }
        };
        let operation = format!("{format} for {}", self.name());
        let needed = "a frozen matrix, before its set is made";
        Err(Error::invalid(operation, found, needed))
    }

    /// How its weights are stored, if as codes.
    pub fn quantised(&self) -> Option<Quantised> {
        self.0.quantised.get()
    }

    /// Which part of its matrix this rank stores, if as codes.
    pub(crate) fn quantised_part(&self) -> Option<QuantisedPart> {
        let format = self.quantised()?;
        let index = self.index();
        Some(QuantisedPart {
            format,
            rows: index.shape[0],
            columns: index.shape[1],
            first_column: index.start[1],
        })
    }

    /// Elements of a bucket's buffer that this rank's shard takes: bytes, if weights are stored as codes.
    pub(crate) fn stored_len(&self) -> usize {
        match self.quantised_part() {
            Some(part) => part.bytes(),
            None => self.num_elements(),
        }
    }

    /// The shape in which they lie there.
    pub(crate) fn stored_shape(&self) -> Vec<usize> {
        match self.quantised() {
            Some(_) => vec![self.stored_len()],
            None => self.local_shape().to_vec(),
        }
    }

    /// The parts that the ranks of axis Z store; none if weights are not stored as codes.
    fn parts_of_block(&self, context: &Context) -> Vec<QuantisedPart> {
        let Some(own) = self.quantised_part() else {
            return Vec::new();
        };
        if !self.is_scattered(context) {
            return vec![own];
        }
        let (rows, ranks) = (self.block_shape(context)[0], context.degree(Axis::Z));
        let of_rank = |rank| QuantisedPart {
            rows: shard_range(rows, ranks, rank).len(),
            ..own
        };
        (0..ranks).map(of_rank).collect()
    }

    /// The shape of a gathered block as it is stored, and the elements of it that each rank of axis Z holds.
    pub(crate) fn stored_block(&self, context: &Context) -> (Vec<usize>, Counts) {
        let parts = self.parts_of_block(context);
        let Some(first) = parts.first() else {
            return (self.block_shape(context), self.block_counts(context));
        };
        let bytes: Vec<usize> = parts.iter().map(QuantisedPart::bytes).collect();
        let shape = vec![bytes.iter().sum()];
        match bytes.iter().all(|one| *one == first.bytes()) {
            true => (shape, Counts::Even(first.bytes())),
            false => (shape, Counts::Uneven(bytes)),
        }
    }

    /// What a stored block, or this rank's shard of it, stands for; itself, if weights are not stored as codes.
    pub(crate) fn dequantised_block(&self, context: &Context, stored: Tensor) -> Result<Tensor> {
        let parts = self.parts_of_block(context);
        if parts.is_empty() {
            return Ok(stored);
        }
        let block = context.buffer(self.dtype()?, &self.block_shape(context))?;
        let (mut byte, mut row) = (0, 0);
        for part in parts {
            let into = block.rows(row, part.rows)?;
            ops::quantised::dequantise(&stored.rows(byte, part.bytes())?, part, &into)?;
            (byte, row) = (byte + part.bytes(), row + part.rows);
        }
        Ok(block)
    }

    /// What this rank's stored weights stand for, in a type; themselves, if they are not stored as codes.
    pub(crate) fn dequantised(&self, stored: &Tensor, dtype: DType) -> Result<Tensor> {
        let Some(part) = self.quantised_part() else {
            return Ok(stored.clone());
        };
        let device = stored.device();
        let values = device.allocating(tensor::MemoryKind::Buffers, || {
            Tensor::empty(device, dtype, self.local_shape())
        })?;
        ops::quantised::dequantise(stored, part, &values)?;
        Ok(values)
    }
}
