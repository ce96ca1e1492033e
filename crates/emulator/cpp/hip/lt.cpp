// hipBLASLt: GEMMs with an epilogue, described attribute by attribute.
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

#define LT(name) hipblasLt##name
#include "../shared/lt.h"

EXPORT Result hipblasLtGetVersion(void* handle, int* number) {
    BLAS(internal_error, {
        BlasRef blas;
        TRY(find_blas(handle, blas, Library::Light));
        if (!number) return Outcome::InvalidValue;
        *number = EMULATOR_HIPBLASLT_VERSION;
        return Outcome::Success;
    });
}

EXPORT Result hipblasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                             int asked, Heuristic* results, int* found) {
    BLAS(internal_error, {
        TRY(choose_into(handle, {operation, a, b, c, d}, preference, asked, results, found));
        for (int index = 0; index < *found; ++index) results[index].algo.most_workspace = results[index].workspace;
        return Outcome::Success;
    });
}
