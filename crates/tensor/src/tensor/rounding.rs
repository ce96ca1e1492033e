//! Numbers of the host in a tensor's type.

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

#[cfg(test)]
mod tests {
    use super::*;

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
