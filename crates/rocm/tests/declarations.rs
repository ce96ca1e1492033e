//! Our declarations against AMD's own headers, for every generation whose headers are given.
//!
//! `FASCICLE_ROCM_HEADERS` lists include folders, one for each generation, separated by colons.

#[path = "../../rccl-sys/tests/support/declarations.rs"]
mod declarations;

use declarations::Part;
use fascicle_rocm::sys::{blas, hip, lt};
use gpu::table::{EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, lt::MAX_WORKSPACE};

fn parts() -> Vec<Part> {
    let runtime = [
        ("hipErrorOutOfMemory", hip::ERROR_OUT_OF_MEMORY),
        ("hipErrorNoDevice", hip::ERROR_NO_DEVICE),
        ("hipErrorNotReady", hip::ERROR_NOT_READY),
        (
            "hipDeviceAttributeComputeCapabilityMajor",
            hip::ATTRIBUTE_CAPABILITY_MAJOR,
        ),
        (
            "hipDeviceAttributeComputeCapabilityMinor",
            hip::ATTRIBUTE_CAPABILITY_MINOR,
        ),
        (
            "hipDeviceAttributeMultiprocessorCount",
            hip::ATTRIBUTE_MULTIPROCESSORS,
        ),
        (
            "hipDeviceAttributeMaxSharedMemoryPerBlock",
            hip::ATTRIBUTE_SHARED_PER_BLOCK,
        ),
        ("hipDeviceAttributeWarpSize", hip::ATTRIBUTE_WARP_SIZE),
        ("hipStreamNonBlocking", hip::STREAM_NON_BLOCKING as i32),
        ("hipEventDefault", hip::EVENT_DEFAULT as i32),
        ("hipHostMallocPortable", hip::HOST_PORTABLE as i32),
        ("hipMemcpyHostToDevice", hip::COPY_TO_DEVICE),
        ("hipMemcpyDeviceToHost", hip::COPY_TO_HOST),
        ("hipMemcpyDeviceToDevice", hip::COPY_ON_DEVICE),
        ("hipStreamCaptureModeThreadLocal", hip::CAPTURE_THREAD_LOCAL),
    ];
    let products = [
        ("HIPBLAS_OP_N", blas::OP_N),
        ("HIPBLAS_OP_T", blas::OP_T),
        ("HIPBLAS_GEMM_DEFAULT", blas::GEMM_DEFAULT),
        ("HIPBLAS_ATOMICS_NOT_ALLOWED", blas::ATOMICS_NOT_ALLOWED),
        ("HIPBLAS_STATUS_ALLOC_FAILED", blas::ALLOC_FAILED),
        ("HIPBLAS_STATUS_INVALID_VALUE", blas::INVALID_VALUE),
        ("HIPBLAS_STATUS_NOT_SUPPORTED", blas::NOT_SUPPORTED),
        ("HIP_R_16F", blas::HIP_TYPES.f16),
        ("HIP_R_16BF", blas::HIP_TYPES.bf16),
        ("HIP_R_32F", blas::HIP_TYPES.f32),
        ("HIP_R_64F", blas::HIP_TYPES.f64),
        ("HIPBLAS_COMPUTE_32F", blas::HIP_TYPES.compute_f32),
        ("HIPBLAS_COMPUTE_64F", blas::HIP_TYPES.compute_f64),
    ];
    let epilogues = [
        ("HIPBLASLT_MATMUL_DESC_TRANSA", lt::VALUES.transposed[0]),
        ("HIPBLASLT_MATMUL_DESC_TRANSB", lt::VALUES.transposed[1]),
        ("HIPBLASLT_MATMUL_DESC_EPILOGUE", lt::VALUES.epilogue),
        ("HIPBLASLT_MATMUL_DESC_BIAS_POINTER", lt::VALUES.bias),
        ("HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE", lt::VALUES.bias_type),
        ("HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER", lt::VALUES.sum),
        (
            "HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD",
            lt::VALUES.sum_leading,
        ),
        ("HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", MAX_WORKSPACE),
        ("HIPBLASLT_EPILOGUE_BIAS", EPILOGUE_BIAS as i32),
        ("HIPBLASLT_EPILOGUE_GELU_AUX", EPILOGUE_GELU as i32),
        (
            "HIPBLASLT_EPILOGUE_GELU_AUX_BIAS",
            EPILOGUE_GELU_BIAS as i32,
        ),
    ];
    // The library's own names for types stand for its own numbers before hipBLAS 3, and for HIP's from then on.
    let types = |types: blas::Types| {
        [
            ("16F", types.f16),
            ("16B", types.bf16),
            ("32F", types.f32),
            ("64F", types.f64),
        ]
    };
    let of = |generations: &str, all: blas::Types| {
        types(all).map(|(name, number)| format!("!({generations}) || HIPBLAS_R_{name} == {number}"))
    };
    let truths = [
        of("hipblasVersionMajor < 3", blas::LEGACY_TYPES),
        of("hipblasVersionMajor >= 3", blas::HIP_TYPES),
    ];
    vec![
        Part {
            truths: vec![
                format!(
                    "offsetof(hipblasLtMatmulHeuristicResult_t, state) == {}",
                    lt::VALUES.status_offset
                ),
                "offsetof(hipblasLtMatmulHeuristicResult_t, algo) == 0".into(),
                "sizeof(hipblasLtMatmulHeuristicResult_t) <= 256".into(),
            ],
            ..Part::new(
                "hipblaslt/hipblaslt.h",
                lt::HipblasLt::declarations(),
                &epilogues,
            )
        },
        Part::new("hip/hip_runtime_api.h", hip::Hip::declarations(), &runtime),
        Part {
            truths: truths.concat(),
            ..Part::new(
                "hipblas/hipblas.h",
                blas::Hipblas::declarations(),
                &products,
            )
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
