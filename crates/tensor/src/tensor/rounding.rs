//! Numbers of the host in a tensor's type.

use hal::DType;
use half::{bf16, f16};

// Numbers whose rounding justifies an additional thread: about a millisecond, with the memory that they are written to.
const WORTH_A_THREAD: usize = 1 << 19;

/// Each number as `round` gives it, in order, on at most `threads` threads.
pub(super) fn rounded<T: Copy + Default + Send>(
    threads: usize,
    numbers: &[f64],
    round: impl Fn(f64) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(numbers.len() / WORTH_A_THREAD);
    if threads <= 1 {
        return numbers.iter().map(|number| round(*number)).collect();
    }
    // Pages of a vector of zeros are there once they are written, by the thread that does.
    let mut all = vec![T::default(); numbers.len()];
    let share = numbers.len().div_ceil(threads);
    let write = |(into, from): (&mut [T], &[f64])| {
        let each = into.iter_mut().zip(from);
        each.for_each(|(into, from)| *into = round(*from));
    };
    let parts = all.chunks_mut(share).zip(numbers.chunks(share));
    hal::threads::on_each(parts, write);
    all
}

/// Whether a float type holds each of these numbers as it is; compared on at most `threads` threads. It holds no NaN as it is.
pub fn is_exact(threads: usize, dtype: DType, numbers: &[f64]) -> bool {
    let held = |number: f64| match dtype {
        DType::F32 => f64::from(number as f32),
        DType::Bf16 => to_bf16(number).to_f64(),
        DType::F16 => to_f16(number).to_f64(),
        _ => number,
    };
    let threads = threads.min(numbers.len() / WORTH_A_THREAD);
    hal::threads::all(threads, numbers, |_, numbers| {
        numbers.iter().all(|number| held(*number) == *number)
    })
}

pub(super) fn to_bf16(number: f64) -> bf16 {
    bf16::from_f32(number as f32)
}

pub(super) fn to_f16(number: f64) -> f16 {
    f16::from_f32(number as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_type_does_not_have_are_found() {
        let mut numbers = vec![1.5; 2 * WORTH_A_THREAD + 3];
        let last = numbers.len() - 1;
        for number in [1.0 + 1e-3, 1.0 + 1e-9, 1e-9, f64::NAN] {
            numbers[last] = number;
            let all = [DType::F64, DType::F32, DType::F16, DType::Bf16];
            let found = all.map(|dtype| is_exact(2, dtype, &numbers));
            let needed = all.map(|dtype| match dtype {
                DType::F64 => !number.is_nan(),
                _ => false,
            });
            assert_eq!(found, needed, "{number}");
        }
        numbers[last] = 1.0 + 1.0 / 512.0;
        let found = [DType::F32, DType::F16, DType::Bf16].map(|dtype| is_exact(3, dtype, &numbers));
        assert_eq!(found, [true, true, false]);
        assert!(is_exact(1, DType::Bf16, &[]));
    }

    #[test]
    fn threads_change_no_number() {
        let numbers: Vec<f64> = (0..3 * WORTH_A_THREAD + 7)
            .map(|n| n as f64 / 3.0)
            .collect();
        let alone = rounded(1, &numbers, |x| x as f32);
        for threads in [2, 3, 64] {
            assert!(
                rounded(threads, &numbers, |x| x as f32) == alone,
                "{threads}"
            );
        }
    }
}
