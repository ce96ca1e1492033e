//! Where documents start.

use crate::{machine::compare, memory::Memory};
use hal::{DType, Kernel, kernel::Documents};

#[test]
fn documents_of_every_length_start_where_the_one_before_ends() {
    for (sequences, sequence, every) in [
        (1, 1, 1),
        (3, 64, 64),
        (5, 200, 7),
        (2, 130, 1),
        (70, 31, 40),
    ] {
        let ids: Vec<f64> = (0..sequences * sequence)
            .map(|i| f64::from(u8::from(i % every != every - 1)))
            .collect();
        let memories = [
            Memory::new(DType::U32, &ids, 0),
            Memory::new(DType::U32, &vec![7.0; ids.len()], 0),
        ];
        for (end, places) in [(0, false), (0, true), (5, false), (5, true)] {
            compare(&memories, 0.0, |m| {
                Kernel::Documents(Documents {
                    ids: m[0],
                    out: m[1],
                    sequences,
                    sequence,
                    end,
                    places,
                })
            });
        }
    }
}
