//! An attention that is cut: its queries, or its keys.

use super::{
    Values, documents::with_documents, inputs, reference, run, run_from, shape, with_dropout,
};
use hal::{DType, kernel::AttentionShape};

/// Rows `range` of every sequence of `rows` rows of `width` numbers.
fn rows_of(values: &[f64], rows: usize, width: usize, range: std::ops::Range<usize>) -> Vec<f64> {
    let sequences = values.chunks(rows * width);
    sequences
        .flat_map(|sequence| sequence[range.start * width..range.end * width].to_vec())
        .collect()
}

/// The documents of queries `range` of every sequence.
fn starts_of(whole: &AttentionShape, values: &Values, range: std::ops::Range<usize>) -> Vec<u32> {
    let sequences = values.documents.chunks(whole.queries.max(1));
    sequences
        .flat_map(|starts| starts[range.clone()].to_vec())
        .collect()
}

/// Queries `range` of `whole`, an attention whose first query is at place 0.
fn queries_of(
    whole: &AttentionShape,
    values: &Values,
    range: std::ops::Range<usize>,
) -> (AttentionShape, Values) {
    let width = whole.heads * whole.head_size;
    let cut = |x: &[f64]| rows_of(x, whole.queries, width, range.clone());
    let shape = AttentionShape {
        queries: range.len(),
        first_query: range.start,
        ..*whole
    };
    let values = Values {
        q: cut(&values.q),
        d_out: cut(&values.d_out),
        k: values.k.clone(),
        v: values.v.clone(),
        documents: starts_of(whole, values, range),
        ..Values::default()
    };
    (shape, values)
}

/// Keys `range` of `whole`; only those queries that meet one of them, with their outputs.
fn keys_of(
    whole: &AttentionShape,
    values: &Values,
    range: std::ops::Range<usize>,
) -> (AttentionShape, Values) {
    let [width, kv_width] = [whole.heads, whole.kv_heads].map(|heads| heads * whole.head_size);
    let first = range.start.saturating_sub(whole.first_query);
    let queries = first..whole.queries;
    let cut = |x: &[f64]| rows_of(x, whole.queries, width, queries.clone());
    let cut_keys = |x: &[f64]| rows_of(x, whole.keys, kv_width, range.clone());
    let shape = AttentionShape {
        queries: queries.len(),
        keys: range.len(),
        first_query: whole.first_query + first - range.start,
        first_key: whole.first_key + range.start,
        ..*whole
    };
    let values = Values {
        q: cut(&values.q),
        d_out: cut(&values.d_out),
        out: cut(&values.out),
        log_sum_exp: rows_of(&values.log_sum_exp, whole.queries, 1, queries.clone()),
        k: cut_keys(&values.k),
        v: cut_keys(&values.v),
        documents: starts_of(whole, values, queries),
        ..Values::default()
    };
    (shape, values)
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn add(sums: &mut [f64], addends: &[f64]) {
    sums.iter_mut().zip(addends).for_each(|(sum, x)| *sum += x);
}

fn assert_close(found: &[f64], expected: &[f64], relative: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0f64, |a, b| a.max(b.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= relative * largest,
            "{what}[{index}]: {found} against {expected}"
        );
    }
}

#[test]
fn cutting_the_queries_changes_no_bit_of_their_rows() {
    let sizes = [4, 2, 20];
    let shapes = [
        shape(2, 150, sizes),
        with_dropout(shape(2, 150, sizes), 0.2),
    ];
    let lengths: [&[usize]; 4] = [&[], &[64, 1, 20], &[3, 130], &[1; 150]];
    for (whole, lengths) in shapes
        .into_iter()
        .flat_map(|shape| lengths.map(|lengths| (shape, lengths)))
    {
        let all = with_documents(&whole, inputs::<f32>(&whole), lengths);
        let expected = run::<f32>(&whole, &all, DType::F32, 1);
        let (width, heads) = (whole.heads * whole.head_size, whole.heads);
        for cuts in [vec![64, 128], vec![16], vec![1, 5, 70, 71], vec![149]] {
            let ends = cuts.iter().copied().chain([whole.queries]);
            let (mut d_k, mut d_v) = (vec![0.0; all.k.len()], vec![0.0; all.v.len()]);
            let mut start = 0;
            for end in ends {
                let range = std::mem::replace(&mut start, end)..end;
                let (piece, values) = queries_of(&whole, &all, range.clone());
                let found = run::<f32>(&piece, &values, DType::F32, 1);
                let rows = |x: &[f64]| rows_of(x, whole.queries, width, range.clone());
                assert_eq!(bits(&found.out), bits(&rows(&expected.out)), "{range:?}");
                assert_eq!(bits(&found.d_q), bits(&rows(&expected.d_q)), "{range:?}");
                let logs = rows_of(&expected.log_sum_exp, whole.queries, 1, range.clone());
                assert_eq!(found.log_sum_exp.len(), 2 * heads * range.len());
                assert_eq!(bits(&found.log_sum_exp), bits(&logs), "{range:?}");
                add(&mut d_k, &found.d_k);
                add(&mut d_v, &found.d_v);
            }
            // Sums of 150 products in f32.
            assert_close(&d_k, &expected.d_k, 1e-5, "d_k");
            assert_close(&d_v, &expected.d_v, 1e-5, "d_v");
        }
    }
}

/// The outputs of blocks of keys, combined by their log-sum-exps; every query meets one of the blocks.
fn combine(whole: &AttentionShape, blocks: &[(AttentionShape, Values)]) -> Values {
    let (size, width) = (whole.head_size, whole.heads * whole.head_size);
    let mut combined = Values {
        out: vec![0.0; whole.sequences * whole.queries * width],
        ..Values::default()
    };
    for at in 0..whole.sequences * whole.heads * whole.queries {
        let (head, query) = (at / whole.queries, at % whole.queries);
        let (sequence, head) = (head / whole.heads, head % whole.heads);
        let of_block = |(shape, values): &(AttentionShape, Values)| {
            let row = (query + shape.queries).checked_sub(whole.queries)?;
            let log = values.log_sum_exp[(sequence * whole.heads + head) * shape.queries + row];
            let out = ((sequence * shape.queries + row) * whole.heads + head) * size;
            Some((log, values.out[out..][..size].to_vec()))
        };
        let parts: Vec<(f64, Vec<f64>)> = blocks.iter().filter_map(of_block).collect();
        let largest = parts.iter().map(|part| part.0).fold(f64::MIN, f64::max);
        let sum: f64 = parts.iter().map(|part| (part.0 - largest).exp()).sum();
        let log = largest + sum.ln();
        combined.log_sum_exp.push(log);
        let out = ((sequence * whole.queries + query) * whole.heads + head) * size;
        for (of_part, values) in &parts {
            let share = (of_part - log).exp();
            let to = combined.out[out..][..size].iter_mut();
            to.zip(values).for_each(|(to, x)| *to += share * x);
        }
    }
    combined
}

#[test]
fn blocks_of_keys_combine_to_the_attention_over_all_keys() {
    let complete = shape(2, 140, [4, 2, 12]);
    let second_half = AttentionShape {
        queries: 60,
        first_query: 80,
        ..complete
    };
    let shapes = [complete, second_half, with_dropout(second_half, 0.3)];
    let lengths: [&[usize]; 4] = [&[], &[64, 1, 20], &[3, 100], &[1; 140]];
    for (whole, lengths) in shapes
        .into_iter()
        .flat_map(|shape| lengths.map(|lengths| (shape, lengths)))
    {
        let all = with_documents(&whole, inputs::<f64>(&whole), lengths);
        let mut expected = all.clone();
        reference::forward(&whole, &mut expected);
        reference::backward(&whole, &mut expected);
        for cut in [1, 50, 64, 80, 133] {
            let ranges = [0..cut, cut..whole.keys];
            let blocks = ranges.clone().map(|range| {
                let (shape, values) = keys_of(&whole, &blank(&whole, &all), range);
                (shape, run::<f64>(&shape, &values, DType::F64, 1))
            });
            let combined = combine(&whole, &blocks);
            assert_close(&combined.out, &expected.out, 1e-12, "out");
            assert_close(&combined.log_sum_exp, &expected.log_sum_exp, 1e-12, "log");
            let mut d_q = vec![0.0; all.q.len()];
            let [mut d_k, mut d_v] = [Vec::new(), Vec::new()];
            for range in ranges {
                let given = Values {
                    out: combined.out.clone(),
                    log_sum_exp: combined.log_sum_exp.clone(),
                    ..all.clone()
                };
                let (shape, values) = keys_of(&whole, &given, range);
                let found = run_from::<f64>(&shape, &values, DType::F64, 1, Some(&values));
                add_rows(&whole, &shape, &mut d_q, &found.d_q);
                d_k.push(found.d_k);
                d_v.push(found.d_v);
            }
            assert_close(&d_q, &expected.d_q, 1e-12, "d_q");
            for (blocks, expected, what) in
                [(d_k, &expected.d_k, "d_k"), (d_v, &expected.d_v, "d_v")]
            {
                assert_close(&join(&whole, &blocks), expected, 1e-12, what);
            }
        }
    }
}

/// The inputs, with outputs of the right sizes for [`keys_of`] to cut.
fn blank(whole: &AttentionShape, all: &Values) -> Values {
    Values {
        out: vec![0.0; all.q.len()],
        log_sum_exp: vec![0.0; whole.sequences * whole.heads * whole.queries],
        ..all.clone()
    }
}

/// Adds the rows of a block's queries, which are the last ones, to those of all.
fn add_rows(whole: &AttentionShape, block: &AttentionShape, sums: &mut [f64], addends: &[f64]) {
    let width = whole.heads * whole.head_size;
    for sequence in 0..whole.sequences {
        let end = (sequence + 1) * whole.queries * width;
        let len = block.queries * width;
        add(&mut sums[end - len..end], &addends[sequence * len..][..len]);
    }
}

/// Blocks of keys, sequence by sequence.
fn join(whole: &AttentionShape, blocks: &[Vec<f64>]) -> Vec<f64> {
    let of_sequence = |sequence: usize| {
        blocks.iter().flat_map(move |block| {
            let len = block.len() / whole.sequences;
            block[sequence * len..][..len].to_vec()
        })
    };
    (0..whole.sequences).flat_map(of_sequence).collect()
}
