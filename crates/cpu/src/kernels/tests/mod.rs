//! Every kernel against plain f64 code, in all float types, at odd sizes, with identical bits on any number of threads.

mod activation;
mod alone;
mod attention_join;
mod coded;
mod columns;
mod documents;
mod dropout;
mod elementwise;
mod embedding;
mod exact_squares;
mod factored;
mod loss;
mod muon;
mod nodes;
mod norm;
mod optimiser;
mod quantised;
mod rope;
mod rows;

use super::execute;
use crate::{element::Element, pool::Pool};
use hal::{DType, Kernel, RawSlice, random::Key};
use half::{bf16, f16};

/// The four types that float kernels take.
const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

/// Shorter than a vector, not a multiple of one, and longer than a block.
const COLUMNS: [usize; 4] = [1, 7, 17, 33];

const GUARD: usize = 64;

/// Elements in memory, between guards to which nothing may write.
struct Memory {
    words: Vec<u64>,
    len: usize,
    dtype: DType,
}

macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F64 => with_type!(@ f64, $T, $body),
            DType::F32 => with_type!(@ f32, $T, $body),
            DType::Bf16 => with_type!(@ bf16, $T, $body),
            DType::F16 => with_type!(@ f16, $T, $body),
            DType::I32 => with_type!(@ Int<i32>, $T, $body),
            DType::U32 => with_type!(@ Int<u32>, $T, $body),
            DType::U8 => with_type!(@ Int<u8>, $T, $body),
        }
    };
    (@ $type:ty, $T:ident, $body:expr) => {{
        type $T = $type;
        $body
    }};
}

/// An integer that converts like the float types.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Int<T>(T);

trait Value: Copy {
    fn from_value(value: f64) -> Self;
    fn value(self) -> f64;
}

impl<T: Element> Value for T {
    fn from_value(value: f64) -> Self {
        T::nearest(value)
    }
    fn value(self) -> f64 {
        use crate::element::Real;
        self.acc().wide()
    }
}

impl Value for Int<i32> {
    fn from_value(value: f64) -> Self {
        Int(value as i32)
    }
    fn value(self) -> f64 {
        f64::from(self.0)
    }
}

impl Value for Int<u32> {
    fn from_value(value: f64) -> Self {
        Int(value as u32)
    }
    fn value(self) -> f64 {
        f64::from(self.0)
    }
}

impl Value for Int<u8> {
    fn from_value(value: f64) -> Self {
        Int(value as u8)
    }
    fn value(self) -> f64 {
        f64::from(self.0)
    }
}

impl Memory {
    fn new(dtype: DType, values: &[f64]) -> Memory {
        let words =
            vec![0x5a5a_5a5a_5a5a_5a5a; (values.len() * dtype.bytes()).div_ceil(8) + 2 * GUARD];
        let memory = Memory {
            words,
            len: values.len(),
            dtype,
        };
        let start = memory.raw().addr;
        with_type!(dtype, T => values.iter().enumerate().for_each(|(i, &value)| {
            // SAFETY: `words` has room for `len` elements between its guards.
            unsafe { (start as *mut T).add(i).write(T::from_value(value)) }
        }));
        memory
    }

    fn raw(&self) -> RawSlice {
        RawSlice {
            addr: self.words[GUARD..].as_ptr() as u64,
            len: self.len,
            dtype: self.dtype,
        }
    }

    fn values(&self) -> Vec<f64> {
        let start = self.raw().addr;
        // SAFETY: `words` holds `len` elements between its guards.
        with_type!(self.dtype, T => (0..self.len).map(|i| unsafe { (start as *const T).add(i).read() }.value()).collect())
    }

    fn bits(&self) -> &[u64] {
        &self.words
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        let (before, after) = (GUARD * 8, GUARD * 8 + self.len * self.dtype.bytes());
        let untouched = bytes[..before]
            .iter()
            .chain(&bytes[after..])
            .all(|&byte| byte == 0x5a);
        assert!(
            untouched || std::thread::panicking(),
            "a kernel wrote outside its {} elements",
            self.len
        );
    }
}

/// Runs a kernel on fresh copies of `memories` with 1, 2, 3 and 5 threads; all must leave the same bits.
///
/// Returns the final content of the memories.
fn run(memories: &[(DType, Vec<f64>)], kernel: impl Fn(&[RawSlice]) -> Kernel) -> Vec<Vec<f64>> {
    let results: Vec<Vec<Memory>> = [1, 2, 3, 5]
        .map(|threads| run_on(threads, memories, &kernel))
        .into();
    for (threads, memories) in [2, 3, 5].into_iter().zip(&results[1..]) {
        for (index, (memory, first)) in memories.iter().zip(&results[0]).enumerate() {
            assert!(
                memory.bits() == first.bits(),
                "memory {index} differs on {threads} threads"
            );
        }
    }
    results[0].iter().map(Memory::values).collect()
}

fn run_on(
    threads: usize,
    memories: &[(DType, Vec<f64>)],
    kernel: impl Fn(&[RawSlice]) -> Kernel,
) -> Vec<Memory> {
    let pool = Pool::new(threads).unwrap();
    let memories: Vec<Memory> = memories
        .iter()
        .map(|(dtype, values)| Memory::new(*dtype, values))
        .collect();
    let slices: Vec<RawSlice> = memories.iter().map(Memory::raw).collect();
    // SAFETY: the memories are live, of the stated types and lengths, and used by nothing else.
    unsafe { execute(&kernel(&slices), &pool) }.unwrap();
    memories
}

/// `values` as represented in `dtype`.
fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    Memory::new(dtype, values).values()
}

/// Numbers in [-2, 2), as represented in `dtype`.
fn random(dtype: DType, len: usize, seed: u64) -> Vec<f64> {
    let key = Key { seed, sequence: 0 };
    let values: Vec<f64> = (0..len as u64)
        .map(|i| f64::from(key.uniform(i)) * 4.0 - 2.0)
        .collect();
    rounded(dtype, &values)
}

/// Integers below `bound`, for ids.
fn random_ids(bound: usize, len: usize, seed: u64) -> Vec<f64> {
    let key = Key { seed, sequence: 1 };
    (0..len as u64)
        .map(|i| f64::from(key.word(i) % bound as u32))
        .collect()
}

/// Half the distance from 1 to the next number of a type.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::Bf16 => 2f64.powi(-8),
        _ => 2f64.powi(-11),
    }
}

/// Requires that each number lies within `slack` roundings of its expected value. Roundings of intermediate
/// results of about 1 in the accumulator count as well.
#[track_caller]
fn assert_close(dtype: DType, found: &[f64], expected: &[f64], slack: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let inner = unit(dtype.accumulator()) * slack * (1.0 + expected.abs());
        let tolerance = inner
            + unit(dtype) * 1.01 * expected.abs()
            + if dtype == DType::F16 { 6e-8 } else { 0.0 };
        assert!(
            (found - expected).abs() <= tolerance,
            "{dtype}, element {i}: {found}, expected {expected}"
        );
    }
}

/// The gradient of `f` at `x`, by central differences.
fn finite_differences(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut x = x.to_vec();
        x[i] += by;
        f(&x)
    };
    (0..x.len())
        .map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step))
        .collect()
}

#[track_caller]
fn assert_gradient(found: &[f64], expected: &[f64]) {
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 2e-8 * (1.0 + expected.abs()),
            "{i}: {found} against {expected}"
        );
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn integers_are_refused_where_a_kernel_needs_floats() {
    let x = Memory::new(DType::I32, &[1.0, 2.0]);
    let unary = hal::kernel::Unary {
        op: hal::kernel::UnaryOp::Gelu,
        x: x.raw(),
        out: x.raw(),
    };
    // SAFETY: the memory is live and used by nothing else.
    let error = unsafe { execute(&Kernel::Unary(unary), &Pool::new(1).unwrap()) }.unwrap_err();
    assert_eq!(error.to_string(), "unary: cpu:0 does not support i32");
    assert_eq!(x.values(), [1.0, 2.0]);
}
