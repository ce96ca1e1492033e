//! The properties of a GEMM that its algorithms depend on.

use crate::table::{
    Address, ColumnMajor, EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, EPILOGUE_NONE, Lt,
};
use hal::{DType, Epilogue};

/// Bytes that every address must be aligned to. We ask for algorithms that rely on no more.
pub(super) const ALIGNMENT: usize = 16;
/// The leading dimension of GELU's input must be a multiple of this, according to cuBLASLt's header.
const SUM_LEADING: i32 = 8;

/// The shape of a GEMM and its epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    transposed: [bool; 2],
    sizes: [i32; 3],
    leading: [i32; 3],
    types: [DType; 2],
    epilogue: u32,
}

impl Shape {
    /// The shape, or `None` if no library supports the GEMM: because of its types, an address, or a batch.
    pub(super) fn of(matmul: &ColumnMajor, epilogue: &Epilogue) -> Option<Shape> {
        let [bias, sum] = addresses(epilogue);
        let number = match (bias, sum) {
            (Some(_), None) => EPILOGUE_BIAS,
            (None, Some(_)) => EPILOGUE_GELU,
            (Some(_), Some(_)) => EPILOGUE_GELU_BIAS,
            (None, None) => EPILOGUE_NONE,
        };
        let types = [matmul.input, matmul.output];
        let mut all = matmul.addresses.into_iter().chain(bias).chain(sum);
        let fits = types.iter().all(|&dtype| Lt::data_type(dtype).is_some())
            && all.all(|address| address.is_multiple_of(ALIGNMENT as Address))
            && (sum.is_none() || matmul.m % SUM_LEADING == 0)
            && matmul.batch == 1;
        fits.then_some(Shape {
            transposed: matmul.transposed,
            sizes: [matmul.m, matmul.n, matmul.k],
            leading: matmul.leading,
            types,
            epilogue: number,
        })
    }

    /// Whether A and B are transposed.
    pub(super) fn transposed(&self) -> [bool; 2] {
        self.transposed
    }

    /// Rows and columns of C, and the contracted size, column-major.
    pub(super) fn sizes(&self) -> [i32; 3] {
        self.sizes
    }

    /// Leading dimensions of A, B and C.
    pub(super) fn leading(&self) -> [i32; 3] {
        self.leading
    }

    /// Type of A and B.
    pub(super) fn input(&self) -> DType {
        self.types[0]
    }

    /// Type of C and of the epilogue's operands.
    pub(super) fn output(&self) -> DType {
        self.types[1]
    }

    /// Whether there is a bias.
    pub(super) fn has_bias(&self) -> bool {
        [EPILOGUE_BIAS, EPILOGUE_GELU_BIAS].contains(&self.epilogue)
    }

    /// Whether the input of GELU is stored.
    pub(super) fn has_sum(&self) -> bool {
        [EPILOGUE_GELU, EPILOGUE_GELU_BIAS].contains(&self.epilogue)
    }

    /// The library's number for the epilogue.
    pub(super) fn epilogue(&self) -> u32 {
        self.epilogue
    }
}

/// Addresses of the bias and of the stored input of GELU.
pub(super) fn addresses(epilogue: &Epilogue) -> [Option<Address>; 2] {
    match epilogue {
        Epilogue::None => [None, None],
        Epilogue::Bias { bias } => [Some(bias.addr), None],
        Epilogue::Gelu { bias, sum } => [bias.map(|bias| bias.addr), Some(sum.addr)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::RawSlice;

    fn slice(addr: u64) -> RawSlice {
        RawSlice {
            addr,
            len: 0,
            dtype: DType::Bf16,
        }
    }

    #[test]
    fn what_lies_askew_or_has_other_types_is_left_to_kernels() {
        let matmul = ColumnMajor {
            transposed: [false, true],
            m: 24,
            n: 5,
            k: 7,
            addresses: [32, 64, 96],
            leading: [24, 5, 24],
            strides: [0; 3],
            batch: 1,
            input: DType::Bf16,
            output: DType::Bf16,
            alpha: 1.0,
            beta: 0.0,
        };
        let gelu = Epilogue::Gelu {
            bias: Some(slice(128)),
            sum: slice(160),
        };
        let shape = Shape::of(&matmul, &gelu).unwrap();
        assert_eq!(
            (shape.epilogue(), shape.sizes()),
            (EPILOGUE_GELU_BIAS, [24, 5, 7])
        );
        let narrow = ColumnMajor { m: 20, ..matmul };
        assert_eq!(Shape::of(&narrow, &gelu), None);
        assert!(Shape::of(&narrow, &Epilogue::Bias { bias: slice(128) }).is_some());
        let plain = Shape::of(&narrow, &Epilogue::None).unwrap();
        assert!(!plain.has_bias() && !plain.has_sum());
        assert_eq!(
            Shape::of(&matmul, &Epilogue::Bias { bias: slice(130) }),
            None
        );
        assert_eq!(
            Shape::of(
                &ColumnMajor {
                    input: DType::F64,
                    ..matmul
                },
                &gelu
            ),
            None
        );
        assert_eq!(Shape::of(&ColumnMajor { batch: 2, ..matmul }, &gelu), None);
    }
}
