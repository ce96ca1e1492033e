// The numbers of cuBLAS and cuBLASLt: statuses, types, and how their functions begin.
#pragma once

#include "../blas/handle.h"

namespace emulator {

using Result = int;  // cublasStatus_t

// Stands for failures without a number of their own.
constexpr Result internal_error = 14;

inline Result code(Outcome outcome) {
    switch (outcome) {
        case Outcome::Success: return 0;
        case Outcome::NullHandle: case Outcome::NotInitialized: return 1;
        case Outcome::OutOfMemory: return 3;
        case Outcome::InvalidValue: case Outcome::InvalidEnum: return 7;
        case Outcome::NotSupported: return 15;
        case Outcome::ExecutionFailed: return 13;
    }
    return internal_error;
}

inline const char* status_name(Result status) {
    switch (status) {
        case 0: return "CUBLAS_STATUS_SUCCESS";
        case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
        case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
        case 7: return "CUBLAS_STATUS_INVALID_VALUE";
        case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
        case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
        case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
        case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
        case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
        default: return "unknown cuBLAS status";
    }
}

inline bool type_of(int number, Type& type) {
    switch (number) {
        case 0: type = Type::F32; return true;
        case 1: type = Type::F64; return true;
        case 2: type = Type::F16; return true;
        case 14: type = Type::Bf16; return true;
        default: return false;
    }
}

// CUBLAS_COMPUTE_16F, 32F, 64F, their pedantic and fast forms: all but 64F are computed in f32 here.
inline bool scalar_of(int compute, Type& type) {
    switch (compute) {
        case 64: case 65: type = Type::F16; return true;
        case 68: case 69: case 74: case 75: case 77: type = Type::F32; return true;
        case 70: case 71: type = Type::F64; return true;
        default: return false;
    }
}

}  // namespace emulator

#define BLAS(standard, ...)                     \
    static Symbol symbol(__func__);             \
    return enter(symbol, Result(standard), [&]() -> Result { return code([&]() -> Outcome __VA_ARGS__()); })
