//! Initial values of parameters.

use hal::{random::Key, threads};

/// Initial values, as a function of seed, name and global index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Every element the same.
    Constant(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform in plus or minus this bound.
    Uniform(f64),
}

// Draws that justify an additional thread: about a millisecond.
const WORTH_A_THREAD: usize = 1 << 15;

impl Init {
    /// Fills `values` with the elements of these runs (first global index, length), on at most `threads` threads. An element
    /// depends on its global index alone.
    pub(crate) fn draw(
        self,
        key: Key,
        runs: impl Iterator<Item = (usize, usize)>,
        threads: usize,
        values: &mut [f64],
    ) {
        let threads = threads.min(values.len() / WORTH_A_THREAD).max(1);
        let mut pieces = Vec::new();
        let mut left = values;
        for (start, len) in runs {
            for first in (start..start + len).step_by(WORTH_A_THREAD) {
                let (piece, after) = left.split_at_mut(WORTH_A_THREAD.min(start + len - first));
                pieces.push((first, piece));
                left = after;
            }
        }
        let draw_all = |pieces: &mut [(usize, &mut [f64])]| {
            for (first, piece) in pieces {
                for (value, index) in piece.iter_mut().zip(*first as u64..) {
                    *value = self.at(key, index);
                }
            }
        };
        let share = pieces.len().div_ceil(threads).max(1);
        threads::on_each(pieces.chunks_mut(share), draw_all);
    }

    fn at(self, key: Key, index: u64) -> f64 {
        match self {
            Init::Constant(value) => value,
            Init::Normal(deviation) => deviation * key.normal(index),
            Init::Uniform(bound) => bound * (2.0 * f64::from(key.uniform(index)) - 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_cuts_change_no_value() {
        let key = Key::new(3, "weight", 0);
        let draw = |runs: &[(usize, usize)], threads| {
            let mut values = vec![f64::NAN; runs.iter().map(|(_, len)| len).sum()];
            Init::Normal(0.02).draw(key, runs.iter().copied(), threads, &mut values);
            values
        };
        const LEN: usize = 5 * WORTH_A_THREAD + 7;
        let whole = draw(&[(0, LEN)], 1);
        assert!(whole.iter().all(|value| value.is_finite()));
        assert!((2..5).all(|threads| draw(&[(0, LEN)], threads) == whole));
        let rows: Vec<_> = (0..300).map(|row| (1000 * row + 3, 400)).collect();
        let cut = draw(&rows, 3);
        for (&(start, len), found) in rows.iter().zip(cut.chunks(400)).take(160) {
            assert_eq!(found, &whole[start..start + len]);
        }
        assert_eq!(draw(&rows, 1), cut);
        assert!(draw(&[], 2).is_empty());
    }
}
