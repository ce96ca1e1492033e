//! Sequences of several documents.

use super::{Values, check_inputs, cut_shapes, inputs, outputs, run, shape, with_dropout};
use crate::element::Element;
use hal::{DType, kernel::AttentionShape};
use half::{bf16, f16};

/// The inputs with sequences of documents of these lengths, and a last one of the rest; those of every second sequence
/// begin with the last length. No lengths: one document, which no array describes.
pub(super) fn with_documents(shape: &AttentionShape, inputs: Values, lengths: &[usize]) -> Values {
    let (first, own) = (shape.first_key, shape.first_key + shape.first_query);
    let starts = |sequence: usize| {
        let mut lengths = lengths.to_vec();
        if sequence % 2 == 1 {
            lengths.reverse();
        }
        let ends = lengths.iter().scan(first, |end, length| {
            *end += length;
            Some(*end as u32)
        });
        let ends: Vec<u32> = ends.collect();
        let start_at = move |place: usize| {
            let begun = ends.iter().rev().find(|end| **end as usize <= place);
            begun.copied().unwrap_or(0)
        };
        (own..own + shape.queries).map(start_at).collect::<Vec<_>>()
    };
    let documents = match lengths.is_empty() {
        true => Vec::new(),
        false => (0..shape.sequences).flat_map(starts).collect(),
    };
    Values {
        documents,
        ..inputs
    }
}

const LENGTHS: [&[usize]; 5] = [&[1], &[5, 64, 1], &[17, 46, 3], &[64, 64], &[1; 300]];

fn check<T: Element>(shape: &AttentionShape, dtype: DType, relative: f64) {
    for lengths in LENGTHS {
        let values = with_documents(shape, inputs::<T>(shape), lengths);
        check_inputs::<T>(shape, values, dtype, relative);
    }
}

fn check_all(shape: &AttentionShape) {
    check::<f64>(shape, DType::F64, 1e-13);
    check::<f32>(shape, DType::F32, 1e-5);
    // The gradient of a key that many queries meet alone is 0: a sum of 80 differences of numbers near 1, each rounded.
    check::<bf16>(shape, DType::Bf16, 1e-1);
    check::<f16>(shape, DType::F16, 1.2e-2);
}

#[test]
fn queries_meet_their_own_document_alone() {
    for (sequence, heads) in [
        (1, [1, 1, 4]),
        (63, [2, 2, 16]),
        (130, [4, 2, 3]),
        (200, [2, 1, 64]),
    ] {
        check_all(&shape(2, sequence, heads));
        check_all(&with_dropout(shape(2, sequence, heads), 0.3));
    }
}

#[test]
fn some_queries_on_other_keys_meet_their_own_document_alone() {
    let near = cut_shapes([4, 2, 12]).filter(|shape| shape.first_query < 1000);
    for shape in near {
        check_all(&shape);
        check_all(&with_dropout(shape, 0.3));
    }
}

#[test]
fn documents_change_no_bit_of_a_sequence_that_is_one() {
    for shape in [
        shape(2, 150, [4, 2, 20]),
        with_dropout(shape(2, 150, [4, 2, 20]), 0.2),
    ] {
        let one = inputs::<f32>(&shape);
        let mut named = one.clone();
        named.documents = vec![0; shape.sequences * shape.queries];
        let [one, named] = [one, named].map(|values| run::<f32>(&shape, &values, DType::F32, 1));
        for ((name, one), (_, named)) in outputs(&one).into_iter().zip(outputs(&named)) {
            let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(one), bits(named), "{name}");
        }
    }
}

/// Keys of other documents do not take part at all: not even as factors of weights of 0.
#[test]
fn values_of_other_documents_cannot_spoil_a_document() {
    let shape = shape(1, 130, [2, 1, 8]);
    let clean = with_documents(&shape, inputs::<f32>(&shape), &[64]);
    let mut spoilt = clean.clone();
    spoilt.v[..64 * 8].fill(f64::INFINITY);
    let [clean, spoilt] = [clean, spoilt].map(|values| run::<f32>(&shape, &values, DType::F32, 1));
    let second = 64 * 2 * 8..;
    assert_eq!(clean.out[second.clone()], spoilt.out[second.clone()]);
    assert_eq!(clean.d_q[second.clone()], spoilt.d_q[second]);
    assert_eq!(clean.d_k[64 * 8..], spoilt.d_k[64 * 8..]);
}

#[test]
fn a_query_that_meets_no_key_has_an_output_of_0_and_no_gradient() {
    for (keys, first_query) in [(70, 100), (70, 60), (64, 64)] {
        let shape = AttentionShape {
            queries: 80,
            keys,
            first_query,
            ..shape(1, 0, [2, 1, 8])
        };
        let mut values = inputs::<f32>(&shape);
        // From query 30 on, the document starts behind all keys; the last start is beyond every sequence.
        let behind = (keys + first_query) as u32;
        values.documents = (0..80).map(|i| if i < 30 { 0 } else { behind }).collect();
        values.documents[79] = u32::MAX;
        let found = run::<f32>(&shape, &values, DType::F32, 1);
        for query in 0..80 {
            let meets = query < 30 || first_query + query < keys;
            let rows = query * 16..(query + 1) * 16;
            let is_zero = |x: &[f64]| x.iter().all(|x| *x == 0.0);
            assert_eq!(is_zero(&found.out[rows.clone()]), !meets, "query {query}");
            for head in 0..2 {
                let log = found.log_sum_exp[head * 80 + query];
                assert_eq!(log == f64::NEG_INFINITY, !meets, "query {query}: {log}");
            }
            assert!(found.d_q[rows].iter().all(|x| x.is_finite()));
        }
        assert!(found.d_k.iter().chain(&found.d_v).all(|x| x.is_finite()));
    }
}
