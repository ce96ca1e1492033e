use super::*;
use hal::kernel::{Rope, RotaryFrequencies, RotaryStretch};

struct Sizes {
    rows: usize,
    sequence: usize,
    first_position: usize,
    heads: usize,
    head_size: usize,
    turned: usize,
}

const SIZES: [Sizes; 7] = [
    Sizes {
        rows: 1,
        sequence: 1,
        first_position: 0,
        heads: 1,
        head_size: 2,
        turned: 2,
    },
    Sizes {
        rows: 6,
        sequence: 3,
        first_position: 5,
        heads: 3,
        head_size: 14,
        turned: 14,
    },
    Sizes {
        rows: 10,
        sequence: 5,
        first_position: 0,
        heads: 2,
        head_size: 66,
        turned: 66,
    },
    Sizes {
        rows: 300,
        sequence: 150,
        first_position: 123,
        heads: 2,
        head_size: 64,
        turned: 64,
    },
    Sizes {
        rows: 6,
        sequence: 3,
        first_position: 5,
        heads: 3,
        head_size: 15,
        turned: 6,
    },
    Sizes {
        rows: 300,
        sequence: 150,
        first_position: 123,
        heads: 2,
        head_size: 64,
        turned: 16,
    },
    Sizes {
        rows: 0,
        sequence: 4,
        first_position: 7,
        heads: 2,
        head_size: 8,
        turned: 8,
    },
];

// With every frequency divided by `factor`.
fn rotated(x: &[f64], sizes: &Sizes, factor: f64, backward: bool) -> Vec<f64> {
    let half = sizes.turned / 2;
    let mut out = x.to_vec();
    for start in (0..x.len()).step_by(sizes.head_size) {
        let position = start / (sizes.heads * sizes.head_size) % sizes.sequence;
        let position = sizes.first_position + position;
        for e in 0..half {
            let frequency = 10_000f64.powf(-2.0 * e as f64 / sizes.turned as f64) / factor;
            let angle = position as f64 * frequency;
            let (sin, cos) = (if backward { -angle } else { angle }).sin_cos();
            let (a, b) = (x[start + e], x[start + half + e]);
            out[start + e] = a * cos - b * sin;
            out[start + half + e] = b * cos + a * sin;
        }
    }
    out
}

#[test]
fn rope_turns_pairs_either_way_and_leaves_the_rest() {
    let cases = [(1.0, false), (1.0, true), (4.0, false), (4.0, true)];
    for (dtype, (factor, backward)) in FLOATS
        .iter()
        .flat_map(|&dtype| cases.map(|case| (dtype, case)))
    {
        let frequencies = RotaryFrequencies {
            base: 10_000.0,
            stretch: (factor > 1.0).then_some(RotaryStretch {
                factor,
                short: 0.0,
                long: 0.0,
            }),
        };
        for sizes in &SIZES {
            let &Sizes {
                rows,
                sequence,
                first_position,
                heads,
                head_size,
                turned,
            } = sizes;
            let x = random(dtype, rows * heads * head_size, 1);
            let expected = rotated(&x, sizes, factor, backward);
            let memories = [(dtype, x.clone()), (dtype, vec![0.0; x.len()])];
            for out in [1, 0] {
                let result = run(&memories, |m| {
                    let (x, out) = (m[0], m[out]);
                    Kernel::Rope(Rope {
                        x,
                        out,
                        rows,
                        sequence,
                        places: None,
                        first_position,
                        heads,
                        head_size,
                        turned,
                        frequencies,
                        backward,
                    })
                });
                let slack = if dtype == DType::F64 { 1000.0 } else { 8.0 };
                assert_close(dtype, &result[out], &expected, slack);
            }
        }
    }
}

#[test]
fn a_later_part_of_a_sequence_has_the_bits_of_the_whole() {
    let (sequence, cut, heads, head_size) = (150, 70, 2, 18);
    let width = heads * head_size;
    for dtype in FLOATS {
        let x = random(dtype, sequence * width, 1);
        let turn = |x: &[f64], first_position: usize| {
            let rows = x.len() / width;
            let memories = [(dtype, x.to_vec()), (dtype, vec![0.0; x.len()])];
            run(&memories, |m| {
                Kernel::Rope(Rope {
                    x: m[0],
                    out: m[1],
                    rows,
                    sequence: rows,
                    places: None,
                    first_position,
                    heads,
                    head_size,
                    turned: head_size,
                    frequencies: 10_000.0.into(),
                    backward: false,
                })
            })
            .remove(1)
        };
        let whole = turn(&x, 0);
        assert_eq!(turn(&x[cut * width..], cut), whole[cut * width..]);
    }
}

/// Few rows, which take sines of their own, and many, which share those of tables.
#[test]
fn rows_turn_by_their_own_places() {
    let (heads, head_size) = (3, 10);
    let width = heads * head_size;
    for rows in [1, 2, 150] {
        let places: Vec<f64> = (0..rows).map(|row| (row * 53 % 300 + 64) as f64).collect();
        for dtype in FLOATS {
            let x = random(dtype, rows * width, 1);
            let turn = |x: &[f64], place: Option<&[f64]>, first_position: usize| {
                let rows = x.len() / width;
                let of_places = place.map_or_else(|| vec![0.0], <[f64]>::to_vec);
                let memories = [
                    (dtype, x.to_vec()),
                    (dtype, vec![0.0; x.len()]),
                    (DType::U32, of_places),
                ];
                run(&memories, |m| {
                    Kernel::Rope(Rope {
                        x: m[0],
                        out: m[1],
                        rows,
                        sequence: rows,
                        places: place.map(|_| m[2]),
                        first_position,
                        heads,
                        head_size,
                        turned: head_size,
                        frequencies: 10_000.0.into(),
                        backward: false,
                    })
                })
                .remove(1)
            };
            let found = turn(&x, Some(&places), 0);
            for (row, place) in places.iter().enumerate() {
                let own = row * width..(row + 1) * width;
                // Alone among rows that are as many as those of a table.
                let padded = [&x[own.clone()], &vec![0.0; 200 * width]].concat();
                let alone = turn(&padded, None, *place as usize);
                assert_eq!(found[own], alone[..width], "{dtype}: {place}");
            }
        }
    }
}
