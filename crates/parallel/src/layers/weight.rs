//! The weight of a linear layer as a matmul reads it: a matrix, or the codes as which it is stored.

use super::{Linear, Storage, gather::gather};
use crate::{Pass, counters::Subject};
use hal::quantised::{MOST_ROWS, QuantisedPart};
use tensor::{Result, Tensor, ops, ops::Transpose};

/// This rank's block of a weight, in the type of activations.
#[derive(Clone, Debug)]
pub struct Weight(Stored);

#[derive(Clone, Debug)]
enum Stored {
    Block(Tensor),
    // Of a layer, which computes its block if somebody wants it. Rows are those of the block.
    Codes {
        stored: Tensor,
        part: QuantisedPart,
        layer: Linear,
    },
}

impl Weight {
    /// That of `layer` for a product with `x`. If the weight is stored as codes, a product of few rows reads these.
    ///
    /// # Errors
    /// Those of [`gather`].
    pub(crate) fn of(pass: &Pass, layer: &Linear, x: &Tensor) -> Result<Weight> {
        let weight = &layer.weight;
        let part = weight.quantised_part().filter(|_| {
            // Codes that several ranks hold are gathered, and rows of one part follow those of another.
            !weight.is_scattered(pass.context())
                && layer.storage == Storage::InOut
                && x.num_rows() <= MOST_ROWS
        });
        match part {
            Some(part) if weight.dtype()? == x.dtype() => Ok(Weight(Stored::Codes {
                stored: weight.stored()?,
                part,
                layer: layer.clone(),
            })),
            _ => Ok(Weight(Stored::Block(gather(
                pass,
                weight,
                Subject::Linear,
            )?))),
        }
    }

    /// A block that is already there.
    pub(crate) fn block_of(block: Tensor) -> Weight {
        Weight(Stored::Block(block))
    }

    /// The block.
    ///
    /// # Shapes
    /// As the layer stores it.
    /// # Cost
    /// If the weight is read as codes, a pass over them, and memory for the result.
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for that memory.
    pub fn block(&self) -> Result<Tensor> {
        match &self.0 {
            Stored::Block(block) => Ok(block.clone()),
            Stored::Codes { layer, .. } => layer.weight.value(),
        }
    }

    /// The block, if it is there.
    pub(crate) fn as_block(&self) -> Option<&Tensor> {
        match &self.0 {
            Stored::Block(block) => Some(block),
            Stored::Codes { .. } => None,
        }
    }

    /// Rows and columns of the block.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        match &self.0 {
            Stored::Block(block) => [block.num_rows(), block.columns()],
            Stored::Codes { part, .. } => [part.rows, part.columns],
        }
    }

    /// The product of `a` and the weight, of the type of `a`.
    ///
    /// # Errors
    /// As [`ops::matmul`](fn@ops::matmul).
    pub(crate) fn product(&self, a: &Tensor, transpose: Transpose) -> Result<Tensor> {
        match &self.0 {
            Stored::Codes { stored, part, .. } if transpose == Transpose::None => {
                let rows = &a.shape()[..a.shape().len().saturating_sub(1)];
                let out = Tensor::empty(a.device(), a.dtype(), &[rows, &[part.columns]].concat())?;
                let leaf = hal::sums::leaf(part.rows);
                ops::quantised::quantised_matmul_into(a, (stored, *part), &out, leaf)?;
                Ok(out)
            }
            _ => ops::matmul(a, &self.block()?, transpose),
        }
    }

    /// Sets `node`, of the accumulator type, to the same as a node of a longer sum.
    ///
    /// # Errors
    /// As [`ops::matmul_node_into`].
    pub(crate) fn node(
        &self,
        a: &Tensor,
        transpose: Transpose,
        node: &Tensor,
        leaf: usize,
    ) -> Result<()> {
        match &self.0 {
            Stored::Codes { stored, part, .. } if transpose == Transpose::None => {
                ops::quantised::quantised_matmul_into(a, (stored, *part), node, leaf)
            }
            _ => ops::matmul_node_into(a, &self.block()?, transpose, node, [1.0, 0.0], leaf),
        }
    }
}
