//! Element types as run-time values.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// bfloat16: the upper half of a single.
    Bf16,
    /// IEEE half.
    F16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer; token ids.
    U32,
    /// Unsigned 8-bit integer; codes of quantised numbers.
    U8,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 7] = [
        DType::F64,
        DType::F32,
        DType::Bf16,
        DType::F16,
        DType::I32,
        DType::U32,
        DType::U8,
    ];

    /// Size of one element in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            DType::F64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::Bf16 | DType::F16 => 2,
            DType::U8 => 1,
        }
    }

    /// Whether elements are floating-point values.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::Bf16 | DType::F16)
    }

    /// The type in which sums over elements of this type are held: f64 for f64, f32 for every other float.
    ///
    /// Gradients, statistics and optimiser state use it.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::Bf16 | DType::F16 => DType::F32,
            other => other,
        }
    }

    /// Lower-case name, as used in configurations and messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::U8 => "u8",
        }
    }

    /// The type with that [`name`](DType::name), if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

/// A Rust type that is an element type. The set of element types is that of [`DType`], so no other crate adds
/// one.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its run-time value.
    const DTYPE: DType;
}

// Memory is read and written as these types, according to their size.
mod sealed {
    pub trait Sealed {}
}

macro_rules! element {
    ($($type:ty => $dtype:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}

element!(f64 => F64, f32 => F32, half::bf16 => Bf16, half::f16 => F16, i32 => I32, u32 => U32,
    u8 => U8);

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
