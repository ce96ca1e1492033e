//! Our declarations against NVIDIA's own headers.
//!
//! `FASCICLE_CUDA_HEADERS` lists include folders, separated by colons.

#[path = "../../gpu/tests/support/declarations.rs"]
mod declarations;

use declarations::Part;
use fascicle_cuda::{cublas, cublaslt, driver};
use gpu::table::{
    CAPTURE_THREAD_LOCAL, EVENT_DEFAULT, LOCKED_PORTABLE, NO_DEVICE, NOT_READY, NOT_SUPPORTED,
    OUT_OF_MEMORY, PINNED_PORTABLE, STREAM_NON_BLOCKING,
};

// C++ has overloads that take the type of the sums as a data type.
const GEMM_EX: &str = "cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, \
    const void*, const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, \
    int, cublasComputeType_t, cublasGemmAlgo_t)";

const GEMM_STRIDED_BATCHED_EX: &str = "cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, \
    int, int, const void*, const void*, cudaDataType, int, long long, const void*, cudaDataType, int, long long, \
    const void*, void*, cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t)";

fn parts() -> Vec<Part> {
    let runtime = [
        ("CUDA_ERROR_OUT_OF_MEMORY", OUT_OF_MEMORY),
        ("CUDA_ERROR_NO_DEVICE", NO_DEVICE),
        ("CUDA_ERROR_NOT_READY", NOT_READY),
        (
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
            driver::VALUES.shared_bytes_per_block,
        ),
        ("CU_DEVICE_ATTRIBUTE_WARP_SIZE", driver::VALUES.warp),
        (
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
            driver::VALUES.multiprocessors,
        ),
        (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
            driver::VALUES.capability_major,
        ),
        (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
            driver::VALUES.capability_minor,
        ),
        ("CU_STREAM_NON_BLOCKING", STREAM_NON_BLOCKING as i32),
        ("CU_EVENT_DEFAULT", EVENT_DEFAULT as i32),
        ("CU_MEMHOSTALLOC_PORTABLE", PINNED_PORTABLE as i32),
        ("CU_MEMHOSTREGISTER_PORTABLE", LOCKED_PORTABLE as i32),
        ("CUDA_ERROR_NOT_SUPPORTED", NOT_SUPPORTED),
        (
            "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
            driver::FUNCTION_MAX_SHARED,
        ),
        ("CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", CAPTURE_THREAD_LOCAL),
    ];
    let driver = [driver::Driver::declarations(), driver::NAMES.declarations()];
    let [as_stored, transposed] = cublas::VALUES.operations;
    let matmuls = [
        ("CUBLAS_STATUS_ALLOC_FAILED", cublas::ALLOC_FAILED),
        ("CUBLAS_STATUS_NOT_SUPPORTED", cublas::VALUES.not_supported),
        ("CUBLAS_OP_N", as_stored),
        ("CUBLAS_OP_T", transposed),
        ("CUBLAS_COMPUTE_32F", cublas::TYPES.compute_f32),
        ("CUBLAS_COMPUTE_64F", cublas::TYPES.compute_f64),
        ("CUBLAS_GEMM_DEFAULT", cublas::VALUES.default_algorithm),
        (
            "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION",
            cublas::MATH_FULL_REDUCTION,
        ),
        (
            "CUBLAS_ATOMICS_NOT_ALLOWED",
            cublas::VALUES.atomics_not_allowed,
        ),
    ];
    let types = [
        ("16F", cublas::TYPES.f16),
        ("16BF", cublas::TYPES.bf16),
        ("32F", cublas::TYPES.f32),
        ("64F", cublas::TYPES.f64),
    ];
    let types = types.map(|(name, number)| format!("CUDA_R_{name} == {number}"));
    let blas = [cublas::Cublas::declarations(), cublas::NAMES.declarations()];
    vec![
        declarations::epilogues(
            "cublasLt.h",
            ["CUBLASLT", "cublasLt"],
            cublaslt::CublasLt::declarations(),
            &cublaslt::NAMES,
            &cublaslt::VALUES,
        ),
        Part::new("cuda.h", driver.concat(), &runtime),
        Part {
            truths: types.into(),
            overloaded: &[
                ("cublasGemmEx", GEMM_EX),
                ("cublasGemmStridedBatchedEx", GEMM_STRIDED_BATCHED_EX),
            ],
            ..Part::new("cublas_api.h", blas.concat(), &matmuls)
        },
        declarations::collectives("nccl.h"),
    ]
}

#[test]
fn the_headers_agree() {
    // cublas_v2.h, which programs include, defines it before it includes the functions' file.
    declarations::compare("FASCICLE_CUDA_HEADERS", &["-DCUBLASAPI="], &parts());
}
