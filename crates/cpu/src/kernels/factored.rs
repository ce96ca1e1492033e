//! Moving means of rows and columns, and directions of updates by them: see [`hal::kernel::factored`].

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch_accumulator,
    exact_squares::power_of_two,
    lines::scale_of,
    memory::{BLOCK, Shared},
    optimiser::factor,
};
use crate::{element::Real, pool::Pool};
use hal::{
    Result,
    kernel::{
        ClipDirections, ClipDirectionsTensor, FactorDirections, FactorDirectionsTensor,
        FactorMeans, FactorMeansTensor, factored::rounds,
    },
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn factor_means(args: &FactorMeans) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let Some(factor) = (unsafe { factor(args.factor) }) else {
        return Ok(());
    };
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("factor_means", tensor.means[0].dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slices' own.
            unsafe { means_of_tensor::<A>(args, tensor, factor) };
            Ok(())
        })
    })
}

/// # Safety
/// The slices of `tensor` are live, of this type or f64, and nothing else uses those that are written.
unsafe fn means_of_tensor<A: Real>(args: &FactorMeans, tensor: &FactorMeansTensor, factor: f64) {
    // SAFETY: guaranteed by the caller.
    let [largest, sums] = unsafe { [Shared::<f64>::all(tensor.largest), Shared::all(tensor.sums)] };
    // SAFETY: guaranteed by the caller.
    let [means, factors] = unsafe { [Shared::<A>::all(tensor.means), Shared::all(tensor.factors)] };
    for of in 0..2 {
        let terms = means[1 - of].len() as f64;
        for line in 0..means[of].len() {
            let root = power_of_two(scale_of(largest[of].get(line))) * factor;
            let squares = sums[of].get(line) / terms * root * root;
            let old = means[of].get(line).wide();
            let mean = args.keep * old + (1.0 - args.keep) * (squares + args.epsilon);
            means[of].set(line, A::of(mean));
        }
    }
    let [rows, columns] = means;
    let of_row = |row: usize| rows.get(row).wide();
    let mean = exact_sum(rows.len(), of_row) / rows.len() as f64;
    for row in 0..rows.len() {
        factors[0].set(row, A::of((mean / of_row(row)).sqrt()));
    }
    for column in 0..columns.len() {
        factors[1].set(column, A::of(1.0 / columns.get(column).wide().sqrt()));
    }
}

/// The sum of `count` positive numbers, each rounded so that their order does not matter.
fn exact_sum(count: usize, number: impl Fn(usize) -> f64) -> f64 {
    let largest = (0..count).fold(0.0, |largest, index| f64::max(largest, number(index)));
    let (rounds, power) = (rounds(count), scale_of(largest));
    let scale = power_of_two(-power);
    let rounded = |index: usize| (number(index) * scale + rounds) - rounds;
    (0..count).map(rounded).sum::<f64>() * power_of_two(power)
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn factor_directions(args: &FactorDirections, pool: &Pool) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let Some(factor) = (unsafe { factor(args.factor) }) else {
        return Ok(());
    };
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("factor_directions", tensor.gradients.dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slices' own.
            unsafe { directions_of_tensor::<A>(tensor, A::of(factor), pool) };
            Ok(())
        })
    })
}

/// # Safety
/// The slices of `tensor` are live, of this type, and nothing else uses the gradients.
unsafe fn directions_of_tensor<A: Real>(tensor: &FactorDirectionsTensor, factor: A, pool: &Pool) {
    let place = tensor.place;
    // SAFETY: guaranteed by the caller.
    let gradients = unsafe { Shared::<A>::new(tensor.gradients) };
    // SAFETY: guaranteed by the caller.
    let [rows, columns] = unsafe { Shared::<A>::all(tensor.factors) };
    split(
        pool,
        place.num_rows(gradients.len()).unwrap_or(0),
        grain_of_rows(place.columns),
        #[inline(always)]
        |range| {
            for row in range {
                let (held, of_row) = (place.of_row(row, gradients.len()), rows.get(row));
                let first = (place.start + held.start) % place.columns;
                blocks(
                    held.clone(),
                    #[inline(always)]
                    |start, len| {
                        let mut g = gradients.load::<A>(start, len);
                        let c = columns.load::<A>(first + start - held.start, len);
                        for i in 0..BLOCK {
                            g[i] = factor * g[i] * c[i] * of_row;
                        }
                        gradients.store(start, len, g);
                    },
                );
            }
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn clip_directions(args: &ClipDirections) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let factor = unsafe { factor(args.factor) };
    for tensor in &args.tensors {
        let ClipDirectionsTensor {
            largest, sums, out, ..
        } = *tensor;
        // SAFETY: guaranteed by the caller, which passes f64.
        let [largest, sums, out] = unsafe { Shared::<f64>::all([largest, sums, out]) };
        let of_row = |row: usize| {
            let root = power_of_two(scale_of(largest.get(row)));
            sums.get(row) * root * root
        };
        let total = exact_sum(sums.len(), of_row);
        let root_mean_square = (total / tensor.elements as f64).sqrt();
        let clip = match root_mean_square > args.most {
            true => args.most / root_mean_square,
            false => 1.0,
        };
        out.set(0, factor.map_or(f64::NAN, |_| clip));
        out.set(1, root_mean_square);
    }
    Ok(())
}
