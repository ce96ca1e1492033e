//! Sums of squares have one bit pattern, however elements are distributed over launches and ranks.

use super::*;
use hal::kernel::{ExactSquares, ExactTotal, Largest};

const LEN: usize = 3000;

/// Numbers of either sign whose magnitudes spread over powers of 10 from `low` to `high`.
fn spread(dtype: DType, low: f64, high: f64) -> Vec<f64> {
    let key = Key {
        seed: 5,
        sequence: 0,
    };
    let number = |i: u64| {
        let power = low + (high - low) * f64::from(key.uniform(2 * i));
        let sign = if key.word(2 * i + 1).is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        sign * 10f64.powf(power)
    };
    rounded(dtype, &(0..LEN as u64).map(number).collect::<Vec<_>>())
}

fn shuffled(values: &[f64], seed: u64) -> Vec<f64> {
    let key = Key { seed, sequence: 2 };
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&i| key.word(i as u64));
    order.into_iter().map(|i| values[i]).collect()
}

/// The values in `slices` pieces of any lengths.
fn cut(values: &[f64], slices: usize, seed: u64) -> Vec<Vec<f64>> {
    let key = Key { seed, sequence: 3 };
    let mut ends: Vec<usize> = (1..slices as u64)
        .map(|i| key.word(i) as usize % (values.len() + 1))
        .chain([0, values.len()])
        .collect();
    ends.sort_unstable();
    ends.windows(2)
        .map(|pair| values[pair[0]..pair[1]].to_vec())
        .collect()
}

/// The bits of the sum of squares, in launches of three slices on two ranks.
fn total(dtype: DType, slices: &[Vec<f64>]) -> u64 {
    let memory = |values: &Vec<f64>| (dtype, values.clone());
    let mut largest = vec![0.0];
    for launch in slices.chunks(3) {
        let memories: Vec<_> = launch
            .iter()
            .map(memory)
            .chain([(DType::F64, largest)])
            .collect();
        let found = run(&memories, |m| {
            let (out, slices) = m.split_last().unwrap();
            Kernel::Largest(Largest {
                slices: slices.to_vec(),
                out: *out,
            })
        });
        largest = found.last().unwrap().clone();
    }
    // Every other launch belongs to another rank, whose sums are added at the end.
    let mut sums = [vec![0.0; 3], vec![0.0; 3]];
    for (index, launch) in slices.chunks(3).enumerate() {
        let sums = &mut sums[index % 2];
        let ends = [(DType::F64, largest.clone()), (DType::F64, sums.clone())];
        let memories: Vec<_> = launch.iter().map(memory).chain(ends).collect();
        let found = run(&memories, |m| {
            let ([largest, sums], slices) =
                (m[m.len() - 2..].try_into().unwrap(), &m[..m.len() - 2]);
            Kernel::ExactSquares(ExactSquares {
                slices: slices.to_vec(),
                largest,
                sums,
            })
        });
        *sums = found.last().unwrap().clone();
    }
    let sums = (0..3).map(|i| sums[0][i] + sums[1][i]).collect();
    let memories = [largest, sums, vec![9.0]].map(|values| (DType::F64, values));
    let found = run(&memories, |m| {
        Kernel::ExactTotal(ExactTotal {
            largest: m[0],
            sums: m[1],
            out: m[2],
        })
    });
    found[2][0].to_bits()
}

/// The sum of squares with twice the digits of f64.
fn reference(values: &[f64]) -> f64 {
    let (mut high, mut low) = (0.0f64, 0.0f64);
    for x in values {
        let square = x * x;
        let next = high + square;
        let kept = next - high;
        low += (high - (next - kept)) + (square - kept) + x.mul_add(*x, -square);
        high = next;
    }
    high + low
}

#[track_caller]
fn assert_one_pattern(dtype: DType, values: &[f64]) -> f64 {
    let expected = total(dtype, &[values.to_vec()]);
    for (seed, slices) in [(1, 1), (2, 2), (3, 7), (4, 20)] {
        let found = total(dtype, &cut(&shuffled(values, seed), slices, seed));
        assert_eq!(found, expected, "{dtype}, {slices} slices");
    }
    f64::from_bits(expected)
}

#[test]
fn every_distribution_gives_the_bits_of_one_launch() {
    for (dtype, low, high) in [
        (DType::F32, -38.0, 38.0),
        (DType::F64, -38.0, 38.0),
        (DType::Bf16, -38.0, 38.0),
        (DType::F16, -7.0, 4.0),
        (DType::F32, -45.0, -38.0),
        (DType::F32, -4.0, 0.0),
        (DType::F64, -4.0, 0.0),
        (DType::F64, -140.0, -100.0),
        (DType::F64, 140.0, 150.0),
    ] {
        let mut values = spread(dtype, low, high);
        values[7..11].fill(0.0);
        let (found, expected) = (assert_one_pattern(dtype, &values), reference(&values));
        assert!(
            (found - expected).abs() <= 1e-14 * expected,
            "{dtype}, 1e{low} to 1e{high}: {found:e}, expected {expected:e}"
        );
    }
}

#[test]
fn parts_of_a_long_slice_add_exactly() {
    let values = random(DType::F32, 200_001, 1);
    let (found, expected) = (
        total(DType::F32, std::slice::from_ref(&values)),
        reference(&values),
    );
    assert_eq!(total(DType::F32, &cut(&shuffled(&values, 1), 5, 1)), found);
    let found = f64::from_bits(found);
    assert!(
        (found - expected).abs() <= 1e-14 * expected,
        "{found} against {expected}"
    );
}

#[test]
fn infinity_and_nan_stay_visible() {
    for dtype in FLOATS {
        let mut values = spread(dtype, -4.0, 4.0);
        values[LEN - 3] = f64::NEG_INFINITY;
        assert_eq!(assert_one_pattern(dtype, &values), f64::INFINITY);
        values[9] = f64::NAN;
        assert!(assert_one_pattern(dtype, &values).is_nan());
        values[LEN - 3] = 0.0;
        assert!(assert_one_pattern(dtype, &values).is_nan());
        assert_eq!(assert_one_pattern(dtype, &[0.0; 9]).to_bits(), 0);
        assert_eq!(assert_one_pattern(dtype, &[]).to_bits(), 0);
    }
    assert_eq!(
        assert_one_pattern(DType::F64, &[f64::MAX, 1.0]),
        f64::INFINITY
    );
}
