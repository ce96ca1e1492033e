// cuBLAS: handles and GEMMs.
#include "numbers.h"

using namespace emulator;

constexpr int version = EMULATOR_CUBLAS_VERSION;

EXPORT Result cublasCreate_v2(void** handle) {
    // Without a workspace of the caller, cuBLAS allocates one in each capture.
    BLAS(1, { return create_blas(handle, Library::Plain, true); });
}

EXPORT Result cublasDestroy_v2(void* handle) {
    static Symbol symbol(__func__);
    return enter_release(symbol, internal_error, [&] { return code(destroy_blas(handle)); });
}

EXPORT Result cublasGetVersion_v2(void* handle, int* number) {
    BLAS(internal_error, {
        if (!number) return Outcome::InvalidValue;
        *number = version;
        BlasRef blas;
        return handle ? find_blas(handle, blas) : Outcome::Success;
    });
}

// MAJOR_VERSION 0, MINOR_VERSION 1, PATCH_LEVEL 2.
EXPORT Result cublasGetProperty(int kind, int* value) {
    BLAS(internal_error, {
        if (!value || kind < 0 || kind > 2) return Outcome::InvalidValue;
        const int parts[] = {version / 10000, version / 100 % 100, version % 100};
        *value = parts[kind];
        return Outcome::Success;
    });
}

EXPORT const char* cublasGetStatusName(Result status) { return status_name(status); }

EXPORT const char* cublasGetStatusString(Result status) { return cublasGetStatusName(status); }

EXPORT Result cublasSetStream_v2(void* handle, void* stream) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        blas->stream = stream;
        blas->workspace = {};  // cuBLAS returns to its own
        return Outcome::Success;
    });
}

EXPORT Result cublasGetStream_v2(void* handle, void** stream) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (!stream) return Outcome::InvalidValue;
        *stream = blas->stream;
        return Outcome::Success;
    });
}

EXPORT Result cublasSetMathMode(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        blas->math_mode = mode;
        return Outcome::Success;
    });
}

EXPORT Result cublasGetMathMode(void* handle, int* mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (!mode) return Outcome::InvalidValue;
        *mode = blas->math_mode;
        return Outcome::Success;
    });
}

EXPORT Result cublasSetAtomicsMode(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (mode != 0 && mode != 1) return Outcome::InvalidValue;
        blas->atomics = mode;
        return Outcome::Success;
    });
}

EXPORT Result cublasSetPointerMode_v2(void* handle, int mode) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas));
        if (mode != 0 && mode != 1) return Outcome::InvalidValue;
        blas->scalars_on_device = mode == 1;
        return Outcome::Success;
    });
}

EXPORT Result cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t bytes) {
    BLAS(internal_error, {
        return set_workspace(handle, workspace, bytes);
    });
}

struct Matrix {
    const void* data;
    int type;
    int leading;
    long long stride;
};

static Outcome gemm(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const Matrix& a, const Matrix& b,
                    const void* beta, const Matrix& c, int batch, int compute) {
    BlasRef blas;
    TRY(find_blas(handle, blas));
    Call call{};
    auto& product = call.product;
    if (op_a < 0 || op_a > 2 || op_b < 0 || op_b > 2) return misuse(Outcome::InvalidValue, "operations %d and %d", op_a, op_b);
    if (!type_of(a.type, product.a.type) || !type_of(b.type, product.b.type) || !type_of(c.type, product.c_type))
        return misuse(Outcome::NotSupported, "types %d, %d, %d", a.type, b.type, c.type);
    if (!scalar_of(compute, call.scalar) || (call.scalar == Type::F64) != (product.c_type == Type::F64))
        return misuse(Outcome::NotSupported, "compute type %d with c of type %d", compute, c.type);
    product = {m, n, k, 0, 0, {a.data, product.a.type, a.leading, op_a != 0}, {b.data, product.b.type, b.leading, op_b != 0},
               const_cast<void*>(c.data), product.c_type, c.leading};
    call.alpha = alpha;
    call.beta = beta;
    call.a_stride = a.stride;
    call.b_stride = b.stride;
    call.c_stride = c.stride;
    call.batch = batch;
    return queue_products(blas, call);
}

EXPORT Result cublasGemmEx(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a, int a_type,
                           int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                           int compute, int) {
    BLAS(13, {
        return gemm(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, 0}, {b, b_type, ldb, 0}, beta, {c, c_type, ldc, 0}, 1, compute);
    });
}

EXPORT Result cublasGemmStridedBatchedEx(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                                         int a_type, int lda, long long a_stride, const void* b, int b_type, int ldb,
                                         long long b_stride, const void* beta, void* c, int c_type, int ldc, long long c_stride,
                                         int batch, int compute, int) {
    BLAS(13, {
        return gemm(handle, op_a, op_b, m, n, k, alpha, {a, a_type, lda, a_stride}, {b, b_type, ldb, b_stride}, beta,
                    {c, c_type, ldc, c_stride}, batch, compute);
    });
}
