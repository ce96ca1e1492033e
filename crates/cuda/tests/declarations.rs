//! Our declarations against NVIDIA's own headers.
//!
//! `FASCICLE_CUDA_HEADERS` lists include folders, separated by colons.

#[path = "../../rccl-sys/tests/support/declarations.rs"]
mod declarations;

use declarations::Part;
use fascicle_cuda::sys::{blas, driver, lt};
use gpu::table::{EPILOGUE_BIAS, EPILOGUE_GELU, EPILOGUE_GELU_BIAS, lt::MAX_WORKSPACE};

// C++ has other ones, which take the type of the sums as a data type.
const GEMM_EX: &str = "cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, \
    const void*, const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, \
    int, cublasComputeType_t, cublasGemmAlgo_t)";

const GEMM_STRIDED_BATCHED_EX: &str = "cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, \
    int, int, const void*, const void*, cudaDataType, int, long long, const void*, cudaDataType, int, long long, \
    const void*, void*, cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t)";

fn parts() -> Vec<Part> {
    let runtime = [
        ("CUDA_ERROR_OUT_OF_MEMORY", driver::ERROR_OUT_OF_MEMORY),
        ("CUDA_ERROR_NO_DEVICE", driver::ERROR_NO_DEVICE),
        ("CUDA_ERROR_NOT_READY", driver::ERROR_NOT_READY),
        (
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
            driver::ATTRIBUTE_SHARED_PER_BLOCK,
        ),
        ("CU_DEVICE_ATTRIBUTE_WARP_SIZE", driver::ATTRIBUTE_WARP_SIZE),
        (
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
            driver::ATTRIBUTE_MULTIPROCESSORS,
        ),
        (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
            driver::ATTRIBUTE_CAPABILITY_MAJOR,
        ),
        (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
            driver::ATTRIBUTE_CAPABILITY_MINOR,
        ),
        ("CU_STREAM_NON_BLOCKING", driver::STREAM_NON_BLOCKING as i32),
        ("CU_EVENT_DEFAULT", driver::EVENT_DEFAULT as i32),
        ("CU_MEMHOSTALLOC_PORTABLE", driver::HOST_PORTABLE as i32),
        (
            "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
            driver::FUNCTION_MAX_SHARED,
        ),
        (
            "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL",
            driver::CAPTURE_THREAD_LOCAL,
        ),
    ];
    let products = [
        ("CUBLAS_STATUS_ALLOC_FAILED", blas::ALLOC_FAILED),
        ("CUBLAS_OP_N", blas::OP_N),
        ("CUBLAS_OP_T", blas::OP_T),
        ("CUBLAS_COMPUTE_32F", blas::COMPUTE_32F),
        ("CUBLAS_COMPUTE_64F", blas::COMPUTE_64F),
        ("CUBLAS_GEMM_DEFAULT", blas::GEMM_DEFAULT),
        (
            "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION",
            blas::MATH_FULL_REDUCTION,
        ),
        ("CUBLAS_ATOMICS_NOT_ALLOWED", blas::ATOMICS_NOT_ALLOWED),
    ];
    let [of_a, of_b, of_c, of_d] = lt::VALUES.alignments.expect("cuBLASLt takes alignments");
    let (reduction, scheme) = lt::VALUES
        .reduction
        .expect("cuBLASLt takes reduction schemes");
    let epilogues = [
        ("CUBLASLT_MATMUL_DESC_TRANSA", lt::VALUES.transposed[0]),
        ("CUBLASLT_MATMUL_DESC_TRANSB", lt::VALUES.transposed[1]),
        ("CUBLASLT_MATMUL_DESC_EPILOGUE", lt::VALUES.epilogue),
        ("CUBLASLT_MATMUL_DESC_BIAS_POINTER", lt::VALUES.bias),
        ("CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE", lt::VALUES.bias_type),
        ("CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER", lt::VALUES.sum),
        (
            "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD",
            lt::VALUES.sum_leading,
        ),
        ("CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", MAX_WORKSPACE),
        ("CUBLASLT_EPILOGUE_BIAS", EPILOGUE_BIAS as i32),
        ("CUBLASLT_EPILOGUE_GELU_AUX", EPILOGUE_GELU as i32),
        ("CUBLASLT_EPILOGUE_GELU_AUX_BIAS", EPILOGUE_GELU_BIAS as i32),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", of_a),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES", of_b),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES", of_c),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES", of_d),
        ("CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK", reduction),
        ("CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE", scheme as i32),
    ];
    vec![
        Part {
            truths: vec![
                format!(
                    "offsetof(cublasLtMatmulHeuristicResult_t, state) == {}",
                    lt::VALUES.status_offset
                ),
                "offsetof(cublasLtMatmulHeuristicResult_t, algo) == 0".into(),
                "sizeof(cublasLtMatmulHeuristicResult_t) <= 256".into(),
                format!("CUBLAS_STATUS_NOT_SUPPORTED == {}", lt::VALUES.refusals[0]),
            ],
            ..Part::new("cublasLt.h", lt::CublasLt::declarations(), &epilogues)
        },
        Part::new("cuda.h", driver::Driver::declarations(), &runtime),
        Part {
            overloaded: &[
                ("cublasGemmEx", GEMM_EX),
                ("cublasGemmStridedBatchedEx", GEMM_STRIDED_BATCHED_EX),
            ],
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
