//! Content of buffers, and the results of serial arithmetic on it.

use hal::{DType, ReduceOp, random::Key};
use half::{bf16, f16};

/// Random content for `rank`, the same for every call.
pub fn content(dtype: DType, len: usize, rank: usize, salt: u64) -> Vec<u8> {
    let key = Key {
        seed: 3,
        sequence: (rank as u64) << 32 | salt,
    };
    let words = (0..len.div_ceil(4) as u64)
        .flat_map(|block| key.block(block))
        .take(len);
    let values = words.map(|word| f64::from(word as i32) / 65_536.0);
    match dtype {
        DType::F64 => values
            .flat_map(|x| (x * 1.000_000_001).to_ne_bytes())
            .collect(),
        DType::F32 => values.flat_map(|x| (x as f32).to_ne_bytes()).collect(),
        DType::Bf16 => values
            .flat_map(|x| bf16::from_f64(x).to_ne_bytes())
            .collect(),
        DType::F16 => values
            .flat_map(|x| f16::from_f64(x / 16.0).to_ne_bytes())
            .collect(),
        DType::I32 => values.flat_map(|x| (x as i32).to_ne_bytes()).collect(),
        DType::U32 => values
            .flat_map(|x| (x.abs() as u32).to_ne_bytes())
            .collect(),
        // The sum of eight is a byte too.
        DType::U8 => values.map(|x| (x.abs() / 4096.0) as u8).collect(),
    }
}

/// The reduction of all sources in their order.
pub fn reduced(dtype: DType, op: ReduceOp, sources: &[Vec<u8>]) -> Vec<u8> {
    macro_rules! reduce {
        ($type:ty, $acc:ty, $to:expr, $from:expr) => {{
            let value = |source: &[u8], i: usize| {
                let width = size_of::<$type>();
                $to(<$type>::from_ne_bytes(
                    source[i * width..][..width].try_into().unwrap(),
                ))
            };
            let combine = |a: $acc, b: $acc| match op {
                ReduceOp::Sum | ReduceOp::Avg => a + b,
                ReduceOp::Max => {
                    if a > b {
                        a
                    } else {
                        b
                    }
                }
                ReduceOp::Min => {
                    if a < b {
                        a
                    } else {
                        b
                    }
                }
            };
            let one = |i| {
                let values = sources.iter().map(|source| value(source, i));
                let whole = values.reduce(combine).unwrap();
                match op {
                    ReduceOp::Avg => whole / sources.len() as $acc,
                    _ => whole,
                }
            };
            (0..sources[0].len() / size_of::<$type>())
                .flat_map(|i| $from(one(i)).to_ne_bytes())
                .collect()
        }};
    }
    match dtype {
        DType::F64 => reduce!(f64, f64, |x| x, |x: f64| x),
        DType::F32 => reduce!(f32, f32, |x| x, |x: f32| x),
        DType::Bf16 => reduce!(bf16, f32, bf16::to_f32, bf16::from_f32),
        DType::F16 => reduce!(f16, f32, f16::to_f32, f16::from_f32),
        DType::I32 => reduce!(i32, i32, |x| x, |x: i32| x),
        DType::U32 => reduce!(u32, u32, |x| x, |x: u32| x),
        DType::U8 => reduce!(u8, u8, |x| x, |x: u8| x),
    }
}

/// Numbers of elements that do not divide, from one piece of work to many.
pub fn lengths() -> &'static [usize] {
    if cfg!(miri) {
        &[0, 1, 7]
    } else {
        &[0, 1, 7, 1000, 100_003]
    }
}
