//! Attention forward and backward: plain and on matrix units.

use crate::{
    machine::{compare, run_on, traits, with_warpgroups},
    memory::{FLOATS, Memory, random},
};
use fascicle_gpu::lower::DeviceTraits;
use hal::{
    DType, Kernel,
    kernel::{
        AttentionBackward, AttentionDropout, AttentionForward, AttentionJoin, AttentionShape,
    },
    random::Key,
};
use std::ops::Range;

fn shape([sequences, sequence, heads, kv_heads, head_size]: [usize; 5]) -> AttentionShape {
    AttentionShape::causal(sequences, sequence, [heads, kv_heads, head_size])
}

/// Some queries on other keys: `cut` is the number of queries and of keys, and the place of the first query.
fn cut_shape([queries, keys, first_query]: [usize; 3], heads: [usize; 3]) -> AttentionShape {
    AttentionShape {
        queries,
        keys,
        first_query,
        ..AttentionShape::causal(2, 0, heads)
    }
}

/// Numbers of queries and keys, and places of the first query: masks that begin everywhere in a tile, keys that no query
/// meets, and no mask.
const CUTS: [[usize; 3]; 7] = [
    [5, 90, 64],
    [70, 150, 80],
    [66, 100, 23],
    [40, 140, 5],
    [97, 30, 0],
    [20, 70, 70],
    [130, 65, usize::MAX / 4],
];

fn dropped(mut shape: AttentionShape) -> AttentionShape {
    let first_key = if shape.first_query == 0 { 0 } else { 19 };
    shape.first_key = first_key;
    shape.dropout = Some(AttentionDropout {
        probability: 0.2,
        key: Key::new(3, "attention", 1),
        first_sequence: 2,
        first_head: 1,
        global_heads: 8,
        sequence: first_key + shape.keys.max(shape.first_query + shape.queries),
    });
    shape
}

/// q, k, v and out; the softmax sums; d_out, and memory for three gradients.
fn memories(dtype: DType, shape: &AttentionShape, before: usize) -> Vec<Memory> {
    let of_heads = |rows: usize, heads: usize| shape.sequences * rows * heads;
    let sums = of_heads(shape.queries, shape.heads);
    let (q, k) = (
        sums * shape.head_size,
        of_heads(shape.keys, shape.kv_heads) * shape.head_size,
    );
    let own = |len, seed| Memory::new(dtype, &random(len, seed), before);
    let sums = Memory::new(dtype.accumulator(), &vec![0.0; sums], 0);
    vec![
        own(q, 1),
        own(k, 2),
        own(k, 3),
        own(q, 4),
        sums,
        own(q, 5),
        own(q, 6),
        own(k, 7),
        own(k, 8),
    ]
}

/// Where the documents of queries `range` of every sequence start: they have `lengths` tokens in turn. None: one document
/// for each sequence, which no array describes.
fn starts(shape: &AttentionShape, lengths: &[usize], range: Range<usize>) -> Vec<Memory> {
    if lengths.is_empty() {
        return Vec::new();
    }
    let start_at = |place: usize| {
        let (mut start, mut next) = (0, lengths.iter().cycle());
        loop {
            let end = start + next.next().expect("a cycle has no end");
            if place < end {
                return start as f64;
            }
            start = end;
        }
    };
    // An offset for each sequence, so that they differ.
    let of_sequence = |sequence: usize| {
        let places = range.clone();
        places.map(move |query| start_at(shape.first_key + query) - (sequence % 2) as f64)
    };
    let values = (0..shape.sequences).flat_map(|sequence| {
        of_sequence(sequence)
            .map(|start| start.max(0.0))
            .collect::<Vec<_>>()
    });
    vec![Memory::new(DType::U32, &values.collect::<Vec<_>>(), 0)]
}

/// The documents of the queries of `shape`, none of which need lie among its keys.
fn own_starts(shape: &AttentionShape, lengths: &[usize]) -> Vec<Memory> {
    let own = shape.first_query;
    let end = own.saturating_add(shape.queries);
    starts(shape, lengths, own..end)
}

fn check(dtype: DType, spacing: f64, shape: AttentionShape, before: usize) {
    check_documents(dtype, spacing, shape, before, &[]);
}

fn check_documents(
    dtype: DType,
    spacing: f64,
    shape: AttentionShape,
    before: usize,
    lengths: &[usize],
) {
    let documents = own_starts(&shape, lengths);
    // 16-bit weights and gradients of scores are rounded before they are multiplied; the reference keeps them in f32.
    let tolerance = if dtype.bytes() == 2 {
        3.0 * spacing
    } else {
        64.0 * spacing
    };
    let memories = memories(dtype, &shape, before);
    let of_forward = [&memories[..5], &documents].concat();
    compare(&of_forward, tolerance, |m| {
        let [q, k, v, out, log_sum_exp] = [m[0], m[1], m[2], m[3], m[4]];
        Kernel::AttentionForward(AttentionForward {
            shape,
            q,
            k,
            v,
            out,
            log_sum_exp,
            documents: m.get(5).copied(),
        })
    });
    let memories = [
        memories[..3].to_vec(),
        forward(dtype, &shape, before, &documents),
        memories[5..].to_vec(),
        documents,
    ]
    .concat();
    compare(&memories, tolerance, |m| {
        let [q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v] = m[..9] else {
            panic!("nine arguments")
        };
        Kernel::AttentionBackward(AttentionBackward {
            shape,
            q,
            k,
            v,
            out,
            log_sum_exp,
            d_out,
            d_q,
            d_k,
            d_v,
            documents: m.get(9).copied(),
        })
    });
}

/// Outputs and sums of the reference, for the backward pass to start from.
fn forward(
    dtype: DType,
    shape: &AttentionShape,
    before: usize,
    documents: &[Memory],
) -> Vec<Memory> {
    let memories = memories(dtype, shape, before);
    let slice = |index: usize| memories[index].slice();
    let [q, k, v, out, log_sum_exp] = [slice(0), slice(1), slice(2), slice(3), slice(4)];
    crate::machine::run_reference(&Kernel::AttentionForward(AttentionForward {
        shape: *shape,
        q,
        k,
        v,
        out,
        log_sum_exp,
        documents: documents.first().map(Memory::slice),
    }));
    vec![memories[3].copy(), memories[4].copy()]
}

#[test]
fn plain_kernels_agree() {
    for (dtype, spacing) in FLOATS {
        for sizes in [
            [1, 2, 1, 1, 3],
            [2, 37, 2, 1, 20],
            [1, 70, 4, 2, 32],
            [1, 20, 1, 1, 200],
        ] {
            check(dtype, spacing, shape(sizes), 1);
        }
        check(dtype, spacing, dropped(shape([2, 21, 4, 2, 8])), 0);
        for cut in CUTS {
            check(dtype, spacing, cut_shape(cut, [2, 1, 12]), 1);
        }
        check(
            dtype,
            spacing,
            dropped(cut_shape([37, 50, 9], [4, 2, 8])),
            0,
        );
        check(
            dtype,
            spacing,
            dropped(cut_shape([9, 20, 60], [2, 2, 8])),
            0,
        );
    }
}

#[test]
fn single_and_double_precision_take_the_heads_of_models() {
    for (dtype, spacing) in [(DType::F64, 2.3e-16), (DType::F32, 1.2e-7)] {
        for head_size in [64, 128] {
            check(dtype, spacing, shape([1, 50, 2, 1, head_size]), 0);
        }
    }
}

#[test]
fn matrix_units_agree() {
    for (dtype, spacing) in [(DType::Bf16, 7.9e-3), (DType::F16, 9.8e-4)] {
        for sizes in [
            [2, 150, 2, 1, 64],
            [1, 64, 2, 2, 128],
            [1, 3, 1, 1, 64],
            [1, 97, 2, 1, 128],
            // More tiles than lie in shared memory at a time, so that each place is filled again.
            [1, 400, 2, 1, 64],
            [1, 300, 1, 1, 128],
        ] {
            check(dtype, spacing, shape(sizes), 0);
        }
        for cut in CUTS {
            check(dtype, spacing, cut_shape(cut, [2, 1, 64]), 0);
            check(dtype, spacing, cut_shape(cut, [2, 2, 128]), 0);
        }
        check(dtype, spacing, dropped(shape([2, 75, 4, 2, 64])), 0);
        check(dtype, spacing, dropped(shape([1, 40, 2, 1, 128])), 0);
        check(
            dtype,
            spacing,
            dropped(cut_shape([70, 150, 23], [4, 2, 64])),
            0,
        );
        check(
            dtype,
            spacing,
            dropped(cut_shape([40, 60, 70], [2, 1, 128])),
            0,
        );
    }
}

/// Lengths of documents: borders inside tiles and between them, and tokens that meet themselves alone.
const LENGTHS: [&[usize]; 4] = [&[64], &[9, 1, 1], &[50, 3, 1], &[7, 90]];

/// Places of a mask, each with other lengths of documents.
fn cuts_in_documents() -> impl Iterator<Item = ([usize; 3], &'static [usize])> {
    let near = CUTS.into_iter().filter(|cut| cut[2] < 1000);
    near.zip(LENGTHS.into_iter().cycle())
}

#[test]
fn documents_agree_on_plain_kernels() {
    for (dtype, spacing) in FLOATS {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 1, lengths);
        for lengths in LENGTHS {
            check(shape([2, 75, 2, 1, 20]), lengths);
            check(dropped(shape([2, 37, 4, 2, 8])), lengths);
        }
        for (cut, lengths) in cuts_in_documents() {
            check(cut_shape(cut, [2, 1, 12]), lengths);
            check(dropped(cut_shape(cut, [2, 2, 8])), lengths);
        }
    }
}

#[test]
fn documents_agree_on_matrix_units() {
    for (dtype, spacing) in [(DType::Bf16, 7.9e-3), (DType::F16, 9.8e-4)] {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 0, lengths);
        for lengths in LENGTHS {
            check(shape([2, 150, 2, 1, 64]), lengths);
            check(dropped(shape([1, 140, 2, 1, 128])), lengths);
        }
        for (cut, lengths) in cuts_in_documents() {
            check(dropped(cut_shape(cut, [2, 1, 64])), lengths);
            check(cut_shape(cut, [1, 1, 128]), lengths);
        }
    }
}

/// Windows that begin everywhere in a tile, and one of more keys than there are.
const WINDOWS: [usize; 5] = [2, 9, 64, 77, 1000];

fn windowed(shape: AttentionShape, window: usize) -> AttentionShape {
    AttentionShape {
        window: Some(window),
        ..shape
    }
}

#[test]
fn windows_agree_on_plain_kernels() {
    for (dtype, spacing) in FLOATS {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 1, lengths);
        for window in WINDOWS {
            check(windowed(shape([2, 75, 2, 1, 20]), window), &[]);
            check(windowed(dropped(shape([2, 37, 4, 2, 8])), window), &[50, 3]);
        }
        for (cut, window) in CUTS.into_iter().zip(WINDOWS[1..].iter().cycle()) {
            check(windowed(cut_shape(cut, [2, 1, 12]), *window), &[]);
        }
    }
}

#[test]
fn windows_agree_on_matrix_units() {
    for (dtype, spacing) in [(DType::Bf16, 7.9e-3), (DType::F16, 9.8e-4)] {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 0, lengths);
        for window in WINDOWS {
            check(windowed(shape([1, 230, 2, 1, 64]), window), &[]);
            check(windowed(shape([1, 150, 1, 1, 128]), window), &[50, 3]);
        }
        for window in [9, 77] {
            check(windowed(dropped(shape([1, 140, 1, 1, 128])), window), &[]);
        }
        for (cut, window) in CUTS.into_iter().zip(WINDOWS[1..].iter().cycle()) {
            check(windowed(cut_shape(cut, [2, 1, 64]), *window), &[]);
            check(windowed(cut_shape(cut, [1, 1, 128]), *window), &[]);
        }
    }
}

fn bounded(shape: AttentionShape, cap: f64) -> AttentionShape {
    AttentionShape {
        score_cap: Some(cap),
        ..shape
    }
}

#[test]
fn bounds_of_scores_agree_on_plain_kernels() {
    for (dtype, spacing) in FLOATS {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 1, lengths);
        // One that flattens most scores, and one that hardly bends any.
        for cap in [0.2, 30.0] {
            check(bounded(shape([2, 75, 2, 1, 20]), cap), &[]);
            check(
                bounded(windowed(dropped(shape([2, 37, 4, 2, 8])), 9), cap),
                &[50, 3],
            );
        }
        for cut in CUTS {
            check(bounded(cut_shape(cut, [2, 1, 12]), 0.3), &[]);
        }
    }
}

#[test]
fn bounds_of_scores_agree_on_matrix_units() {
    for (dtype, spacing) in [(DType::Bf16, 7.9e-3), (DType::F16, 9.8e-4)] {
        let check = |shape, lengths: &[usize]| check_documents(dtype, spacing, shape, 0, lengths);
        for cap in [0.2, 30.0] {
            check(bounded(shape([1, 230, 2, 1, 64]), cap), &[]);
            check(
                bounded(windowed(shape([1, 150, 2, 1, 128]), 77), cap),
                &[50, 3],
            );
            check(bounded(dropped(shape([1, 140, 1, 1, 128])), cap), &[]);
        }
        for cut in CUTS {
            check(bounded(cut_shape(cut, [2, 1, 64]), 0.3), &[]);
            check(bounded(cut_shape(cut, [1, 1, 128]), 0.3), &[]);
        }
    }
}

#[test]
fn blocks_of_keys_are_joined() {
    let [sequences, queries, heads] = [2, 37, 3];
    let num_sums = sequences * queries * heads;
    for ((dtype, spacing), head_size) in FLOATS.iter().flat_map(|f| [12, 64].map(|size| (f, size)))
    {
        for before in [0, 1] {
            let accumulated =
                |len: usize, seed| Memory::new(dtype.accumulator(), &random(len, seed), before);
            let mut of_block = random(num_sums, 4);
            of_block[5] = f64::NEG_INFINITY;
            let memories = [
                accumulated(num_sums * head_size, 1),
                accumulated(num_sums, 2),
                Memory::new(*dtype, &random(num_sums * head_size, 3), before),
                Memory::new(dtype.accumulator(), &of_block, 0),
                accumulated(num_sums, 5),
            ];
            compare(&memories, 16.0 * spacing, |m| {
                Kernel::AttentionJoin(AttentionJoin {
                    sequences,
                    queries,
                    heads,
                    head_size,
                    out: m[0],
                    log_sum_exp: m[1],
                    block: m[2],
                    block_log_sum_exp: m[3],
                    joined: m[4],
                })
            });
        }
    }
}

#[test]
fn keys_without_queries_have_no_gradient() {
    for (dtype, head_size) in [(DType::F32, 12), (DType::Bf16, 64), (DType::Bf16, 128)] {
        for heads in [[2, 1, head_size], [0, 2, head_size]] {
            let queries = if heads[0] == 0 { 40 } else { 0 };
            check(dtype, 0.0, cut_shape([queries, 70, 3], heads), 0);
        }
    }
}

/// Outputs, logarithms and gradients of queries, of queries `range` of a sequence.
fn of_queries(
    device: &DeviceTraits,
    dtype: DType,
    (whole, lengths): (&AttentionShape, &[usize]),
    range: Range<usize>,
) -> Option<[Vec<f64>; 3]> {
    let shape = AttentionShape {
        queries: range.len(),
        first_query: range.start,
        ..*whole
    };
    let width = shape.heads * shape.head_size;
    let cut =
        |seed| random(whole.queries * width, seed)[range.start * width..range.end * width].to_vec();
    let keys = |seed| random(whole.keys * shape.kv_heads * shape.head_size, seed);
    let own = |values: Vec<f64>| Memory::new(dtype, &values, 0);
    let zeros = |len: usize| own(vec![0.0; len]);
    let sums = Memory::new(
        dtype.accumulator(),
        &vec![0.0; shape.queries * shape.heads],
        0,
    );
    let len = range.len() * width;
    let documents = starts(&shape, lengths, range.clone());
    let memories = [own(cut(1)), own(keys(2)), own(keys(3)), zeros(len), sums];
    let memories = [&memories[..], &documents].concat();
    let forward = run_on(device, &memories, |m| {
        Kernel::AttentionForward(AttentionForward {
            shape,
            q: m[0],
            k: m[1],
            v: m[2],
            out: m[3],
            log_sum_exp: m[4],
            documents: m.get(5).copied(),
        })
    })?;
    let (out, logs) = (forward[3].clone(), forward[4].clone());
    let [q, k, v] = [0, 1, 2].map(|index: usize| memories[index].clone());
    let (d_k, d_v) = (own(keys(7)), own(keys(8)));
    let given = [own(out.clone()), Memory::new(dtype.accumulator(), &logs, 0)];
    let [of_out, of_logs] = given;
    let memories = [q, k, v, of_out, of_logs, own(cut(4)), zeros(len), d_k, d_v];
    let memories = [&memories[..], &documents].concat();
    let backward = run_on(device, &memories, |m| {
        Kernel::AttentionBackward(AttentionBackward {
            shape,
            q: m[0],
            k: m[1],
            v: m[2],
            out: m[3],
            log_sum_exp: m[4],
            d_out: m[5],
            d_q: m[6],
            d_k: m[7],
            d_v: m[8],
            documents: m.get(9).copied(),
        })
    })?;
    Some([out, logs, backward[6].clone()])
}

#[test]
fn cutting_the_queries_changes_no_bit_of_their_rows() {
    for (dtype, head_size) in [(DType::F32, 20), (DType::Bf16, 64), (DType::F16, 128)] {
        let causal = shape([1, 150, 2, 1, head_size]);
        let lengths: &[usize] = &[70, 3];
        let devices = [traits(32), traits(64), with_warpgroups()];
        for ((whole, lengths), device) in [
            (causal, &[][..]),
            (dropped(causal), &[]),
            (causal, lengths),
            (windowed(causal, 40), &[]),
        ]
        .into_iter()
        .flat_map(|case| devices.map(|device| (case, device)))
        {
            let width = whole.heads * whole.head_size;
            let whole = (&whole, lengths);
            let Some([out, logs, d_q]) = of_queries(&device, dtype, whole, 0..150) else {
                return;
            };
            for range in [0..1, 0..64, 37..102, 64..150, 149..150] {
                let found = of_queries(&device, dtype, whole, range.clone()).unwrap();
                let rows = |x: &[f64]| x[range.start * width..range.end * width].to_vec();
                let logs = logs
                    .chunks(150)
                    .flat_map(|head| head[range.clone()].to_vec());
                let expected = [rows(&out), logs.collect(), rows(&d_q)];
                assert!(
                    found == expected,
                    "{dtype}, {device:?}, {whole:?}: {range:?}"
                );
            }
        }
    }
}
