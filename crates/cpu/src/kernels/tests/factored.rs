use super::*;
use hal::kernel::{
    ClipDirections, ClipDirectionsTensor, FactorDirections, FactorDirectionsTensor, FactorMeans,
    FactorMeansTensor, LineLargest, LineLargestTensor, LinePlace, LineSquares, LineSquaresTensor,
};

const WIDE: DType = DType::F64;

/// Columns, the first element and how many: whole rows, parts of rows, one row, one column, and many.
const RUNS: [[usize; 3]; 6] = [
    [33, 0, 99],
    [40, 37, 130],
    [70, 5, 20],
    [1, 0, 5],
    [90, 50, 40],
    [701, 700, 50_000],
];

fn place([columns, start, _]: [usize; 3]) -> LinePlace {
    LinePlace { columns, start }
}

/// The row and column of each element.
fn lines([columns, start, len]: [usize; 3]) -> Vec<[usize; 2]> {
    let elements = start..start + len;
    elements.map(|at| [at / columns, at % columns]).collect()
}

/// The largest element and the sum of squares of each line, before and behind those of another launch.
fn sums(dtype: DType, x: &[f64], run: [usize; 3], largest: [Vec<f64>; 2]) -> Vec<Vec<f64>> {
    let [rows, columns] = largest.clone().map(|largest| largest.len());
    let [of_rows, of_columns] = largest;
    let memories = [
        (dtype, x.to_vec()),
        (WIDE, of_rows),
        (WIDE, of_columns),
        (WIDE, vec![0.25; rows]),
        (WIDE, vec![0.25; columns]),
    ];
    run_kernel(&memories, run)
}

fn run_kernel(memories: &[(DType, Vec<f64>)], run_of: [usize; 3]) -> Vec<Vec<f64>> {
    let largest = run(memories, |m| {
        Kernel::LineLargest(LineLargest {
            tensors: vec![LineLargestTensor {
                x: m[0],
                place: place(run_of),
                rows: m[1],
                columns: Some(m[2]),
            }],
        })
    });
    let mut memories = memories.to_vec();
    (memories[1].1, memories[2].1) = (largest[1].clone(), largest[2].clone());
    run(&memories, |m| {
        Kernel::LineSquares(LineSquares {
            tensors: vec![LineSquaresTensor {
                x: m[0],
                place: place(run_of),
                row_largest: m[1],
                row_sums: m[3],
                row_terms: run_of[0],
                column_largest: Some(m[2]),
                column_sums: Some(m[4]),
                column_terms: 100,
            }],
        })
    })
}

fn power_above(largest: f64) -> f64 {
    2f64.powi(largest.log2().floor() as i32 + 1)
}

#[test]
fn lines_have_their_largest_and_their_squares() {
    for dtype in [DType::F64, DType::F32] {
        for run in RUNS {
            let x = random(dtype, run[2], 1);
            let count = [place(run).num_rows(run[2]).unwrap(), run[0]];
            let found = sums(dtype, &x, run, count.map(|count| vec![1e-3; count]));
            for of in 0..2 {
                let (mut most, mut squares) = (vec![1e-3f64; count[of]], vec![0.0; count[of]]);
                for (x, line) in x.iter().zip(lines(run)) {
                    most[line[of]] = most[line[of]].max(x.abs());
                    squares[line[of]] += x * x;
                }
                assert_eq!(found[1 + of], most);
                let unit = |line: usize| power_above(most[line]).powi(2);
                let expected = (0..count[of]).map(|line| 0.25 + squares[line] / unit(line));
                assert_close(WIDE, &found[3 + of], &expected.collect::<Vec<_>>(), 1e4);
            }
        }
    }
}

#[test]
fn sums_of_parts_have_the_bits_of_one_sum() {
    let run = [70, 0, 700];
    let mut x = random(DType::F32, 700, 3);
    // Sizes far apart within a line.
    for (i, x) in x.iter_mut().enumerate() {
        *x = (*x as f32 * 2f32.powi((i * i % 23) as i32)) as f64;
    }
    let zeros = [vec![0.0; 10], vec![0.0; 70]];
    let whole = sums(DType::F32, &x, run, zeros);
    let largest = [whole[1].clone(), whole[2].clone()];
    let mut all = [vec![0.25; 10], vec![0.25; 70]];
    for (from, to) in [(333, 700), (0, 90), (90, 333)] {
        let (row, column) = (from / 70, from % 70);
        let rows = (to - 1) / 70 + 1;
        let own = [largest[0][row..rows].to_vec(), largest[1].clone()];
        let part = sums(DType::F32, &x[from..to], [70, column, to - from], own);
        for (line, sum) in part[3].iter().enumerate() {
            all[0][row + line] += sum - 0.25;
        }
        for (line, sum) in part[4].iter().enumerate() {
            all[1][line] += sum - 0.25;
        }
    }
    assert_eq!(all, [whole[3].clone(), whole[4].clone()]);
}

#[test]
fn what_is_not_finite_has_an_infinite_largest() {
    for bad in [f64::NAN, f64::NEG_INFINITY] {
        let mut x = vec![1.0; 12];
        x[7] = bad;
        let found = sums(DType::F32, &x, [4, 0, 12], [vec![0.0; 3], vec![0.0; 4]]);
        let infinity = f64::INFINITY;
        assert_eq!(found[1], [1.0, infinity, 1.0]);
        assert_eq!(found[2], [1.0, 1.0, 1.0, infinity]);
    }
}

fn means(m: &[RawSlice]) -> Kernel {
    let tensor = FactorMeansTensor {
        largest: [m[0], m[1]],
        sums: [m[2], m[3]],
        means: [m[4], m[5]],
        factors: [m[6], m[7]],
    };
    Kernel::FactorMeans(FactorMeans {
        tensors: vec![tensor],
        factor: m[8].part(0, 1),
        keep: 0.75,
        epsilon: 1e-3,
    })
}

#[test]
fn means_follow_the_squares_and_give_factors() {
    for (dtype, [rows, columns]) in [DType::F64, DType::F32]
        .into_iter()
        .flat_map(|dtype| [[1, 40], [37, 5], [600, 1]].map(|counts| (dtype, counts)))
    {
        let positive = |dtype, len, seed| -> Vec<f64> {
            let numbers = random(dtype, len, seed);
            numbers.iter().map(|x| x.abs() + 0.5).collect()
        };
        let mut memories = vec![
            (WIDE, positive(WIDE, rows, 1)),
            (WIDE, positive(WIDE, columns, 2)),
            (WIDE, positive(WIDE, rows, 3)),
            (WIDE, positive(WIDE, columns, 4)),
            (dtype, positive(dtype, rows, 5)),
            (dtype, positive(dtype, columns, 6)),
            (dtype, vec![9.0; rows]),
            (dtype, vec![9.0; columns]),
            (WIDE, vec![0.5, 0.0]),
        ];
        let result = run(&memories, means);
        let new = |of: usize, terms: usize| -> Vec<f64> {
            let lines = memories[of].1.iter().zip(&memories[2 + of].1);
            let squares = lines
                .map(|(largest, sum)| 0.25 * sum * power_above(*largest).powi(2) / terms as f64);
            let olds = &memories[4 + of].1;
            let all = squares.zip(olds);
            all.map(|(square, old)| 0.75 * old + 0.25 * (square + 1e-3))
                .collect()
        };
        let (r, c) = (new(0, columns), new(1, rows));
        let mean = r.iter().sum::<f64>() / rows as f64;
        let of_rows: Vec<f64> = r.iter().map(|r| (mean / r).sqrt()).collect();
        let of_columns: Vec<f64> = c.iter().map(|c| 1.0 / c.sqrt()).collect();
        for (found, expected) in result[4..8].iter().zip([r, c, of_rows, of_columns]) {
            // The mean of rows is a sum of numbers rounded to 2^-42 of the largest.
            assert_close(
                dtype,
                found,
                &expected,
                if dtype == WIDE { 1e4 } else { 16.0 },
            );
        }
        if rows == 1 {
            assert_eq!(result[6], [1.0], "a vector has its own moments");
        }
        memories[8].1[0] = f64::NAN;
        let skipped = run(&memories, means);
        (0..8).for_each(|i| assert_eq!(skipped[i], memories[i].1, "memory {i}"));
    }
}

#[test]
fn directions_are_gradients_over_their_moments() {
    for (dtype, of) in [DType::F64, DType::F32]
        .into_iter()
        .flat_map(|dtype| RUNS.map(|run| (dtype, run)))
    {
        let rows = place(of).num_rows(of[2]).unwrap();
        let mut memories = vec![
            (dtype, random(dtype, of[2], 1)),
            (dtype, random(dtype, rows, 2)),
            (dtype, random(dtype, of[0], 3)),
            (WIDE, vec![0.5, 0.0]),
        ];
        let kernel = |m: &[RawSlice]| {
            Kernel::FactorDirections(FactorDirections {
                tensors: vec![FactorDirectionsTensor {
                    gradients: m[0],
                    place: place(of),
                    factors: [m[1], m[2]],
                }],
                factor: m[3].part(0, 1),
            })
        };
        let gradients = memories[0].1.iter().zip(lines(of));
        let expected = gradients
            .map(|(g, [row, column])| 0.5 * g * memories[1].1[row] * memories[2].1[column]);
        let expected: Vec<f64> = expected.collect();
        assert_close(dtype, &run(&memories, kernel)[0], &expected, 16.0);
        memories[3].1[0] = f64::NAN;
        assert_eq!(run(&memories, kernel)[0], memories[0].1);
    }
}

#[test]
fn directions_are_clipped_by_their_root_mean_square() {
    let (largest, sums) = (vec![0.75, 3.0, 0.0], vec![0.5, 2.0, 0.0]);
    let squares: f64 = 0.5 + 2.0 * 16.0;
    for (factor, elements, most) in [(1.0, 10, 1.0), (1.0, 100, 1.0), (f64::NAN, 10, 1.0)] {
        let memories = [
            (WIDE, largest.clone()),
            (WIDE, sums.clone()),
            (WIDE, vec![9.0; 2]),
            (WIDE, vec![factor, 0.0]),
        ];
        let found = run(&memories, |m| {
            Kernel::ClipDirections(ClipDirections {
                tensors: vec![ClipDirectionsTensor {
                    largest: m[0],
                    sums: m[1],
                    out: m[2],
                    elements,
                }],
                factor: m[3].part(0, 1),
                most,
            })
        });
        let size = (squares / elements as f64).sqrt();
        assert_close(WIDE, &found[2][1..], &[size], 4.0);
        match factor.is_nan() {
            true => assert!(found[2][0].is_nan()),
            false => assert_close(WIDE, &found[2][..1], &[f64::min(1.0, most / size)], 4.0),
        }
    }
}
