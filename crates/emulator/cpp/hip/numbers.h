// The numbers of hipBLAS and hipBLASLt: statuses, types, and how their functions begin.
#pragma once

#include "../blas/handle.h"

namespace emulator {

using Result = int;  // hipblasStatus_t

// Stands for failures without a number of their own.
constexpr Result internal_error = 6;

inline Result code(Outcome outcome) {
    switch (outcome) {
        case Outcome::Success: return 0;
        case Outcome::NotInitialized: return 1;
        case Outcome::OutOfMemory: return 2;
        case Outcome::InvalidValue: return 3;
        case Outcome::ExecutionFailed: return 5;
        case Outcome::NotSupported: return 7;
        case Outcome::NullHandle: return 9;
        case Outcome::InvalidEnum: return 10;
    }
    return internal_error;
}

// hipDataType.
inline bool hip_type(int number, Type& type) {
    switch (number) {
        case 0: type = Type::F32; return true;
        case 1: type = Type::F64; return true;
        case 2: type = Type::F16; return true;
        case 14: type = Type::Bf16; return true;
        default: return false;
    }
}

// hipblasComputeType_t: 16F 0 and 1, 32F 2 to 6, 64F 7 and 8; the odd ones of each are pedantic or fast forms.
inline bool compute_type(int number, Type& type) {
    if (number < 0 || number > 8) return false;
    type = number < 2 ? Type::F16 : number < 7 ? Type::F32 : Type::F64;
    return true;
}

}  // namespace emulator

#define BLAS(standard, ...)                     \
    static Symbol symbol(__func__);             \
    return enter(symbol, Result(standard), [&]() -> Result { return code([&]() -> Outcome __VA_ARGS__()); })
