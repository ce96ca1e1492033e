use super::run;
use hal::{DType, Kernel, kernel::Documents};

#[test]
fn documents_end_with_their_last_token_and_with_their_sequence() {
    let ids = [7.0, 9.0, 9.0, 7.0, 7.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0];
    let memories = [ids.to_vec(), vec![77.0; 12]].map(|values| (DType::U32, values));
    for (places, expected) in [
        (false, [0, 0, 2, 3, 3, 3, 0, 0, 0, 0, 0, 0]),
        (true, [0, 1, 0, 0, 1, 2, 0, 1, 2, 3, 4, 5]),
    ] {
        let found = run(&memories, |m| {
            Kernel::Documents(Documents {
                ids: m[0],
                out: m[1],
                sequences: 2,
                sequence: 6,
                end: 9,
                places,
            })
        });
        assert_eq!(found[1], expected.map(f64::from));
    }
}
