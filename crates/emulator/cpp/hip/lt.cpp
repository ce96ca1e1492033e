// hipBLASLt: products with an epilogue, described in pieces.
#include "../blas/lt.h"
#include "numbers.h"

using namespace emulator;

static constexpr Dialect dialect{hip_type, compute_type, 111};  // HIPBLAS_OP_N is 111, _T 112, _C 113

struct Algo {
    std::uint8_t data[16];
    std::size_t most_workspace;
};

struct Heuristic {
    Algo algo;
    std::size_t workspace;
    Result state;
    float waves;
    int reserved[4];
};

// HIPBLASLT_MATMUL_DESC_...
static OperationAttribute operation_attribute(int number) {
    switch (number) {
        case 0: return OperationAttribute::ATransposed;
        case 1: return OperationAttribute::BTransposed;
        case 2: return OperationAttribute::Epilogue;
        case 3: return OperationAttribute::Bias;
        case 4: return OperationAttribute::BiasType;
        case 10: return OperationAttribute::Aux;
        case 11: return OperationAttribute::AuxLeading;
        case 13: return OperationAttribute::PointerMode;
        case 22: return OperationAttribute::AuxType;
        default: return OperationAttribute::Unknown;
    }
}

// HIPBLASLT_MATRIX_LAYOUT_...
static LayoutAttribute layout_attribute(int number) {
    switch (number) {
        case 0: return LayoutAttribute::Batch;
        case 1: return LayoutAttribute::Stride;
        case 2: return LayoutAttribute::Type;
        case 3: return LayoutAttribute::Order;
        case 4: return LayoutAttribute::Rows;
        case 5: return LayoutAttribute::Columns;
        case 6: return LayoutAttribute::Leading;
        default: return LayoutAttribute::Unknown;
    }
}

// HIPBLASLT_MATMUL_PREF_SEARCH_MODE is 0, _MAX_WORKSPACE_BYTES 1.
static PreferenceAttribute preference_attribute(int number) {
    if (number == 0) return PreferenceAttribute::Ignored;
    return number == 1 ? PreferenceAttribute::Workspace : PreferenceAttribute::Unknown;
}

EXPORT Result hipblasLtCreate(void** handle) {
    BLAS(1, { return create_blas(handle, Library::Light); });
}

EXPORT Result hipblasLtDestroy(void* handle) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 6, [&] { return code(destroy_blas(handle, Library::Light)); });
}

EXPORT Result hipblasLtGetVersion(void* handle, int* number) {
    BLAS(6, {
        BlasRef blas;
        TRY(find_blas(handle, blas, Library::Light));
        if (!number) return Outcome::InvalidValue;
        *number = EMULATOR_HIPBLASLT_VERSION;
        return Outcome::Success;
    });
}

EXPORT Result hipblasLtMatmulDescCreate(void** operation, int compute, int scalar) {
    BLAS(2, { return create_operation(operation, compute, scalar, dialect); });
}

EXPORT Result hipblasLtMatmulDescDestroy(void* operation) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 6, [&] { return code(destroy_operation(operation)); });
}

EXPORT Result hipblasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value, std::size_t bytes) {
    BLAS(3, { return set_operation(operation, operation_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result hipblasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    BLAS(2, { return create_layout(layout, type, rows, columns, leading, dialect); });
}

EXPORT Result hipblasLtMatrixLayoutDestroy(void* layout) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 6, [&] { return code(destroy_layout(layout)); });
}

EXPORT Result hipblasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, std::size_t bytes) {
    BLAS(3, { return set_layout(layout, layout_attribute(attribute), value, bytes, dialect); });
}

EXPORT Result hipblasLtMatmulPreferenceCreate(void** preference) {
    BLAS(2, { return create_preference(preference); });
}

EXPORT Result hipblasLtMatmulPreferenceDestroy(void* preference) {
    static Symbol symbol(__func__);
    return enter_release(symbol, 6, [&] { return code(destroy_preference(preference)); });
}

EXPORT Result hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, std::size_t bytes) {
    BLAS(3, { return set_preference(preference, preference_attribute(attribute), value, bytes); });
}

EXPORT Result hipblasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                             int asked, Heuristic* results, int* found) {
    BLAS(6, {
        TRY(choose_into(handle, {operation, a, b, c, d}, preference, asked, results, found));
        results[0].algo.most_workspace = results[0].workspace;
        return Outcome::Success;
    });
}

EXPORT Result hipblasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
                             void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                             const Algo* algo, void* workspace, std::size_t workspace_bytes, void* stream) {
    BLAS(5, {
        return queue_matmul(handle, {operation, a_layout, b_layout, c_layout, d_layout},
                            {alpha, a, b, beta, c, d, workspace, workspace_bytes, stream}, algo);
    });
}
