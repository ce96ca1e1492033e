//! The GEMMs that end with a bias and GELU in the vendor's library: those that it supports, unless fusing is switched
//! off.
//!
//! The contract suite checks their numbers.

use crate::{CUDA, ROCM};
use gpu::Options;
use hal::{Batch, DType, Epilogue, EpiloguePlacement, Gemm, Matrix, RawSlice, Result};

type Open = fn(Options) -> Result<std::sync::Arc<dyn hal::Device>>;

// Only the addresses matter; nothing reads the memory.
fn slice(addr: u64, dtype: DType) -> RawSlice {
    RawSlice {
        addr,
        len: 16 * 16,
        dtype,
    }
}

fn gemm(dtype: DType, columns: usize, bias: u64) -> Gemm {
    let matrix = |addr, leading| Matrix {
        data: slice(addr, dtype),
        leading,
        transposed: false,
    };
    let epilogue = Epilogue::Gelu {
        bias: Some(slice(bias, dtype)),
        sum: slice(1 << 14, dtype),
    };
    Gemm {
        m: 16,
        n: columns,
        k: 16,
        leaf: hal::sums::leaf(16),
        a: matrix(1 << 11, 16),
        b: matrix(1 << 12, columns),
        c: matrix(1 << 13, columns),
        alpha: 1.0,
        beta: 0.0,
        batch: Batch::ONE,
        epilogue,
    }
}

#[test]
fn the_library_takes_what_it_can() {
    for (way, open) in [(CUDA, cuda::open as Open), (ROCM, rocm::open as Open)] {
        if !way.is_ready("epilogues") {
            continue;
        }
        let takes = |options: Options, gemm: &Gemm| {
            open(options)
                .and_then(|device| device.create_blas()?.fuses(gemm))
                .unwrap()
        };
        let fused = |gemm: &Gemm| takes(Options::default(), gemm);
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            assert!(fused(&gemm(dtype, 16, 1 << 15)), "{}: {dtype}", way.vendor);
        }
        assert!(
            !fused(&gemm(DType::F64, 16, 1 << 15)),
            "{}: f64",
            way.vendor
        );
        assert!(
            !fused(&gemm(DType::F32, 12, 1 << 15)),
            "{}: rows that are no multiple of 8",
            way.vendor
        );
        assert!(
            !fused(&gemm(DType::F32, 16, (1 << 15) + 4)),
            "{}: a bias that lies askew",
            way.vendor
        );
        let separate = Options {
            settings: hal::DeviceSettings {
                epilogues: EpiloguePlacement::Separate,
                ..hal::DeviceSettings::default()
            },
            ..Options::default()
        };
        assert!(
            !takes(separate, &gemm(DType::F32, 16, 1 << 15)),
            "{}: switched off",
            way.vendor
        );
    }
}
