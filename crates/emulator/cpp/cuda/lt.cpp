// cuBLASLt: GEMMs with an epilogue, described attribute by attribute.
#include "../blas/lt.h"
#include "numbers.h"

using namespace emulator;

static constexpr Dialect dialect{type_of, scalar_of, 0};  // CUBLAS_OP_N is 0, _T 1, _C 2

struct Algo {
    std::uint64_t data[8];
};

struct Heuristic {
    Algo algo;
    std::size_t workspace;
    Result state;
    float waves;
    int reserved[4];
};

// CUBLASLT_MATMUL_DESC_...
static OperationAttribute operation_attribute(int number) {
    switch (number) {
        case 2: return OperationAttribute::PointerMode;
        case 3: return OperationAttribute::ATransposed;
        case 4: return OperationAttribute::BTransposed;
        case 7: return OperationAttribute::Epilogue;
        case 8: return OperationAttribute::Bias;
        case 11: return OperationAttribute::Aux;
        case 12: return OperationAttribute::AuxLeading;
        case 22: return OperationAttribute::AuxType;
        case 26: return OperationAttribute::BiasType;
        default: return OperationAttribute::Unknown;
    }
}

// CUBLASLT_MATRIX_LAYOUT_...
static LayoutAttribute layout_attribute(int number) {
    switch (number) {
        case 0: return LayoutAttribute::Type;
        case 1: return LayoutAttribute::Order;
        case 2: return LayoutAttribute::Rows;
        case 3: return LayoutAttribute::Columns;
        case 4: return LayoutAttribute::Leading;
        case 5: return LayoutAttribute::Batch;
        case 6: return LayoutAttribute::Stride;
        default: return LayoutAttribute::Unknown;
    }
}

// CUBLASLT_MATMUL_PREF_... The search mode and the reduction schemes are ignored: sums are the same in all of them.
static PreferenceAttribute preference_attribute(int number) {
    switch (number) {
        case 0: case 3: return PreferenceAttribute::Ignored;
        case 1: return PreferenceAttribute::Workspace;
        case 5: return PreferenceAttribute::AAlignment;
        case 6: return PreferenceAttribute::BAlignment;
        case 7: return PreferenceAttribute::CAlignment;
        case 8: return PreferenceAttribute::DAlignment;
        default: return PreferenceAttribute::Unknown;
    }
}

EXPORT Result cublasLtCreate(void** handle) {
    BLAS(1, { return create_blas(handle, Library::Light); });
}

EXPORT Result cublasLtDestroy(void* handle) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 14, [&] { return code(destroy_blas(handle, Library::Light)); });
}

EXPORT std::size_t cublasLtGetVersion() {
    static Symbol symbol(__func__);
    return enter(symbol, std::size_t(0), [] { return std::size_t(EMULATOR_CUBLAS_VERSION); });
}

EXPORT const char* cublasLtGetStatusString(Result status) { return status_name(status); }

EXPORT Result cublasLtMatmulDescCreate(void** operation, int compute, int scalar) {
    BLAS(3, { return create_operation(operation, compute, scalar, dialect); });
}

EXPORT Result cublasLtMatmulDescDestroy(void* operation) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 14, [&] { return code(destroy_operation(operation)); });
}

EXPORT Result cublasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value, std::size_t bytes) {
    BLAS(7, { return set_operation(operation, operation_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    BLAS(3, { return create_layout(layout, type, rows, columns, leading, dialect); });
}

EXPORT Result cublasLtMatrixLayoutDestroy(void* layout) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 14, [&] { return code(destroy_layout(layout)); });
}

EXPORT Result cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, std::size_t bytes) {
    BLAS(7, { return set_layout(layout, layout_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result cublasLtMatmulPreferenceCreate(void** preference) {
    BLAS(3, { return create_preference(preference); });
}

EXPORT Result cublasLtMatmulPreferenceDestroy(void* preference) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 14, [&] { return code(destroy_preference(preference)); });
}

EXPORT Result cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, std::size_t bytes) {
    BLAS(7, { return set_preference(preference, preference_attribute(attribute), value, bytes); });
}

EXPORT Result cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                             int asked, Heuristic* results, int* found) {
    BLAS(14, { return choose_into(handle, {operation, a, b, c, d}, preference, asked, results, found); });
}

EXPORT Result cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
                             void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                             const Algo* algo, void* workspace, std::size_t workspace_bytes, void* stream) {
    BLAS(13, {
        return queue_matmul(handle, {operation, a_layout, b_layout, c_layout, d_layout},
                            {alpha, a, b, beta, c, d, workspace, workspace_bytes, stream}, algo);
    });
}
