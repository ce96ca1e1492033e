//! Packs a block of a factor for the micro-kernel.
//!
//! A panel holds `width` neighbouring rows of the left factor, or columns of the right one: for each step of the depth,
//! a word of every neighbour. A panel with fewer neighbours is filled up with zeros, so that it is computed like any
//! other.

use super::{format::Format, kernel::fetch, strided::Strided};

// Words of a panel that are packed before those of the next one: complete cache lines, from as few rows as possible.
const WORDS: usize = 64;

// A panel that is read no more often than this is not packed, if it is stored as the micro-kernel reads it.
const FEW_USES: usize = 4;
// Likewise a block that spans no more memory than this, however often it is read.
const SMALL_BYTES: usize = 64 << 10;
// Terms between the one that is packed and the one that is fetched.
const AHEAD: usize = 8;

/// A block of a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<T> {
    /// Its first element; rows are the neighbours, columns the terms.
    pub(super) from: Strided<T>,
    pub(super) neighbours: usize,
    /// Terms of the sums.
    pub(super) depth: usize,
    /// Neighbours in a panel.
    pub(super) width: usize,
}

/// The panels of a block: the first ones are read where they are stored, and packed ones follow.
#[derive(Debug)]
pub(super) struct Panels<W> {
    stored: usize,
    from: *const W,
    from_step: usize,
    packed: *const W,
    packed_len: usize,
    width: usize,
}

impl<W> Panels<W> {
    /// The first word of a panel, and the step to its next words.
    #[inline(always)]
    pub(super) fn panel(&self, index: usize) -> (*const W, usize) {
        match index.checked_sub(self.stored) {
            None => (self.from.wrapping_add(index * self.width), self.from_step),
            Some(packed) => (
                self.packed.wrapping_add(packed * self.packed_len),
                self.width,
            ),
        }
    }
}

impl<T: Copy> Block<T> {
    /// Number of panels.
    pub(super) fn panels(&self) -> usize {
        self.neighbours.div_ceil(self.width)
    }

    /// The block's panels, each of which is read `uses` times. `end_fits` states that the micro-kernel reads no word
    /// beyond the end of the last one. Packs into `to` what must be packed.
    ///
    /// # Safety
    /// As [`pack`](Self::pack).
    pub(super) unsafe fn place<F: Format<Source = T>>(
        &self,
        format: F,
        uses: usize,
        end_fits: bool,
        to: &mut [F::Word],
    ) -> Panels<F::Word> {
        let bytes = self.depth * self.from.column * size_of::<T>();
        let stays = F::STORED
            && (self.from.row == 1 || self.neighbours == 1)
            && (uses <= FEW_USES || bytes <= SMALL_BYTES);
        let stored = match (stays, end_fits) {
            (false, _) => 0,
            (true, true) => self.panels(),
            (true, false) => self.neighbours / self.width,
        };
        let packed = Block {
            from: self.from.from(stored * self.width, 0),
            neighbours: self.neighbours.saturating_sub(stored * self.width),
            ..*self
        };
        // SAFETY: the caller guarantees the block, of which this is the rest.
        unsafe { packed.pack(format, to) };
        Panels {
            stored,
            from: self.from.data.cast::<F::Word>().cast_const(),
            from_step: self.from.column,
            packed: to.as_ptr(),
            packed_len: self.panel_len::<F>(),
            width: self.width,
        }
    }

    /// Words of a panel.
    fn panel_len<F: Format>(&self) -> usize {
        self.width * self.depth.div_ceil(F::TERMS)
    }

    /// Packs the block into panels, one after another.
    ///
    /// # Safety
    /// The block is live memory that nobody writes, and its rows or its columns are contiguous.
    unsafe fn pack<F: Format<Source = T>>(&self, format: F, to: &mut [F::Word]) {
        if self.neighbours == 0 || self.depth == 0 {
            return; // an empty factor may have no address
        }
        // SAFETY: the caller guarantees the block; its layout selects the function.
        unsafe {
            match self.from.row {
                1 => format.arch().dispatch(PackSteps::<F> { block: self, to }),
                _ => self.pack_rows(format, to),
            }
        }
    }

    /// Packs neighbours that are stored as rows of terms.
    ///
    /// # Safety
    /// As [`pack`](Self::pack), for contiguous terms.
    unsafe fn pack_rows<F: Format<Source = T>>(&self, format: F, to: &mut [F::Word]) {
        let panels = to.chunks_exact_mut(self.panel_len::<F>());
        for (start, panel) in (0..self.neighbours).step_by(self.width).zip(panels) {
            let count = self.width.min(self.neighbours - start);
            if count < self.width {
                panel.fill(bytemuck::Zeroable::zeroed());
            }
            let (from, sizes) = (self.from.from(start, 0).data, [count, self.depth]);
            // SAFETY: the caller guarantees the block, in which these rows lie; a panel has a word of each per step.
            unsafe { format.pack_rows(from, self.from.row, sizes, panel, self.width) };
        }
    }
}

/// Packs terms that are stored as rows of neighbours; whoever makes it guarantees what [`Block::pack`] asks for.
struct PackSteps<'a, F: Format> {
    block: &'a Block<F::Source>,
    to: &'a mut [F::Word],
}

impl<F: Format> pulp::WithSimd for PackSteps<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Block {
            from,
            neighbours,
            depth,
            width,
        } = *self.block;
        let steps = depth.div_ceil(F::TERMS);
        let (panel_len, group) = (steps * width, WORDS.div_ceil(width));
        let mut first = 0;
        while first < steps {
            let mut start = 0;
            while start < neighbours {
                let count = width.min(neighbours - start);
                let panel = &mut self.to[start / width * panel_len..][..panel_len];
                for step in first..steps.min(first + group) {
                    let words = &mut panel[step * width..][..width];
                    for i in count..width {
                        words[i] = bytemuck::Zeroable::zeroed();
                    }
                    let (term, rows) = (step * F::TERMS, F::TERMS.min(depth - step * F::TERMS));
                    let source = from.from(start, term).data;
                    // Rows lie so far apart that the processor does not foresee the next one.
                    let next = from.from(start, term + AHEAD).data;
                    for i in (0..count).step_by(64 / size_of::<F::Source>()) {
                        fetch(next.wrapping_add(i));
                    }
                    // SAFETY: these terms of `count` neighbours lie in the block, which `Block::pack` guarantees.
                    unsafe { F::pack_step(source, from.column, rows, &mut words[..count]) };
                }
                start += width;
            }
            first += group;
        }
    }
}
