// hipBLAS. The types of GemmEx differ: its own (`hipblasDatatype_t`) up to hipBLAS 1; HIP's in 2 for the functions that end
// in `_v2`; HIP's everywhere from 3 on.
#include "numbers.h"

using namespace emulator;

EXPORT Result hipblasCreate(void** handle) {
    BLAS(1, { return create_blas(handle); });
}

EXPORT Result hipblasDestroy(void* handle) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_blas(handle)); });
}

EXPORT const char* hipblasStatusToString(Result status) {
    constexpr const char* names[] = {
        "HIPBLAS_STATUS_SUCCESS",          "HIPBLAS_STATUS_NOT_INITIALIZED",   "HIPBLAS_STATUS_ALLOC_FAILED",
        "HIPBLAS_STATUS_INVALID_VALUE",    "HIPBLAS_STATUS_MAPPING_ERROR",     "HIPBLAS_STATUS_EXECUTION_FAILED",
        "HIPBLAS_STATUS_INTERNAL_ERROR",   "HIPBLAS_STATUS_NOT_SUPPORTED",     "HIPBLAS_STATUS_ARCH_MISMATCH",
        "HIPBLAS_STATUS_HANDLE_IS_NULLPTR", "HIPBLAS_STATUS_INVALID_ENUM",     "HIPBLAS_STATUS_UNKNOWN",
    };
    return status >= 0 && status < 12 ? names[status] : "unknown hipBLAS status";
}

EXPORT Result hipblasSetStream(void* handle, void* stream) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        blas->stream = stream;
        return Outcome::Success;
    });
}

EXPORT Result hipblasGetStream(void* handle, void** stream) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (!stream) return Outcome::InvalidValue;
        *stream = blas->stream;
        return Outcome::Success;
    });
}

EXPORT Result hipblasSetPointerMode(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (mode != 0 && mode != 1) return Outcome::InvalidEnum;
        blas->scalars_on_device = mode == 1;
        return Outcome::Success;
    });
}

EXPORT Result hipblasSetAtomicsMode(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (mode != 0 && mode != 1) return Outcome::InvalidEnum;
        blas->atomics = mode;
        return Outcome::Success;
    });
}

#if EMULATOR_HIP_VERSION >= 60000000
EXPORT Result hipblasSetMathMode(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        blas->math_mode = mode;
        return Outcome::Success;
    });
}
#endif

#if EMULATOR_HIP_VERSION >= 70000000
EXPORT Result hipblasSetWorkspace(void* handle, void* workspace, std::size_t bytes) {
    BLAS(internal_error, { return set_workspace(handle, workspace, bytes); });
}
#endif

// hipblasDatatype_t.
[[maybe_unused]] static bool own_type(int number, Type& type) {
    switch (number) {
        case 150: type = Type::F16; return true;
        case 151: type = Type::F32; return true;
        case 152: type = Type::F64; return true;
        case 168: type = Type::Bf16; return true;
        default: return false;
    }
}

struct Matrix {
    const void* data;
    int type;
    int leading;
    long long stride;
};

using TypeOf = bool (*)(int, Type&);

// HIPBLAS_OP_N is 111, _T 112, _C 113.
static Outcome gemm(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const Matrix& a, const Matrix& b,
                    const void* beta, const Matrix& c, int batch, int compute, TypeOf type_of, TypeOf compute_of) {
    BlasRef blas;
    TRY(find_blas(handle, blas));
    Call call{};
    auto& product = call.product;
    if (op_a < 111 || op_a > 113 || op_b < 111 || op_b > 113) return misuse(Outcome::InvalidEnum, "operations %d and %d", op_a, op_b);
    if (!type_of(a.type, product.a.type) || !type_of(b.type, product.b.type) || !type_of(c.type, product.c_type))
        return misuse(Outcome::InvalidEnum, "types %d, %d, %d: not those of this function in this version", a.type, b.type, c.type);
    if (!compute_of(compute, call.scalar)) return misuse(Outcome::InvalidEnum, "compute type %d", compute);
    if (call.scalar == Type::Bf16 || (call.scalar == Type::F64) != (product.c_type == Type::F64))
        return misuse(Outcome::NotSupported, "compute type %d with c of type %d", compute, c.type);
    product = {m, n, k, 0, 0, {a.data, product.a.type, a.leading, op_a != 111}, {b.data, product.b.type, b.leading, op_b != 111},
               const_cast<void*>(c.data), product.c_type, c.leading};
    call.alpha = alpha;
    call.beta = beta;
    call.a_stride = a.stride;
    call.b_stride = b.stride;
    call.c_stride = c.stride;
    call.batch = batch;
    return queue_products(blas, call);
}

#define GEMM(name, type_of, compute_of)                                                                                      \
    EXPORT Result name(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a, int a_type,  \
                       int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,          \
                       int compute, int) {                                                                                   \
        BLAS(5, {                                                                                                            \
            return gemm(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, 0}, {b, b_type, ldb, 0}, beta,                  \
                        {c, c_type, ldc, 0}, 1, compute, type_of, compute_of);                                               \
        });                                                                                                                  \
    }

#define GEMM_BATCHED(name, type_of, compute_of)                                                                              \
    EXPORT Result name(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a, int a_type,  \
                       int lda, long long a_stride, const void* b, int b_type, int ldb, long long b_stride,                  \
                       const void* beta, void* c, int c_type, int ldc, long long c_stride, int batch, int compute, int) {    \
        BLAS(5, {                                                                                                            \
            return gemm(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, a_stride}, {b, b_type, ldb, b_stride}, beta,    \
                        {c, c_type, ldc, c_stride}, batch, compute, type_of, compute_of);                                    \
        });                                                                                                                  \
    }

#if EMULATOR_HIP_VERSION < 70000000
GEMM(hipblasGemmEx, own_type, own_type)
GEMM_BATCHED(hipblasGemmStridedBatchedEx, own_type, own_type)
#else
GEMM(hipblasGemmEx, hip_type, compute_type)
GEMM_BATCHED(hipblasGemmStridedBatchedEx, hip_type, compute_type)
#endif

#if EMULATOR_HIP_VERSION >= 60000000 && EMULATOR_HIP_VERSION < 70000000
GEMM(hipblasGemmEx_v2, hip_type, compute_type)
GEMM_BATCHED(hipblasGemmStridedBatchedEx_v2, hip_type, compute_type)
#endif
