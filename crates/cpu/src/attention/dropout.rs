//! The attention weights that dropout keeps.

use super::BLOCK;
use crate::element::Real;
use hal::kernel::{AttentionDropout, AttentionShape};

/// Dropout of the weights of one query head of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    dropout: AttentionDropout,
    // Index of the first query's weight on the first key, and from one query to the next.
    first: u64,
    step: u64,
    // A word's upper 24 bits below this drop its weight.
    threshold: u32,
}

impl Mask {
    /// The mask of head `head` of sequence `sequence`, both counted among the local ones.
    pub(super) fn of(shape: &AttentionShape, sequence: usize, head: usize) -> Option<Self> {
        let dropout = shape.dropout?;
        let head_index = (sequence * dropout.global_heads + head) as u64;
        let tokens = dropout.sequence as u64;
        // uniform < probability, for a uniform of 24 bits, without rounding.
        let threshold = (dropout.probability * f64::from(1 << 24)).ceil() as u32;
        Some(Mask {
            dropout,
            first: shape.first_weight(&dropout) + head_index * tokens * tokens,
            step: tokens,
            threshold,
        })
    }

    /// Fills `keep` with the factors, 0 or 1 / (1 - probability), of query `query` on the keys from `key` on.
    #[inline(always)]
    pub(super) fn factors<R: Real>(&self, query: usize, key: usize, keep: &mut [R]) {
        let kept = R::of(1.0 / (1.0 - self.dropout.probability));
        let start = self.first + query as u64 * self.step + key as u64;
        for (block, keep) in keep.chunks_mut(BLOCK).enumerate() {
            let words = self.words(start + (block * BLOCK) as u64);
            let skipped = (start % 4) as usize;
            let words = words.as_flattened();
            for i in 0..keep.len() {
                let dropped = words[skipped + i] >> 8 < self.threshold;
                keep[i] = if dropped { R::ZERO } else { kept };
            }
        }
    }

    /// The random words from the block of four that holds index `start` on: enough for BLOCK indices from `start`.
    #[inline(always)]
    fn words(&self, start: u64) -> [[u32; 4]; BLOCK / 4 + 1] {
        let mut words = [[0; 4]; BLOCK / 4 + 1];
        for index in 0..words.len() {
            words[index] = self.dropout.key.block(start / 4 + index as u64);
        }
        words
    }
}
