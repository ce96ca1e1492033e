//! LayerNorm and RMSNorm of full rows: against the reference, and with the bits of the kernels of rows that are cut.

use crate::{
    machine::{compare, run},
    memory::{FLOATS, Memory, random},
};
use hal::{
    DType, Kernel, RawSlice,
    kernel::{Axpby, NormBackward, NormForward, NormKind, NormShape},
};

/// Rows, columns and elements before the first row: less than a warp reads at once, several warps and blocks, rows that end
/// within a warp's chunks, more than one pack for each thread, and more than a block holds.
const SHAPES: [(usize, usize, usize); 8] = [
    (1, 3, 0),
    (9, 64, 0),
    (35, 130, 1),
    (300, 16, 0),
    (19, 1024, 0),
    (7, 1500, 0),
    (6, 5001, 1),
    (2, 9001, 0),
];

fn each(test: impl Fn(DType, f64, NormShape, usize)) {
    for ((dtype, spacing), (rows, columns, before)) in
        FLOATS.iter().flat_map(|f| SHAPES.map(|s| (f, s)))
    {
        for kind in NormKind::ALL {
            let shape = NormShape {
                kind,
                rows,
                columns,
                global_columns: columns,
                epsilon: 1e-5,
            };
            test(*dtype, *spacing, shape, before);
        }
    }
}

/// The bias of a norm that has one.
fn bias(shape: NormShape, slice: RawSlice) -> Option<RawSlice> {
    (shape.kind == NormKind::Layer).then_some(slice)
}

fn forward(shape: NormShape, m: &[RawSlice]) -> NormForward {
    NormForward {
        shape,
        addends: None,
        x: m[0],
        gain: m[1],
        bias: bias(shape, m[2]),
        moments: m[3],
        out: m[4],
    }
}

/// x, gain, bias, moments and result.
fn forward_memories(dtype: DType, shape: NormShape, before: usize) -> [Memory; 5] {
    let len = shape.rows * shape.columns;
    let x: Vec<f64> = random(len, 1).iter().map(|x| x + 1.0).collect();
    [
        Memory::new(dtype, &x, before),
        Memory::new(dtype, &random(shape.columns, 2), before),
        Memory::new(dtype, &random(shape.columns, 3), before),
        Memory::new(dtype.accumulator(), &vec![9.0; 2 * shape.rows], 0),
        Memory::new(dtype, &random(len, 4), before),
    ]
}

#[test]
fn full_rows_are_normalised() {
    each(|dtype, spacing, shape, before| {
        let memories = forward_memories(dtype, shape, before);
        compare(&memories, 4.0 * spacing, |m| {
            Kernel::NormForward(forward(shape, m))
        });
        let memories = [&memories[..], &addends(dtype, shape, before)].concat();
        for second in [6, OUT] {
            compare(&memories, 4.0 * spacing, |m| {
                Kernel::NormForward(of_sum(shape, m, second))
            });
        }
    });
}

/// Where the result of the forward kernels is.
const OUT: usize = 4;

/// Of the sum of the sixth memory and another, which may be the result.
fn of_sum(shape: NormShape, m: &[RawSlice], second: usize) -> NormForward {
    NormForward {
        addends: Some([m[5], m[second]]),
        ..forward(shape, m)
    }
}

fn addends(dtype: DType, shape: NormShape, before: usize) -> [Memory; 2] {
    [11, 12].map(|seed| Memory::new(dtype, &random(shape.rows * shape.columns, seed), before))
}

fn backward(shape: NormShape, beta: f64, m: &[RawSlice]) -> NormBackward {
    NormBackward {
        shape,
        x: m[0],
        moments: m[1],
        gain: m[2],
        d_out: m[3],
        d_gain: m[4],
        d_bias: bias(shape, m[5]),
        beta,
        addend: None,
        d_x: m[6],
    }
}

/// With an eighth memory, which is added.
fn added(shape: NormShape, beta: f64, m: &[RawSlice]) -> Kernel {
    Kernel::NormBackward(NormBackward {
        addend: Some(m[7]),
        ..backward(shape, beta, m)
    })
}

fn addend(dtype: DType, shape: NormShape, before: usize) -> Memory {
    Memory::new(dtype, &random(shape.rows * shape.columns, 8), before)
}

/// x, its moments, gain, gradient of the result; gradients of gain, bias and x.
fn backward_memories(dtype: DType, shape: NormShape, before: usize) -> [Memory; 7] {
    let (len, accumulator) = (shape.rows * shape.columns, dtype.accumulator());
    let x = Memory::new(dtype, &random(len, 1), before);
    let moments: Vec<f64> = x
        .values()
        .chunks(shape.columns)
        .flat_map(|row| {
            let mean = match shape.kind {
                NormKind::Layer => row.iter().sum::<f64>() / row.len() as f64,
                NormKind::Rms | NormKind::RmsOffset => 0.0,
            };
            [mean, row.iter().map(|x| (x - mean).powi(2)).sum()]
        })
        .collect();
    [
        x,
        Memory::new(accumulator, &moments, 0),
        Memory::new(dtype, &random(shape.columns, 2), before),
        Memory::new(dtype, &random(len, 3), before),
        Memory::new(accumulator, &random(shape.columns, 5), 0),
        Memory::new(accumulator, &random(shape.columns, 6), 0),
        Memory::new(dtype, &random(len, 7), before),
    ]
}

#[test]
fn gradients_of_full_rows_agree() {
    each(|dtype, spacing, shape, before| {
        let memories = backward_memories(dtype, shape, before);
        for beta in [1.0, 0.0] {
            compare(&memories, 16.0 * spacing, |m| {
                Kernel::NormBackward(backward(shape, beta, m))
            });
        }
        let memories = [&memories[..], &[addend(dtype, shape, before)]].concat();
        compare(&memories, 16.0 * spacing, |m| added(shape, 0.0, m));
    });
}

fn bits(memory: &[f64]) -> Vec<u64> {
    memory.iter().map(|value| value.to_bits()).collect()
}

/// Makes a kernel of memories.
type Step<'a> = &'a dyn Fn(&[RawSlice]) -> Kernel;

/// Runs these kernels, one after another, on the same memories.
fn run_steps(warp: u32, memories: &[Memory], steps: &[Step<'_>]) -> Option<Vec<Vec<f64>>> {
    let mut values: Vec<Vec<f64>> = memories.iter().map(Memory::values).collect();
    for step in steps {
        let memories: Vec<Memory> = values
            .iter()
            .zip(memories)
            .map(|(values, memory)| Memory::new(memory.slice().dtype, values, 0))
            .collect();
        values = run(warp, &memories, step)?;
    }
    Some(values)
}

#[test]
fn full_rows_have_the_bits_of_rows_that_are_cut() {
    each(|dtype, _, shape, _| {
        let accumulator = dtype.accumulator();
        for warp in [32, 64] {
            let same_bits = |memories: &[Memory], one: Step, steps: &[Step], written: &[usize]| {
                let Some(found) = run_steps(warp, memories, &[one]) else {
                    return;
                };
                let steps = run_steps(warp, memories, steps).unwrap();
                for &index in written {
                    let same = bits(&found[index]) == bits(&steps[index]);
                    let arguments = memories.len();
                    assert!(
                        same,
                        "{dtype}, {warp}, {shape:?}, argument {index} of {arguments}"
                    );
                }
            };
            let memories = forward_memories(dtype, shape, 0);
            let whole = |m: &[RawSlice]| Kernel::NormForward(forward(shape, m));
            let moments = |m: &[RawSlice]| Kernel::Moments(forward(shape, m).steps().0);
            let normalize = |m: &[RawSlice]| Kernel::Normalize(forward(shape, m).steps().1);
            same_bits(&memories, &whole, &[&moments, &normalize], &[3, OUT]);

            let memories = [&memories[..], &addends(dtype, shape, 0)].concat();
            for second in [6, OUT] {
                let whole = |m: &[RawSlice]| Kernel::NormForward(of_sum(shape, m, second));
                let sum = |m: &[RawSlice]| Kernel::Binary(of_sum(shape, m, second).sum().unwrap());
                let steps: [Step<'_>; 3] = [&sum, &moments, &normalize];
                same_bits(&memories, &whole, &steps, &[0, 3, OUT]);
            }

            let of_backward = backward_memories(dtype, shape, 0);
            let sums = Memory::new(accumulator, &vec![9.0; 2 * shape.rows], 0);
            let memories = [&of_backward[..], &[sums]].concat();
            let whole = |m: &[RawSlice]| Kernel::NormBackward(backward(shape, 1.0, m));
            let steps = |m: &[RawSlice]| backward(shape, 1.0, m).steps(m[7]);
            let sums = |m: &[RawSlice]| Kernel::NormalizeSums(steps(m).0);
            let rest = |m: &[RawSlice]| Kernel::NormalizeBackward(steps(m).1);
            same_bits(&memories, &whole, &[&sums, &rest], &[4, 5, 6]);

            let memories = [&of_backward[..], &[addend(dtype, shape, 0)]].concat();
            let sum = |m: &[RawSlice]| added(shape, 1.0, m);
            let add = |m: &[RawSlice]| {
                let (x, y, alpha, beta) = (m[7], m[6], 1.0, 1.0);
                Kernel::Axpby(Axpby { x, y, alpha, beta })
            };
            same_bits(&memories, &sum, &[&whole, &add], &[4, 5, 6]);
        }
    });
}
