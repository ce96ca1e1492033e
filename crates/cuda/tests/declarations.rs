//! Our declarations against NVIDIA's own headers.
//!
//! `FASCICLE_CUDA_HEADERS` lists include folders, separated by colons.

#[path = "../../rccl-sys/tests/support/declarations.rs"]
mod declarations;

use declarations::Part;
use fascicle_cuda::sys::{blas, driver};

/// C++ has another one, which takes the type of the sums as a data type.
const GEMM_EX: &str = "cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, \
    const void*, const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, \
    int, cublasComputeType_t, cublasGemmAlgo_t)";

fn parts() -> Vec<Part> {
    let runtime = [
        ("CUDA_ERROR_OUT_OF_MEMORY", driver::ERROR_OUT_OF_MEMORY),
        ("CUDA_ERROR_NO_DEVICE", driver::ERROR_NO_DEVICE),
        ("CUDA_ERROR_NOT_READY", driver::ERROR_NOT_READY),
        ("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK", driver::ATTRIBUTE_SHARED_PER_BLOCK),
        ("CU_DEVICE_ATTRIBUTE_WARP_SIZE", driver::ATTRIBUTE_WARP_SIZE),
        ("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", driver::ATTRIBUTE_MULTIPROCESSORS),
        ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", driver::ATTRIBUTE_CAPABILITY_MAJOR),
        ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", driver::ATTRIBUTE_CAPABILITY_MINOR),
        ("CU_STREAM_NON_BLOCKING", driver::STREAM_NON_BLOCKING as i32),
        ("CU_EVENT_DEFAULT", driver::EVENT_DEFAULT as i32),
        ("CU_MEMHOSTALLOC_PORTABLE", driver::HOST_PORTABLE as i32),
        ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", driver::FUNCTION_MAX_SHARED),
        ("CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", driver::CAPTURE_THREAD_LOCAL),
    ];
    let products = [
        ("CUBLAS_STATUS_ALLOC_FAILED", blas::ALLOC_FAILED),
        ("CUBLAS_OP_N", blas::OP_N),
        ("CUBLAS_OP_T", blas::OP_T),
        ("CUBLAS_COMPUTE_32F", blas::COMPUTE_32F),
        ("CUBLAS_COMPUTE_64F", blas::COMPUTE_64F),
        ("CUBLAS_GEMM_DEFAULT", blas::GEMM_DEFAULT),
        ("CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION", blas::MATH_FULL_REDUCTION),
        ("CUBLAS_ATOMICS_NOT_ALLOWED", blas::ATOMICS_NOT_ALLOWED),
    ];
    vec![
        Part::new("cuda.h", driver::Driver::declarations(), &runtime),
        Part {
            overloaded: &[("cublasGemmEx", GEMM_EX)],
            ..Part::new("cublas_api.h", blas::Cublas::declarations(), &products)
        },
        declarations::collectives("nccl.h"),
    ]
}

#[test]
fn the_headers_agree() {
    // cublas_v2.h, which programs include, defines it before it includes the functions' file.
    declarations::compare("FASCICLE_CUDA_HEADERS", &["-DCUBLASAPI="], &parts());
}
