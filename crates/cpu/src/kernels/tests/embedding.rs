use super::*;
use hal::kernel::{EmbeddingBackward, EmbeddingForward};

const ROWS: usize = 900;
const TABLE: usize = 11;
const FIRST: usize = 20;

/// Ids below, in and above the shard, and the largest there is.
fn ids() -> Vec<f64> {
    let mut ids = random_ids(50, ROWS, 3);
    ids[4] = f64::from(u32::MAX);
    ids
}

fn held(id: f64) -> Option<usize> {
    (id as usize).checked_sub(FIRST).filter(|&row| row < TABLE)
}

#[test]
fn forward_copies_rows_held_here_and_zeros_others() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&dtype| COLUMNS.map(|columns| (dtype, columns)))
    {
        let table = random(dtype, TABLE * columns, 1);
        let expected: Vec<f64> = ids()
            .iter()
            .flat_map(|&id| match held(id) {
                Some(row) => table[row * columns..(row + 1) * columns].to_vec(),
                None => vec![0.0; columns],
            })
            .collect();
        let memories = [
            (dtype, table),
            (DType::U32, ids()),
            (dtype, vec![9.0; ROWS * columns]),
        ];
        let result = run(&memories, |m| {
            let (table, ids, out) = (m[0], m[1], m[2]);
            let (rows, table_rows, first_row) = (ROWS, TABLE, FIRST);
            Kernel::EmbeddingForward(EmbeddingForward {
                table,
                ids,
                out,
                rows,
                columns,
                table_rows,
                first_row,
            })
        });
        assert_eq!(result[2], expected);
    }
}

#[test]
fn backward_adds_rows_that_come_again() {
    for (dtype, columns) in FLOATS
        .iter()
        .flat_map(|&dtype| [1, 7, 17, 33, 100].map(|columns| (dtype, columns)))
    {
        let accumulator = dtype.accumulator();
        let (d_out, table) = (
            random(dtype, ROWS * columns, 1),
            random(accumulator, TABLE * columns, 2),
        );
        let mut expected = table.clone();
        for (i, row) in ids()
            .iter()
            .enumerate()
            .filter_map(|(i, &id)| Some((i, held(id)?)))
        {
            (0..columns).for_each(|c| expected[row * columns + c] += d_out[i * columns + c]);
        }
        let memories = [(dtype, d_out), (DType::U32, ids()), (accumulator, table)];
        let result = run(&memories, |m| {
            let (d_out, ids, d_table) = (m[0], m[1], m[2]);
            let (rows, table_rows, first_row) = (ROWS, TABLE, FIRST);
            Kernel::EmbeddingBackward(EmbeddingBackward {
                d_out,
                ids,
                d_table,
                rows,
                columns,
                table_rows,
                first_row,
            })
        });
        assert_close(accumulator, &result[2], &expected, 40.0);
    }
}
