//! Attention of which each query meets only the keys right before it.

use super::{
    Values, check_all, check_inputs, cut_shapes, documents::with_documents, inputs, outputs, run,
    shape, with_dropout,
};
use hal::{DType, kernel::AttentionShape};

/// Of one key, of lengths around a block, and of one that no sequence here exceeds.
const WINDOWS: [usize; 6] = [1, 2, 63, 64, 65, 1000];

fn with_window(shape: AttentionShape, window: usize) -> AttentionShape {
    AttentionShape {
        window: Some(window),
        ..shape
    }
}

#[test]
fn queries_meet_the_keys_of_their_window_alone() {
    for (sequence, heads) in [(1, [1, 1, 4]), (63, [2, 2, 16]), (200, [4, 2, 3])] {
        for window in WINDOWS {
            let shape = with_window(shape(2, sequence, heads), window);
            check_all(&shape);
            // With one key, the gradients of scores are 0, and a product with what dropout leaves is rounded.
            if window > 1 {
                check_all(&with_dropout(shape, 0.3));
            }
        }
    }
}

#[test]
fn some_queries_on_other_keys_meet_those_of_their_window_alone() {
    for shape in cut_shapes([4, 2, 12]) {
        for window in WINDOWS {
            check_all(&with_window(shape, window));
        }
    }
}

#[test]
fn a_document_and_a_window_leave_what_both_leave() {
    for window in WINDOWS {
        let shape = with_window(shape(2, 150, [2, 1, 8]), window);
        for lengths in [&[1][..], &[17, 46, 3], &[64, 64]] {
            let values = with_documents(&shape, inputs::<f64>(&shape), lengths);
            check_inputs::<f64>(&shape, values, DType::F64, 1e-13);
        }
    }
}

/// Blocks of keys before the windows of a block of queries do not take part: not even as factors of weights of 0.
#[test]
fn values_before_a_window_cannot_spoil_it() {
    let shape = with_window(shape(1, 200, [2, 1, 8]), 60);
    let clean = inputs::<f32>(&shape);
    let mut spoilt = clean.clone();
    spoilt.v[..64 * 8].fill(f64::INFINITY);
    let [clean, spoilt]: [Values; 2] =
        [clean, spoilt].map(|values| run::<f32>(&shape, &values, DType::F32, 1));
    let later = 128 * 2 * 8..;
    assert!(clean.out[later.clone()] == spoilt.out[later.clone()]);
    assert!(clean.d_q[later.clone()] == spoilt.d_q[later]);
}

#[test]
fn a_window_that_no_query_fills_changes_no_bit() {
    let open = shape(2, 150, [4, 2, 20]);
    let all = [open, with_window(open, 150), with_window(open, usize::MAX)];
    let bits = all.map(|shape| {
        let values = run::<f32>(&shape, &inputs::<f32>(&shape), DType::F32, 1);
        outputs(&values).map(|(_, x)| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    });
    assert!(bits[0] == bits[1] && bits[0] == bits[2]);
}
