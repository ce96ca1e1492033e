//! Transposes, whatever a matrix's sizes and wherever its rows begin.

use crate::{
    machine::run_launch,
    memory::{Memory, random},
};
use fascicle_gpu::lower::{Stored, transpose};
use hal::DType;

/// Rows, columns and elements from one row to the next: within one square, on its edges, over several.
const SIZES: [[usize; 3]; 4] = [[1, 1, 1], [32, 32, 32], [33, 65, 70], [100, 7, 7]];

#[test]
fn elements_of_each_size_change_places() {
    for (dtype, [rows, columns, leading]) in [DType::F64, DType::F32, DType::Bf16]
        .into_iter()
        .flat_map(|dtype| SIZES.map(|size| (dtype, size)))
    {
        for warp in [32, 64] {
            let x = Memory::new(dtype, &random(rows * leading, 1), 0);
            let out = Memory::new(dtype, &vec![0.0; rows * columns], 0);
            let stored = Stored {
                address: x.slice().addr,
                dtype,
                rows,
                columns,
                leading,
            };
            if !run_launch(&transpose(&stored, out.slice().addr), warp) {
                return;
            }
            let (x, out) = (x.numbers(), out.numbers());
            for (row, column) in
                (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
            {
                let (found, expected) = (out[column * rows + row], x[row * leading + column]);
                assert_eq!(
                    found, expected,
                    "{dtype}, {rows} x {columns}, warp {warp}: {row}, {column}"
                );
            }
        }
    }
}
