//! From the sums of a tile to elements of the result.

use super::{convert::narrow, strided::Strided};
use crate::element::{Element, Real};

/// What becomes of the sums: c = alpha * sums + beta * c, rounded to c's type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish<R> {
    pub(super) alpha: R,
    /// 0 does not read c.
    pub(super) beta: R,
}

impl<R: Real> Finish<R> {
    /// Whether the sums are the result.
    pub(super) fn is_plain(&self) -> bool {
        self.alpha == R::ONE && self.beta == R::ZERO
    }

    /// Finishes sums of `sizes` rows and columns, whose rows lie `step` apart, into the result from its first element
    /// on.
    ///
    /// # Safety
    /// The result has these rows and columns, which nobody else uses.
    pub(super) unsafe fn run<C: Element<Acc = R>>(
        self,
        arch: pulp::Arch,
        sums: &mut [R],
        step: usize,
        sizes: [usize; 2],
        c: Strided<C>,
    ) {
        arch.dispatch(FinishTile {
            finish: self,
            sums,
            step,
            sizes,
            c,
        });
    }

    #[inline(always)]
    fn row<C: Element<Acc = R>>(self, sums: &mut [R], out: &mut [C]) {
        if self.alpha != R::ONE {
            for i in 0..sums.len() {
                sums[i] *= self.alpha;
            }
        }
        if self.beta != R::ZERO {
            for i in 0..sums.len().min(out.len()) {
                sums[i] = self.beta.mul_add(out[i].acc(), sums[i]);
            }
        }
        narrow(sums, out);
    }
}

/// A tile to be finished; whoever makes it guarantees what [`Finish::run`] asks for.
struct FinishTile<'a, C: Element> {
    finish: Finish<C::Acc>,
    sums: &'a mut [C::Acc],
    step: usize,
    sizes: [usize; 2],
    c: Strided<C>,
}

impl<C: Element> pulp::WithSimd for FinishTile<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let [rows, columns] = self.sizes;
        // Elements that lie side by side in the result.
        let len = if self.c.column == 1 { columns } else { 1 };
        for row in 0..rows {
            let mut column = 0;
            while column < columns {
                let sums = &mut self.sums[row * self.step + column..][..len];
                let place = self.c.from(row, column).data;
                // SAFETY: the result has these elements, and nobody else uses them.
                let out = unsafe { std::slice::from_raw_parts_mut(place, len) };
                self.finish.row(sums, out);
                column += len;
            }
        }
    }
}
