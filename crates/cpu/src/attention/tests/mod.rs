//! The kernels against the definition, against finite differences, and against themselves on more threads.

mod caps;
mod documents;
mod paged;
mod pieces;
mod reference;
mod windows;

use super::{backward, forward};
use crate::element::{Element, Real};
use crate::pool::Pool;
use hal::kernel::{AttentionBackward, AttentionDropout, AttentionForward, AttentionShape};
use hal::{DType, RawSlice, random::Key};
use half::{bf16, f16};
use reference::Values;

fn shape(sequences: usize, sequence: usize, heads: [usize; 3]) -> AttentionShape {
    AttentionShape::causal(sequences, sequence, heads)
}

fn with_dropout(mut shape: AttentionShape, probability: f64) -> AttentionShape {
    let key = Key::new(11, "attention", 3);
    let (first_sequence, first_head, global_heads) = (5, 2, shape.heads + 3);
    // The keys of self-attention are all of their sequence.
    let is_complete = shape.first_query == 0 && shape.keys == shape.queries;
    let first_key = if is_complete { 0 } else { 37 };
    shape.first_key = first_key;
    let end = shape.keys.max(shape.first_query + shape.queries);
    shape.dropout = Some(AttentionDropout {
        probability,
        key,
        first_sequence,
        first_head,
        global_heads,
        sequence: first_key + end,
    });
    shape
}

/// Inputs that elements of type `T` represent exactly.
fn inputs<T: Element>(shape: &AttentionShape) -> Values {
    let numbers = |[rows, heads]: [usize; 2], seed: u64| {
        let key = Key { seed, sequence: 9 };
        let count = shape.sequences * rows * heads * shape.head_size;
        let round = |x: f64| T::from_acc(T::Acc::of(x)).acc().wide();
        (0..count as u64).map(|i| round(key.normal(i))).collect()
    };
    let (queries, keys) = ([shape.queries, shape.heads], [shape.keys, shape.kv_heads]);
    Values {
        q: numbers(queries, 1),
        k: numbers(keys, 2),
        v: numbers(keys, 3),
        d_out: numbers(queries, 4),
        ..Values::default()
    }
}

fn elements<T: Element>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&x| T::from_acc(T::Acc::of(x))).collect()
}

fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.acc().wide()).collect()
}

fn raw<T>(values: &mut [T], dtype: DType) -> RawSlice {
    RawSlice {
        addr: values.as_mut_ptr() as u64,
        len: values.len(),
        dtype,
    }
}

/// Both passes on elements of type `T`, with outputs that held NaN before.
fn run<T: Element>(
    shape: &AttentionShape,
    inputs: &Values,
    dtype: DType,
    threads: usize,
) -> Values {
    run_from::<T>(shape, inputs, dtype, threads, None)
}

/// The same, where the backward pass starts from the outputs and logarithms of `combined`, if it is given.
fn run_from<T: Element>(
    shape: &AttentionShape,
    inputs: &Values,
    dtype: DType,
    threads: usize,
    combined: Option<&Values>,
) -> Values {
    let [mut q, mut k, mut v, mut d_out] =
        [&inputs.q, &inputs.k, &inputs.v, &inputs.d_out].map(|x| elements::<T>(x));
    let nan = |len: usize| vec![T::from_acc(T::Acc::of(f64::NAN)); len];
    let [mut out, mut d_q] = [q.len(); 2].map(nan);
    let [mut d_k, mut d_v] = [k.len(); 2].map(nan);
    let mut log_sum_exp = vec![T::Acc::of(f64::NAN); shape.sequences * shape.heads * shape.queries];
    let pool = Pool::new(threads).unwrap();
    let (q_raw, k_raw, v_raw, out_raw) = (
        raw(&mut q, dtype),
        raw(&mut k, dtype),
        raw(&mut v, dtype),
        raw(&mut out, dtype),
    );
    let sums_raw = raw(&mut log_sum_exp, dtype.accumulator());
    let mut starts = inputs.documents.clone();
    let documents = (!starts.is_empty()).then(|| raw(&mut starts, DType::U32));
    let shape = *shape;
    let args = AttentionForward {
        shape,
        documents,
        q: q_raw,
        k: k_raw,
        v: v_raw,
        out: out_raw,
        log_sum_exp: sums_raw,
    };
    // SAFETY: the vectors are live and have the lengths of the shape.
    unsafe { forward(&args, &pool) }.unwrap();
    if let Some(combined) = combined {
        out.copy_from_slice(&elements::<T>(&combined.out));
        let logs = combined.log_sum_exp.iter().map(|&x| T::Acc::of(x));
        log_sum_exp.iter_mut().zip(logs).for_each(|(to, x)| *to = x);
    }
    let args = AttentionBackward {
        shape,
        documents,
        q: q_raw,
        k: k_raw,
        v: v_raw,
        out: out_raw,
        log_sum_exp: sums_raw,
        d_out: raw(&mut d_out, dtype),
        d_q: raw(&mut d_q, dtype),
        d_k: raw(&mut d_k, dtype),
        d_v: raw(&mut d_v, dtype),
    };
    // SAFETY: as above.
    unsafe { backward(&args, &pool) }.unwrap();
    let mut values = inputs.clone();
    (values.out, values.log_sum_exp) = (wide(&out), wide(&log_sum_exp));
    (values.d_q, values.d_k, values.d_v) = (wide(&d_q), wide(&d_k), wide(&d_v));
    values
}

fn outputs(values: &Values) -> [(&str, &[f64]); 5] {
    let Values {
        out,
        log_sum_exp,
        d_q,
        d_k,
        d_v,
        ..
    } = values;
    [
        ("out", out),
        ("log_sum_exp", log_sum_exp),
        ("d_q", d_q),
        ("d_k", d_k),
        ("d_v", d_v),
    ]
}

/// Compares with the reference; the tolerance is `relative` times the largest number of each output, at least
/// 1.
fn check<T: Element>(shape: &AttentionShape, dtype: DType, relative: f64) {
    check_inputs::<T>(shape, inputs::<T>(shape), dtype, relative);
}

fn check_inputs<T: Element>(shape: &AttentionShape, inputs: Values, dtype: DType, relative: f64) {
    let found = run::<T>(shape, &inputs, dtype, 1);
    let mut expected = inputs;
    reference::forward(shape, &mut expected);
    reference::backward(shape, &mut expected);
    for ((name, found), (_, expected)) in outputs(&found).into_iter().zip(outputs(&expected)) {
        // Gradients of a single token are 0, computed as differences of numbers of about 1.
        let finite = expected.iter().filter(|x| x.is_finite());
        let largest = finite.fold(1.0f64, |a, b| a.max(b.abs()));
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs();
            assert!(
                error <= relative * largest || found == expected,
                "{shape:?} {dtype} {name}[{index}]: {found} against {expected}"
            );
        }
    }
}

/// Every type, with tolerances of a few hundred (f64, f32) or a few (16 bits) units in the last place.
fn check_all(shape: &AttentionShape) {
    check::<f64>(shape, DType::F64, 1e-13);
    check::<f32>(shape, DType::F32, 1e-5);
    check::<bf16>(shape, DType::Bf16, 2e-2);
    check::<f16>(shape, DType::F16, 3e-3);
}

#[test]
fn every_length_and_head_size_matches_the_definition() {
    for (index, sequence) in [1, 5, 16, 63, 64, 65, 130].into_iter().enumerate() {
        let sizes = [4, 8, 16, 64, 80, 3];
        // Neighbours in the list, so that every length meets three sizes and every size several lengths.
        for offset in 0..3 {
            check_all(&shape(
                2,
                sequence,
                [2, 2, sizes[(index + 2 * offset) % sizes.len()]],
            ));
        }
    }
}

/// Shapes of some queries on all keys, all queries on some keys, and both, with masks that begin everywhere in a block.
fn cut_shapes(heads: [usize; 3]) -> impl Iterator<Item = AttentionShape> {
    [
        (5, 9, 0),
        (9, 5, 0),
        (70, 200, 128),
        (66, 130, 61),
        (130, 70, 3),
        (1, 150, 149),
        (40, 129, 129),
        (80, 65, usize::MAX / 4),
    ]
    .map(|(queries, keys, first_query)| AttentionShape {
        queries,
        keys,
        first_query,
        ..shape(2, 0, heads)
    })
    .into_iter()
}

#[test]
fn some_queries_on_other_keys_match_the_definition() {
    for heads in [[2, 2, 8], [4, 2, 64], [1, 1, 3]] {
        cut_shapes(heads).for_each(|shape| check_all(&shape));
    }
    let near = cut_shapes([2, 1, 16]).filter(|shape| shape.first_query < 1000);
    near.for_each(|shape| check_all(&with_dropout(shape, 0.3)));
}

#[test]
fn keys_that_no_query_meets_have_no_gradient() {
    let shape = AttentionShape {
        queries: 3,
        keys: 140,
        first_query: 20,
        ..shape(2, 0, [2, 1, 4])
    };
    let found = run::<f32>(&shape, &inputs::<f32>(&shape), DType::F32, 1);
    for gradient in [&found.d_k, &found.d_v] {
        for (index, x) in gradient.iter().enumerate() {
            let key = index / 4 % 140;
            assert_eq!(*x != 0.0, key < 23, "key {key}: {x}");
        }
    }
}

#[test]
fn grouped_queries_share_keys_and_add_up_their_gradients() {
    check_all(&shape(2, 65, [6, 2, 16]));
    check_all(&shape(1, 130, [4, 1, 8]));
    check_all(&shape(3, 5, [4, 2, 64]));
}

#[test]
fn dropout_uses_the_documented_indices_in_both_passes() {
    for (sequence, probability) in [
        (1, 0.5),
        (5, 0.3),
        (63, 0.1),
        (65, 0.5),
        (130, 0.1),
        (130, 0.0),
    ] {
        check_all(&with_dropout(shape(2, sequence, [4, 2, 16]), probability));
    }
}

#[test]
fn dropout_zeroes_exactly_the_weights_that_the_generator_names() {
    let shape = with_dropout(shape(2, 70, [2, 2, 80]), 0.4);
    let mut inputs = inputs::<f64>(&shape);
    // Values that are rows of an identity (as far as the head size allows) turn outputs into weights.
    for (index, v) in inputs.v.iter_mut().enumerate() {
        let (token, e) = (index / (2 * 80) % 70, index % 80);
        *v = if token == e { 1.0 } else { 0.0 };
    }
    let found = run::<f64>(&shape, &inputs, DType::F64, 1);
    for (index, &weight) in found.out.iter().enumerate() {
        let (row, head, key) = (index / 160, index / 80 % 2, index % 80);
        let (sequence, query) = (row / 70, row % 70);
        let kept = key <= query && reference::keep(&shape, sequence, head, query, key) != 0.0;
        assert_eq!(
            weight != 0.0,
            kept,
            "sequence {sequence}, head {head}, query {query}, key {key}"
        );
    }
}

#[test]
fn gradients_are_the_slopes_of_the_forward_pass() {
    for shape in [
        shape(1, 7, [2, 1, 4]),
        with_dropout(shape(2, 18, [2, 2, 3]), 0.3),
    ] {
        let inputs = inputs::<f64>(&shape);
        let gradients = run::<f64>(&shape, &inputs, DType::F64, 1);
        let objective = |values: &Values| -> f64 {
            let out = run::<f64>(&shape, values, DType::F64, 1).out;
            out.iter().zip(&values.d_out).map(|(a, b)| a * b).sum()
        };
        let inputs_of: [fn(&mut Values) -> &mut Vec<f64>; 3] =
            [|v| &mut v.q, |v| &mut v.k, |v| &mut v.v];
        for (of, gradient) in
            inputs_of
                .into_iter()
                .zip([&gradients.d_q, &gradients.d_k, &gradients.d_v])
        {
            for (index, gradient) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut values = inputs.clone();
                    of(&mut values)[index] += by;
                    objective(&values)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!(
                    (slope - gradient).abs() < 1e-7 * (1.0 + slope.abs()),
                    "{index}: {gradient} against {slope}"
                );
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for shape in [
        shape(3, 65, [4, 2, 16]),
        with_dropout(shape(1, 130, [5, 5, 64]), 0.2),
    ] {
        let inputs = inputs::<f32>(&shape);
        let bits = |threads| {
            let values = run::<f32>(&shape, &inputs, DType::F32, threads);
            outputs(&values)
                .map(|(_, values)| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        let one = bits(1);
        assert!(
            one == bits(2) && one == bits(3) && one == bits(7),
            "{shape:?}"
        );
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let shape = AttentionShape {
        scale: 300.0,
        ..shape(1, 40, [1, 1, 8])
    };
    check::<f64>(&shape, DType::F64, 1e-10);
    let values = run::<f32>(&shape, &inputs::<f32>(&shape), DType::F32, 1);
    assert!(
        outputs(&values)
            .iter()
            .all(|(_, values)| values.iter().all(|x| x.is_finite()))
    );
}

#[test]
fn nothing_to_attend_to_is_no_error() {
    for shape in [
        shape(0, 5, [2, 2, 4]),
        shape(2, 0, [2, 2, 4]),
        shape(2, 5, [0, 0, 4]),
        shape(2, 5, [0, 2, 4]),
        AttentionShape {
            keys: 70,
            ..shape(2, 0, [2, 2, 4])
        },
    ] {
        let found = run::<f32>(&shape, &inputs::<f32>(&shape), DType::F32, 2);
        assert!(found.d_k.iter().chain(&found.d_v).all(|x| *x == 0.0));
    }
}

#[test]
fn integers_are_refused_by_name() {
    let empty = RawSlice {
        addr: 64,
        len: 0,
        dtype: DType::I32,
    };
    let args = AttentionForward {
        shape: shape(0, 0, [1, 1, 1]),
        q: empty,
        k: empty,
        v: empty,
        out: empty,
        log_sum_exp: empty,
        documents: None,
    };
    // SAFETY: the slices are empty.
    let error = unsafe { forward(&args, &Pool::new(1).unwrap()) }.unwrap_err();
    assert!(error.to_string().contains("i32"), "{error}");
}
