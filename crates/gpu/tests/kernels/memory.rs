//! Arguments of a kernel: numbers of a type, in host memory that can be copied and compared.

use hal::{DType, RawSlice, random::Key};
use half::{bf16, f16};

/// Float types, with the spacing of numbers near 1.
pub const FLOATS: [(DType, f64); 4] = [
    (DType::F64, 2.3e-16),
    (DType::F32, 1.2e-7),
    (DType::Bf16, 7.9e-3),
    (DType::F16, 9.8e-4),
];

/// Elements of one type. The memory before and behind `len` elements must stay unchanged.
#[derive(Clone)]
pub struct Memory {
    dtype: DType,
    len: usize,
    before: usize,
    words: Vec<u64>,
}

const BEHIND: usize = 16;

impl Memory {
    /// `values` as elements of `dtype`, `before` elements behind an address that is aligned to 16 bytes.
    pub fn new(dtype: DType, values: &[f64], before: usize) -> Self {
        let elements = before + values.len() + BEHIND;
        let words = vec![0x2121_2121_2121_2121; elements * dtype.bytes() / 8 + 4];
        let mut memory = Memory {
            dtype,
            len: values.len(),
            before,
            words,
        };
        for (index, &value) in values.iter().enumerate() {
            memory.set(index, value);
        }
        memory
    }

    fn skip(&self) -> usize {
        let misaligned = self.words.as_ptr() as usize % 16;
        (16 - misaligned) % 16 / 8
    }

    /// The elements as an argument, valid while this memory lives.
    pub fn slice(&self) -> RawSlice {
        let start = self.words[self.skip()..].as_ptr() as u64;
        RawSlice {
            addr: start + (self.before * self.dtype.bytes()) as u64,
            len: self.len,
            dtype: self.dtype,
        }
    }

    /// A copy with the same alignment.
    pub fn copy(&self) -> Self {
        let mut copy = Memory::new(self.dtype, &[], self.before);
        copy.len = self.len;
        copy.words = vec![0; self.words.len() + 2];
        let (from, to) = (self.skip(), copy.skip());
        let len = self.words.len() - 2;
        copy.words[to..to + len].copy_from_slice(&self.words[from..from + len]);
        copy
    }

    /// The spacing of numbers of this type near 1; 0 for integers.
    pub fn spacing(&self) -> f64 {
        let own = FLOATS.iter().find(|(dtype, _)| *dtype == self.dtype);
        own.map_or(0.0, |(_, spacing)| *spacing)
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words[self.skip()..])
            [..(self.before + self.len + BEHIND) * self.dtype.bytes()]
    }

    fn set(&mut self, index: usize, value: f64) {
        let (skip, at, dtype) = (
            self.skip() * 8,
            (self.before + index) * self.dtype.bytes(),
            self.dtype,
        );
        let to =
            &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[skip + at..][..dtype.bytes()];
        match dtype {
            DType::F64 => to.copy_from_slice(&value.to_ne_bytes()),
            DType::F32 => to.copy_from_slice(&(value as f32).to_ne_bytes()),
            DType::Bf16 => to.copy_from_slice(&bf16::from_f64(value).to_ne_bytes()),
            DType::F16 => to.copy_from_slice(&f16::from_f64(value).to_ne_bytes()),
            DType::I32 => to.copy_from_slice(&(value as i32).to_ne_bytes()),
            DType::U32 => to.copy_from_slice(&(value as u32).to_ne_bytes()),
            DType::U8 => to[0] = value as u8,
        }
    }

    /// The elements as numbers.
    pub fn values(&self) -> Vec<f64> {
        self.numbers()[self.before..][..self.len].to_vec()
    }

    /// All elements as numbers, those before and behind included.
    pub fn numbers(&self) -> Vec<f64> {
        let bytes = self.bytes().chunks(self.dtype.bytes());
        let array = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).unwrap();
        let half = |bytes: &[u8]| <[u8; 2]>::try_from(bytes).unwrap();
        let single = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).unwrap();
        match self.dtype {
            DType::F64 => bytes
                .map(|bytes| f64::from_ne_bytes(array(bytes)))
                .collect(),
            DType::F32 => bytes
                .map(|bytes| f32::from_ne_bytes(single(bytes)).into())
                .collect(),
            DType::Bf16 => bytes
                .map(|bytes| bf16::from_ne_bytes(half(bytes)).into())
                .collect(),
            DType::F16 => bytes
                .map(|bytes| f16::from_ne_bytes(half(bytes)).into())
                .collect(),
            DType::I32 => bytes
                .map(|bytes| i32::from_ne_bytes(single(bytes)).into())
                .collect(),
            DType::U32 => bytes
                .map(|bytes| u32::from_ne_bytes(single(bytes)).into())
                .collect(),
            DType::U8 => bytes.map(|bytes| bytes[0].into()).collect(),
        }
    }
}

/// `len` normally distributed numbers, from a seed.
pub fn random(len: usize, seed: u64) -> Vec<f64> {
    let key = Key::new(seed, "kernels", 0);
    (0..len).map(|index| key.normal(index as u64)).collect()
}

/// `len` ids below `count`, with every ninth out of range.
pub fn ids(len: usize, count: usize, seed: u64) -> Vec<f64> {
    let key = Key::new(seed, "ids", 0);
    let id = |index: usize| key.word(index as u64) as usize % count;
    (0..len)
        .map(|index| {
            if index % 9 == 8 {
                u32::MAX as f64
            } else {
                id(index) as f64
            }
        })
        .collect()
}
