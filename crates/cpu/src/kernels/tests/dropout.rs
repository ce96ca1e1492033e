use super::*;
use hal::kernel::{Dropout, Region};

const KEY: Key = Key {
    seed: 11,
    sequence: 0x0123_4567_89ab_cdef,
};

fn expected(x: &[f64], region: Region, probability: f64) -> Vec<f64> {
    let element = |(i, x): (usize, &f64)| {
        let row = region.first_row + i / region.columns;
        let index = row * region.global_columns + region.first_column + i % region.columns;
        if f64::from(KEY.uniform(index as u64)) < probability {
            0.0
        } else {
            x / (1.0 - probability)
        }
    };
    x.iter().enumerate().map(element).collect()
}

#[test]
fn dropout_draws_by_global_index() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&dtype| COLUMNS.map(|columns| (dtype, columns)))
    {
        for (rows, first_column, more, probability) in [
            (0, 0, 0, 0.5),
            (5, 0, 0, 0.3),
            (5, 3, 9, 0.5),
            (2001, 0, 0, 0.1),
            (2001, 6, 11, 0.1),
            (3, 1, 0, 0.0),
        ] {
            let global_columns = first_column + columns + more;
            let region = Region {
                rows,
                columns,
                first_row: 7,
                first_column,
                global_columns,
            };
            let x = random(dtype, rows * columns, 1);
            let expected = expected(&x, region, probability);
            let memories = [(dtype, x), (dtype, vec![0.0; rows * columns])];
            for out in [1, 0] {
                let result = run(&memories, |m| {
                    let (x, out) = (m[0], m[out]);
                    Kernel::Dropout(Dropout {
                        x,
                        out,
                        probability,
                        key: KEY,
                        region,
                    })
                });
                assert_close(dtype, &result[out], &expected, 3.0);
            }
        }
    }
}

// The global index no longer fits in 32 bits, let alone the block number times four.
#[test]
fn dropout_numbers_elements_beyond_32_bits() {
    let region = Region {
        rows: 3,
        columns: 33,
        first_row: 1 << 20,
        first_column: 5,
        global_columns: 1 << 24,
    };
    let x = vec![1.0; 99];
    let expected = expected(&x, region, 0.5);
    let result = run(&[(DType::F32, x)], |m| {
        Kernel::Dropout(Dropout {
            x: m[0],
            out: m[0],
            probability: 0.5,
            key: KEY,
            region,
        })
    });
    assert_eq!(result[0], expected);
}
