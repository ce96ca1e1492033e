//! Our declarations against AMD's own headers, for every generation whose headers are given.
//!
//! `FASCICLE_ROCM_HEADERS` lists include folders, one for each generation, separated by colons.

#[path = "../../gpu/tests/support/declarations.rs"]
mod declarations;

use declarations::Part;
use fascicle_rocm::{hip, hipblas, hipblaslt};
use gpu::table::{
    BlasTypes, CAPTURE_THREAD_LOCAL, EVENT_DEFAULT, LOCKED_PORTABLE, NO_DEVICE, NOT_READY,
    NOT_SUPPORTED, OUT_OF_MEMORY, PINNED_PORTABLE, STREAM_NON_BLOCKING,
};

fn parts() -> Vec<Part> {
    let runtime = [
        ("hipErrorOutOfMemory", OUT_OF_MEMORY),
        ("hipErrorNoDevice", NO_DEVICE),
        ("hipErrorNotReady", NOT_READY),
        (
            "hipDeviceAttributeComputeCapabilityMajor",
            hip::VALUES.capability_major,
        ),
        (
            "hipDeviceAttributeComputeCapabilityMinor",
            hip::VALUES.capability_minor,
        ),
        (
            "hipDeviceAttributeMultiprocessorCount",
            hip::VALUES.multiprocessors,
        ),
        (
            "hipDeviceAttributeMaxSharedMemoryPerBlock",
            hip::VALUES.shared_bytes_per_block,
        ),
        ("hipDeviceAttributeWarpSize", hip::VALUES.warp),
        ("hipStreamNonBlocking", STREAM_NON_BLOCKING as i32),
        ("hipEventDefault", EVENT_DEFAULT as i32),
        ("hipHostMallocPortable", PINNED_PORTABLE as i32),
        ("hipHostRegisterPortable", LOCKED_PORTABLE as i32),
        ("hipErrorNotSupported", NOT_SUPPORTED),
        ("hipMemcpyHostToDevice", hip::COPY_TO_DEVICE),
        ("hipMemcpyDeviceToHost", hip::COPY_TO_HOST),
        ("hipMemcpyDeviceToDevice", hip::COPY_ON_DEVICE),
        ("hipStreamCaptureModeThreadLocal", CAPTURE_THREAD_LOCAL),
    ];
    let hip = [hip::Hip::declarations(), hip::NAMES.declarations()];
    let [as_stored, transposed] = hipblas::VALUES.operations;
    let matmuls = [
        ("HIPBLAS_OP_N", as_stored),
        ("HIPBLAS_OP_T", transposed),
        ("HIPBLAS_GEMM_DEFAULT", hipblas::VALUES.default_algorithm),
        (
            "HIPBLAS_ATOMICS_NOT_ALLOWED",
            hipblas::VALUES.atomics_not_allowed,
        ),
        ("HIPBLAS_STATUS_ALLOC_FAILED", hipblas::ALLOC_FAILED),
        ("HIPBLAS_STATUS_INVALID_VALUE", hipblas::INVALID_VALUE),
        (
            "HIPBLAS_STATUS_NOT_SUPPORTED",
            hipblas::VALUES.not_supported,
        ),
        ("HIP_R_16F", hipblas::HIP_TYPES.f16),
        ("HIP_R_16BF", hipblas::HIP_TYPES.bf16),
        ("HIP_R_32F", hipblas::HIP_TYPES.f32),
        ("HIP_R_64F", hipblas::HIP_TYPES.f64),
        ("HIPBLAS_COMPUTE_32F", hipblas::HIP_TYPES.compute_f32),
        ("HIPBLAS_COMPUTE_64F", hipblas::HIP_TYPES.compute_f64),
    ];
    let mut blas = hipblas::NAMES_V2.declarations();
    blas.retain(|(name, _)| name.ends_with("_v2"));
    let blas = [
        hipblas::Hipblas::declarations(),
        hipblas::NAMES.declarations(),
        blas,
    ];
    // The library's own names for types stand for its own numbers before hipBLAS 3, and for HIP's from then on.
    let types = |types: BlasTypes| {
        [
            ("16F", types.f16),
            ("16B", types.bf16),
            ("32F", types.f32),
            ("64F", types.f64),
        ]
    };
    let of = |generations: &str, all: BlasTypes| {
        types(all).map(|(name, number)| format!("!({generations}) || HIPBLAS_R_{name} == {number}"))
    };
    let truths = [
        of("hipblasVersionMajor < 3", hipblas::LEGACY_TYPES),
        of("hipblasVersionMajor >= 3", hipblas::HIP_TYPES),
    ];
    vec![
        declarations::epilogues(
            "hipblaslt/hipblaslt.h",
            ["HIPBLASLT", "hipblasLt"],
            hipblaslt::HipblasLt::declarations(),
            &hipblaslt::NAMES,
            &hipblaslt::VALUES,
        ),
        Part {
            // From HIP 6.0 on; before, the name without the suffix has this layout.
            absent: &["hipGetDevicePropertiesR0600"],
            ..Part::new("hip/hip_runtime_api.h", hip.concat(), &runtime)
        },
        Part {
            truths: truths.concat(),
            // Later than hipBLAS 1: types of its own stood for HIP's, and `_v2` came between.
            absent: &[
                "hipblasSetWorkspace",
                "hipblasGemmEx_v2",
                "hipblasGemmStridedBatchedEx_v2",
                "HIP_R_16F",
                "HIP_R_16BF",
                "HIP_R_32F",
                "HIP_R_64F",
                "HIPBLAS_COMPUTE_32F",
                "HIPBLAS_COMPUTE_64F",
            ],
            ..Part::new("hipblas/hipblas.h", blas.concat(), &matmuls)
        },
        declarations::collectives("rccl/rccl.h"),
    ]
}

#[test]
fn the_headers_agree() {
    let defines = [
        "-D__HIP_PLATFORM_AMD__=1",
        "-D__HIP_DISABLE_CPP_FUNCTIONS__=1",
    ];
    declarations::compare("FASCICLE_ROCM_HEADERS", &defines, &parts());
}
