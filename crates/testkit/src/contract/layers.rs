//! Norms, attention, loss and the optimiser against their formulas.

use super::{Open, compare, device, equal, float_types, norms, numbers, read, upload};
use std::ops::Range;
use tensor::{
    DType, Device, Tensor,
    ops::{
        self,
        attention::AttentionShape,
        loss::{self, VocabularyShard},
        optimiser::{self, Update},
    },
};

/// Checks the kernels of which layers consist.
///
/// # Panics
/// When the vendor breaks the contract.
pub fn check(open: Open) {
    let device = device(open);
    for dtype in float_types(&device) {
        norms::check(&device, dtype);
        attention(&device, dtype);
        losses(&device, dtype);
    }
    updates(&device);
}

fn attention(device: &Device, dtype: DType) {
    let (sequences, sequence, heads, kv_heads, head_size) = (2, 7, 4, 2, 8);
    let tokens = sequences * sequence;
    let (q, k, v) = (
        numbers(tokens * 32, 1),
        numbers(tokens * 16, 2),
        numbers(tokens * 16, 3),
    );
    let shape = AttentionShape::causal(sequences, sequence, [heads, kv_heads, head_size]);
    let [q_t, k_t, v_t] =
        [(&q, 32), (&k, 16), (&v, 16)].map(|(x, n)| upload(device, dtype, &[tokens, n], x));
    // Sequences of one document, and of documents that end with token 9.
    let ids = [1u32, 9, 2, 3, 9, 9, 4, 9, 1, 2, 3, 4, 5, 6];
    let begin = [0, 0, 2, 2, 2, 5, 6, 0, 1, 1, 1, 1, 1, 1];
    let ids = Tensor::from_slice(device, &[sequences, sequence], &ids).unwrap();
    let starts = ops::document_starts(&ids, 9).unwrap();
    let places = ops::places_in_documents(&ids, 9).unwrap();
    if device.capabilities().holds_values {
        let own: Vec<u32> = (0..14).map(|i| (i % 7 - begin[i]) as u32).collect();
        let begin = begin.map(|place| place as u32);
        assert_eq!(starts.to_vec::<u32>().unwrap(), begin, "starts");
        assert_eq!(places.to_vec::<u32>().unwrap(), own, "places");
    }
    let ways = [(None, [0; 14]), (Some(&starts), begin)];
    let windows = [None, Some(3)];
    for ((starts, begin), window) in ways
        .into_iter()
        .flat_map(|way| windows.map(|window| (way, window)))
    {
        let shape = AttentionShape { window, ..shape };
        let of_document = starts.map(|_| begin);
        let of_window = |token: usize| (token % 7 + 1).saturating_sub(window.unwrap_or(7));
        let begin = std::array::from_fn(|token| begin[token].max(of_window(token)));
        let (found, _) = ops::attention(shape, &q_t, &k_t, &v_t, starts).unwrap();
        let expected = attended(begin, [&q, &k, &v]);
        compare("attention", &found, &expected, 2.0);
        joined(device, dtype, (shape, of_document), [&q, &k, &v], &expected);
    }
}

// The later tokens attend to the earlier ones, and to each other.
fn joined(
    device: &Device,
    dtype: DType,
    (shape, begins): (AttentionShape, Option<[usize; 14]>),
    [q, k, v]: [&[f64]; 3],
    expected: &[f64],
) {
    let (sequences, sequence) = (shape.sequences, shape.queries);
    fn cut<T: Copy>(x: &[T], sequence: usize, width: usize, range: &Range<usize>) -> Vec<T> {
        let rows = x.chunks(sequence * width);
        rows.flat_map(|row| &row[range.start * width..range.end * width])
            .copied()
            .collect()
    }
    let (early, late) = (0..3, 3..sequence);
    let starts = begins.map(|begin| {
        let begin = cut(&begin.map(|place| place as u32), sequence, 1, &late);
        Tensor::from_slice(device, &[sequences, late.len()], &begin).unwrap()
    });
    let block = |keys: &Range<usize>| {
        let shape = AttentionShape {
            queries: late.len(),
            keys: keys.len(),
            first_query: late.start - keys.start,
            first_key: keys.start,
            ..shape
        };
        let of = |x: &[f64], width, range: &Range<usize>| {
            let part = cut(x, sequence, width, range);
            upload(device, dtype, &[sequences * range.len(), width], &part)
        };
        let [q, k, v] = [of(q, 32, &late), of(k, 16, keys), of(v, 16, keys)];
        let out = ops::attention(shape, &q, &k, &v, starts.as_ref()).unwrap();
        (shape, out)
    };
    let ((shape, (first, of_first)), (_, (second, of_second))) = (block(&early), block(&late));
    let all = ops::cast(&first, dtype.accumulator()).unwrap();
    ops::attention_join(shape, (&all, &of_first), (&second, &of_second)).unwrap();
    let found = ops::cast(&all, dtype).unwrap();
    compare(
        "joined attention",
        &found,
        &cut(expected, sequence, 32, &late),
        4.0,
    );
}

// The output of that attention by its definition, of documents that begin at these places.
fn attended(begin: [usize; 14], [q, k, v]: [&[f64]; 3]) -> Vec<f64> {
    let (sequences, sequence, heads) = (2, 7, 4);
    let scale = 1.0 / 8f64.sqrt();
    let mut expected = vec![0.0; sequences * sequence * 32];
    for (s, h, i) in (0..sequences)
        .flat_map(|s| (0..heads).flat_map(move |h| (0..sequence).map(move |i| (s, h, i))))
    {
        let at = |x: &[f64], width: usize, t: usize, head: usize, e: usize| {
            x[(s * sequence + t) * width + head * 8 + e]
        };
        let score = |j: usize| {
            scale
                * (0..8)
                    .map(|e| at(q, 32, i, h, e) * at(k, 16, j, h / 2, e))
                    .sum::<f64>()
        };
        let first = begin[s * sequence + i];
        let weights: Vec<f64> = (first..=i).map(|j| score(j).exp()).collect();
        let total: f64 = weights.iter().sum();
        for e in 0..8 {
            let sum: f64 = weights
                .iter()
                .enumerate()
                .map(|(j, w)| w * at(v, 16, first + j, h / 2, e))
                .sum();
            expected[(s * sequence + i) * 32 + h * 8 + e] = sum / total;
        }
    }
    expected
}

fn losses(device: &Device, dtype: DType) {
    let (rows, columns, vocabulary) = (6, 9, 8);
    let logits = numbers(rows * columns, 4);
    let targets = [3u32, 0, 7, u32::MAX, 5, 5];
    let ids = Tensor::from_slice(device, &[rows], &targets).unwrap();
    let tensor = upload(device, dtype, &[rows, columns], &logits);
    let shard = VocabularyShard {
        first_column: 0,
        vocabulary,
    };
    let statistics = loss::statistics(&tensor, &ids, shard).unwrap();
    let (log_sum_exp, total) =
        loss::combine(&statistics, &ids, &[tensor.columns()], 1, 0.5).unwrap();
    let row = |r: usize| &logits[r * columns..r * columns + vocabulary];
    let lse = |r: usize| row(r).iter().map(|x| x.exp()).sum::<f64>().ln();
    let counted = (0..rows).filter(|r| targets[*r] != u32::MAX);
    let expected: f64 = counted
        .map(|r| lse(r) - row(r)[targets[r] as usize])
        .sum::<f64>()
        * 0.5;
    compare("cross-entropy", &total, &[expected], 20.0);
    let d_loss = Tensor::full(device, dtype.accumulator(), &[1], 2.0).unwrap();
    loss::backward(&tensor, &ids, &log_sum_exp, &d_loss, shard, 0.5).unwrap();
    let element = |index: usize| {
        let (r, c) = (index / columns, index % columns);
        let counts = targets[r] != u32::MAX && c < vocabulary;
        let hit = f64::from(u8::from(c as u32 == targets[r]));
        if counts {
            (logits[index] - lse(r)).exp() - hit
        } else {
            0.0
        }
    };
    compare(
        "cross-entropy backward",
        &tensor,
        &(0..rows * columns).map(element).collect::<Vec<_>>(),
        2.0,
    );
}

fn updates(device: &Device) {
    let new = |value: f64| Tensor::full(device, DType::F32, &[50], value).unwrap();
    let update = Update {
        weights: new(1.0),
        gradients: new(0.5),
        state: vec![new(0.1), new(0.2)],
        compute: None,
        weight_decay: 0.1,
    };
    let squares = Tensor::zeros(device, DType::F64, &[1]).unwrap();
    optimiser::sum_squares(&[&update.gradients], &squares).unwrap();
    equal("sum of squares", &squares, &[12.5]);
    let factor = optimiser::clip_scale(&squares, Some(1.0), 1.0).unwrap();
    let norm = 12.5f64.sqrt();
    let clip = 1.0 / (norm + 1e-6);
    compare("clip factor and norm", &factor, &[clip, norm], 1.0);
    let settings = optimiser::AdamW {
        rate: 0.01,
        beta1: 0.9,
        beta2: 0.99,
        epsilon: 1e-8,
        step: 3,
    };
    optimiser::adamw(device, std::slice::from_ref(&update), &factor, settings).unwrap();
    let g = 0.5 * clip;
    let (m, v) = (0.09 + 0.1 * g, 0.198 + 0.01 * g * g);
    let step = (m / (1.0 - 0.9f64.powi(3))) / ((v / (1.0 - 0.99f64.powi(3))).sqrt() + 1e-8);
    compare(
        "adamw",
        &update.weights,
        &[1.0 - 0.01 * 0.1 - 0.01 * step; 50],
        1.0,
    );
    // A factor that is not a number skips the update, as after an overflow.
    squares.fill(f64::INFINITY).unwrap();
    let factor = optimiser::clip_scale(&squares, Some(1.0), 1.0).unwrap();
    let before = read(&update.weights).unwrap_or_else(|| vec![0.0; 50]);
    optimiser::adamw(device, std::slice::from_ref(&update), &factor, settings).unwrap();
    equal(
        "weights after a step that overflowed, which changes nothing",
        &update.weights,
        &before,
    );
}
