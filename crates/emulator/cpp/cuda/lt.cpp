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

#define LT(name) cublasLt##name
#include "../shared/lt.h"

EXPORT std::size_t cublasLtGetVersion() {
    static Symbol symbol(__func__);
    return enter(symbol, std::size_t(0), [] { return std::size_t(EMULATOR_CUBLAS_VERSION); });
}

EXPORT const char* cublasLtGetStatusString(Result status) { return status_name(status); }

EXPORT Result cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                             int asked, Heuristic* results, int* found) {
    BLAS(internal_error, { return choose_into(handle, {operation, a, b, c, d}, preference, asked, results, found); });
}
