//! The types of matrices.

use half::{bf16, f16};

/// A type of matrices, and half the distance between its numbers from one to two (f32: what its sums may be off).
pub trait Element: Copy + Default {
    const KIND: i32;
    const ROUNDING: f64;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

impl Element for f32 {
    const KIND: i32 = 0;
    const ROUNDING: f64 = 1e-6;
    fn of(value: f64) -> Self {
        value as f32
    }
    fn value(self) -> f64 {
        self.into()
    }
}

impl Element for bf16 {
    const KIND: i32 = 14;
    const ROUNDING: f64 = 1.0 / 256.0;
    fn of(value: f64) -> Self {
        Self::from_f64(value)
    }
    fn value(self) -> f64 {
        self.into()
    }
}

impl Element for f16 {
    const KIND: i32 = 2;
    const ROUNDING: f64 = 1.0 / 2048.0;
    fn of(value: f64) -> Self {
        Self::from_f64(value)
    }
    fn value(self) -> f64 {
        self.into()
    }
}
