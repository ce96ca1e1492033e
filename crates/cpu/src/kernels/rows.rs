//! Sums of rows and softmax.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
    reduce,
    tree::{Values, read, sum_row, total},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{RowSum, Softmax, SoftmaxBackward},
    sums::Tree,
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn row_sum(args: &RowSum, pool: &Pool) -> Result<()> {
    dispatch!("row_sum", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, out] = unsafe { Shared::<T>::all([args.x, args.out]) };
        sums_of_rows(x, out, args.columns, pool);
        Ok(())
    })
}

fn sums_of_rows<T: Element>(x: Shared<T>, out: Shared<T>, columns: usize, pool: &Pool) {
    split(
        pool,
        out.len(),
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            let (mut tree, mut values) = (Tree::default(), Values::ZERO);
            for row in rows {
                let sum = sum_row(
                    &mut tree,
                    columns,
                    #[inline(always)]
                    |start, len| {
                        let start = row * columns + start;
                        read(
                            &mut values,
                            x,
                            start,
                            len,
                            #[inline(always)]
                            |x| x,
                        );
                        total(&mut values, len)
                    },
                    #[inline(always)]
                    |left, right| left + right,
                );
                out.set(row, T::from_acc(sum.unwrap_or(T::Acc::ZERO)));
            }
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn softmax(args: &Softmax, pool: &Pool) -> Result<()> {
    dispatch!("softmax", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, out] = unsafe { Shared::<T>::all([args.x, args.out]) };
        each_row(pool, args.rows, args.columns, #[inline(always)] |row| {
            let [x, out] = [x, out].map(|all| all.sub(row * args.columns, args.columns));
            softmax_of_row(x, out, args.log);
        });
        Ok(())
    })
}

#[inline(always)]
fn softmax_of_row<T: Element>(x: Shared<T>, out: Shared<T>, log: bool) {
    let max = reduce::max(x, 0..x.len());
    let sum = sum_of(
        x,
        x,
        #[inline(always)]
        |x, _| (x - max).exp(),
    );
    let log_sum = sum.ln();
    if log {
        zip_rows(
            x,
            x,
            out,
            #[inline(always)]
            |x, _| x - max - log_sum,
        );
    } else {
        zip_rows(
            x,
            x,
            out,
            #[inline(always)]
            |x, _| (x - max).exp() / sum,
        );
    }
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn softmax_backward(args: &SoftmaxBackward, pool: &Pool) -> Result<()> {
    dispatch!("softmax_backward", args.out.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let all = unsafe { Shared::<T>::all([args.out, args.d_out, args.d_x]) };
        each_row(pool, args.rows, args.columns, #[inline(always)] |row| {
            let [out, d_out, d_x] = all.map(|all| all.sub(row * args.columns, args.columns));
            gradient_of_row(out, d_out, d_x, args.log);
        });
        Ok(())
    })
}

#[inline(always)]
fn gradient_of_row<T: Element>(out: Shared<T>, d_out: Shared<T>, d_x: Shared<T>, log: bool) {
    if log {
        let sum = sum_of(
            d_out,
            d_out,
            #[inline(always)]
            |d, _| d,
        );
        zip_rows(
            out,
            d_out,
            d_x,
            #[inline(always)]
            |y, d| d - y.exp() * sum,
        );
    } else {
        let sum = sum_of(
            out,
            d_out,
            #[inline(always)]
            |y, d| y * d,
        );
        zip_rows(
            out,
            d_out,
            d_x,
            #[inline(always)]
            |y, d| y * (d - sum),
        );
    }
}

#[inline(always)]
fn each_row(pool: &Pool, rows: usize, columns: usize, work: impl Fn(usize) + Sync) {
    let grain = grain_of_rows(columns);
    split(
        pool,
        rows,
        grain,
        #[inline(always)]
        |rows| {
            for row in rows {
                work(row);
            }
        },
    );
}

/// The sum of `f(a[i], b[i])`, in the order of [`reduce`].
#[inline(always)]
fn sum_of<T: Element>(a: Shared<T>, b: Shared<T>, f: impl Fn(T::Acc, T::Acc) -> T::Acc) -> T::Acc {
    let mut lanes = [T::Acc::ZERO; BLOCK];
    blocks(
        0..a.len(),
        #[inline(always)]
        |start, len| {
            let (a, b) = (a.load::<T::Acc>(start, len), b.load::<T::Acc>(start, len));
            for i in 0..len {
                lanes[i] += f(a[i], b[i]);
            }
        },
    );
    reduce::total(lanes)
}

/// `out[i] = f(a[i], b[i])`; `out` may be the memory of an input.
#[inline(always)]
fn zip_rows<T: Element>(
    a: Shared<T>,
    b: Shared<T>,
    out: Shared<T>,
    f: impl Fn(T::Acc, T::Acc) -> T::Acc,
) {
    blocks(
        0..a.len(),
        #[inline(always)]
        |start, len| {
            let (mut a, b) = (a.load::<T::Acc>(start, len), b.load::<T::Acc>(start, len));
            for i in 0..BLOCK {
                a[i] = f(a[i], b[i]);
            }
            out.store(start, len, a);
        },
    );
}
