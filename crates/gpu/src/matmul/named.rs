//! The name of a GEMM in a file of choices: types, transposes and sizes, which determine its speed.

use hal::{DType, Gemm};
use std::fmt;

/// The name of a GEMM. Every GEMM looks its name up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    types: [DType; 2],
    transposed: [bool; 2],
    sizes: [usize; 3],
}

impl Named {
    /// The GEMM's name.
    pub(super) fn of(gemm: &Gemm) -> Named {
        let Gemm {
            m, n, k, a, b, c, ..
        } = *gemm;
        let types = [a.data.dtype, c.data.dtype];
        Named {
            types,
            transposed: [a.transposed, b.transposed],
            sizes: [m, n, k],
        }
    }

    /// Parses a name such as `bf16 bf16 tn 1024 4096 2048`.
    pub(super) fn parse(text: &str) -> Option<Named> {
        let [input, output, order, m, n, k] = text.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let transposed = match order {
            "nn" => [false, false],
            "nt" => [false, true],
            "tn" => [true, false],
            "tt" => [true, true],
            _ => return None,
        };
        let types = [DType::from_name(input)?, DType::from_name(output)?];
        Some(Named {
            types,
            transposed,
            sizes: [m.parse().ok()?, n.parse().ok()?, k.parse().ok()?],
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named {
            types: [input, output],
            transposed,
            sizes: [m, n, k],
        } = self;
        let [a, b] = transposed.map(|transposed| if transposed { 't' } else { 'n' });
        write!(f, "{input} {output} {a}{b} {m} {n} {k}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for text in [
            "bf16 bf16 tn 1024 4096 2048",
            "f64 f64 nn 1 2 3",
            "bf16 f32 nt 8 8 8",
            "f32 f32 tt 4 5 6",
        ] {
            assert_eq!(
                Named::parse(text).map(|named| named.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in [
            "",
            "bf16 bf16 tn 1024 4096",
            "bf16 int tn 1 2 3",
            "f32 f32 xx 1 2 3",
            "f32 f32 nn 1 2 -3",
        ] {
            assert_eq!(Named::parse(text), None, "{text}");
        }
    }
}
