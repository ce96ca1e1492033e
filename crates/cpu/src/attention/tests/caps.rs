//! Attention whose scores approach a bound.

use super::{check_all, cut_shapes, inputs, outputs, run, shape, with_dropout};
use hal::{DType, kernel::AttentionShape};

fn with_cap(shape: AttentionShape, cap: f64) -> AttentionShape {
    AttentionShape {
        score_cap: Some(cap),
        ..shape
    }
}

#[test]
fn capped_scores_have_the_weights_and_gradients_of_their_definition() {
    for (sequence, heads) in [(1, [1, 1, 4]), (63, [2, 2, 16]), (200, [4, 2, 3])] {
        // One that flattens most scores, and one that hardly bends any.
        for cap in [0.25, 50.0] {
            let shape = with_cap(shape(2, sequence, heads), cap);
            check_all(&shape);
            let windowed = AttentionShape {
                window: Some(40),
                ..shape
            };
            check_all(&windowed);
            if sequence > 1 {
                check_all(&with_dropout(shape, 0.3));
            }
        }
    }
}

#[test]
fn some_queries_on_other_keys_have_capped_scores() {
    for shape in cut_shapes([4, 2, 12]) {
        check_all(&with_cap(shape, 0.5));
    }
}

#[test]
fn a_cap_holds_where_scores_are_beyond_every_exponential() {
    let shape = with_cap(shape(1, 70, [2, 1, 8]), 2.0);
    let mut values = inputs::<f32>(&shape);
    values.q.iter_mut().for_each(|q| *q *= 1e20);
    let values = run::<f32>(&shape, &values, DType::F32, 1);
    for (name, numbers) in outputs(&values) {
        assert!(numbers.iter().all(|x| x.is_finite()), "{name}");
    }
    // Between them, 70 weights of scores within 2 of each other differ by a factor of e^4 at most.
    let most = (70f64).ln() + 2.0 + 1e-5;
    assert!(values.log_sum_exp.iter().all(|log| log.abs() <= most));
}
