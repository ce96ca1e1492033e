//! The name of a GEMM in a file of choices: what its speed and the numbers of its algorithms depend on.

use super::variant::Variant;
use hal::{DType, Epilogue, Gemm};
use std::fmt;

/// The name of a GEMM. Every GEMM looks its name up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    types: [DType; 2],
    transposed: [bool; 2],
    sizes: [usize; 3],
    leading: [usize; 3],
    // Positions in the lists of words.
    epilogue: usize,
    result: usize,
}

const ORDERS: [(&str, [bool; 2]); 4] = [
    ("nn", [false, false]),
    ("nt", [false, true]),
    ("tn", [true, false]),
    ("tt", [true, true]),
];
const EPILOGUES: [&str; 4] = ["plain", "bias", "gelu", "bias-gelu"];
/// Whether the old C is added, which must be read for it.
const RESULTS: [&str; 2] = ["sets", "adds"];

impl Named {
    /// The GEMM's name.
    pub(super) fn of(gemm: &Gemm) -> Named {
        let Gemm {
            m, n, k, a, b, c, ..
        } = *gemm;
        Named {
            types: [a.data.dtype, c.data.dtype],
            transposed: [a.transposed, b.transposed],
            sizes: [m, n, k],
            leading: [a, b, c].map(|matrix| matrix.leading),
            epilogue: match gemm.epilogue {
                Epilogue::None => 0,
                Epilogue::Bias { .. } => 1,
                Epilogue::Gelu { bias: None, .. } => 2,
                Epilogue::Gelu { bias: Some(_), .. } => 3,
            },
            result: usize::from(gemm.beta != 0.0),
        }
    }

    /// Whether that variant computes the GEMM with its epilogue.
    pub(super) fn has(&self, variant: Variant) -> bool {
        self.epilogue == 0 || matches!(variant, Variant::Algorithm(_))
    }

    /// Parses a name such as `bf16 bf16 tn 1024 4096 2048 1024 4096 4096 bias-gelu sets`.
    pub(super) fn parse(text: &str) -> Option<Named> {
        let words: Vec<&str> = text.split(' ').collect();
        let [
            input,
            output,
            order,
            m,
            n,
            k,
            of_a,
            of_b,
            of_c,
            epilogue,
            result,
        ] = words[..]
        else {
            return None;
        };
        let number = |word: &str| word.parse().ok();
        let place = |words: &[&str], word| words.iter().position(|known| *known == word);
        Some(Named {
            types: [DType::from_name(input)?, DType::from_name(output)?],
            transposed: ORDERS.into_iter().find(|(word, _)| *word == order)?.1,
            sizes: [number(m)?, number(n)?, number(k)?],
            leading: [number(of_a)?, number(of_b)?, number(of_c)?],
            epilogue: place(&EPILOGUES, epilogue)?,
            result: place(&RESULTS, result)?,
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [input, output] = self.types;
        let [a, b] = self
            .transposed
            .map(|transposed| if transposed { 't' } else { 'n' });
        write!(f, "{input} {output} {a}{b}")?;
        for size in self.sizes.iter().chain(&self.leading) {
            write!(f, " {size}")?;
        }
        write!(f, " {} {}", EPILOGUES[self.epilogue], RESULTS[self.result])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for text in [
            "bf16 bf16 tn 1024 4096 2048 1024 4096 4096 plain sets",
            "f64 f64 nn 1 2 3 4 5 6 plain adds",
            "bf16 f32 nt 8 8 8 8 8 8 bias sets",
            "f32 f32 tt 4 5 6 7 8 9 gelu sets",
            "f16 f16 nn 4 5 6 7 8 9 bias-gelu adds",
        ] {
            assert_eq!(
                Named::parse(text).map(|named| named.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in [
            "",
            "bf16 bf16 tn 1024 4096 2048 plain sets",
            "bf16 int tn 1 2 3 1 2 3 plain sets",
            "f32 f32 xx 1 2 3 1 2 3 plain sets",
            "f32 f32 nn 1 2 -3 1 2 3 plain sets",
            "f32 f32 nn 1 2 3 1 2 3 relu sets",
            "f32 f32 nn 1 2 3 1 2 3 plain keeps",
        ] {
            assert_eq!(Named::parse(text), None, "{text}");
        }
    }
}
