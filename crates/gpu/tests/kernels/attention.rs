//! Attention forward and backward: plain and on matrix units.

use crate::{
    machine::compare,
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel,
    kernel::{AttentionBackward, AttentionDropout, AttentionForward, AttentionShape},
    random::Key,
};

fn shape(
    [sequences, sequence, heads, kv_heads, head_size]: [usize; 5],
    dropout: Option<AttentionDropout>,
) -> AttentionShape {
    let scale = 1.0 / (head_size as f64).sqrt();
    AttentionShape {
        sequences,
        sequence,
        heads,
        kv_heads,
        head_size,
        scale,
        dropout,
    }
}

fn dropout() -> Option<AttentionDropout> {
    let key = Key::new(3, "attention", 1);
    Some(AttentionDropout {
        probability: 0.2,
        key,
        first_sequence: 2,
        first_head: 1,
        global_heads: 8,
    })
}

/// q, k, v and out; the softmax sums; d_out, and memory for three gradients.
fn memories(dtype: DType, shape: &AttentionShape, before: usize) -> Vec<Memory> {
    let tokens = shape.sequences * shape.sequence;
    let (q, k) = (
        tokens * shape.heads * shape.head_size,
        tokens * shape.kv_heads * shape.head_size,
    );
    let own = |len, seed| Memory::new(dtype, &random(len, seed), before);
    let sums = Memory::new(dtype.accumulator(), &vec![0.0; tokens * shape.heads], 0);
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

fn check(dtype: DType, spacing: f64, shape: AttentionShape, before: usize) {
    // 16-bit weights and gradients of scores are rounded before they are multiplied; the reference keeps them in f32.
    let tolerance = if dtype.bytes() == 2 {
        3.0 * spacing
    } else {
        64.0 * spacing
    };
    let memories = memories(dtype, &shape, before);
    compare(&memories[..5], tolerance, |m| {
        let [q, k, v, out, log_sum_exp] = [m[0], m[1], m[2], m[3], m[4]];
        Kernel::AttentionForward(AttentionForward {
            shape,
            q,
            k,
            v,
            out,
            log_sum_exp,
        })
    });
    let memories = [
        memories[..3].to_vec(),
        forward(dtype, &shape, before),
        memories[5..].to_vec(),
    ]
    .concat();
    compare(&memories, tolerance, |m| {
        let [q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v] = *m else {
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
        })
    });
}

/// Outputs and sums of the reference, for the backward pass to start from.
fn forward(dtype: DType, shape: &AttentionShape, before: usize) -> Vec<Memory> {
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
            check(dtype, spacing, shape(sizes, None), 1);
        }
        check(dtype, spacing, shape([2, 21, 4, 2, 8], dropout()), 0);
    }
}

#[test]
fn single_and_double_precision_take_the_heads_of_models() {
    for (dtype, spacing) in [(DType::F64, 2.3e-16), (DType::F32, 1.2e-7)] {
        for head_size in [64, 128] {
            check(dtype, spacing, shape([1, 50, 2, 1, head_size], None), 0);
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
        ] {
            check(dtype, spacing, shape(sizes, None), 0);
        }
        check(dtype, spacing, shape([2, 75, 4, 2, 64], dropout()), 0);
        check(dtype, spacing, shape([1, 40, 2, 1, 128], dropout()), 0);
    }
}
