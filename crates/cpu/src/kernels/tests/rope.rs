use super::*;
use hal::kernel::Rope;

struct Sizes {
    rows: usize,
    sequence: usize,
    heads: usize,
    head_size: usize,
}

const SIZES: [Sizes; 5] = [
    Sizes {
        rows: 1,
        sequence: 1,
        heads: 1,
        head_size: 2,
    },
    Sizes {
        rows: 6,
        sequence: 3,
        heads: 3,
        head_size: 14,
    },
    Sizes {
        rows: 10,
        sequence: 5,
        heads: 2,
        head_size: 66,
    },
    Sizes {
        rows: 300,
        sequence: 150,
        heads: 2,
        head_size: 64,
    },
    Sizes {
        rows: 0,
        sequence: 4,
        heads: 2,
        head_size: 8,
    },
];

fn rotated(x: &[f64], sizes: &Sizes, backward: bool) -> Vec<f64> {
    let half = sizes.head_size / 2;
    let mut out = x.to_vec();
    for start in (0..x.len()).step_by(sizes.head_size) {
        let position = start / (sizes.heads * sizes.head_size) % sizes.sequence;
        for e in 0..half {
            let angle = position as f64 * 10_000f64.powf(-2.0 * e as f64 / sizes.head_size as f64);
            let (sin, cos) = (if backward { -angle } else { angle }).sin_cos();
            let (a, b) = (x[start + e], x[start + half + e]);
            out[start + e] = a * cos - b * sin;
            out[start + half + e] = b * cos + a * sin;
        }
    }
    out
}

#[test]
fn rope_turns_pairs_either_way() {
    for (dtype, backward) in FLOATS
        .iter()
        .flat_map(|&dtype| [(dtype, false), (dtype, true)])
    {
        for sizes in &SIZES {
            let &Sizes {
                rows,
                sequence,
                heads,
                head_size,
            } = sizes;
            let x = random(dtype, rows * heads * head_size, 1);
            let expected = rotated(&x, sizes, backward);
            let memories = [(dtype, x.clone()), (dtype, vec![0.0; x.len()])];
            for out in [1, 0] {
                let result = run(&memories, |m| {
                    let (x, out) = (m[0], m[out]);
                    Kernel::Rope(Rope {
                        x,
                        out,
                        rows,
                        sequence,
                        heads,
                        head_size,
                        base: 10_000.0,
                        backward,
                    })
                });
                let slack = if dtype == DType::F64 { 1000.0 } else { 8.0 };
                assert_close(dtype, &result[out], &expected, slack);
            }
        }
    }
}
