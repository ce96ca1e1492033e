// A GEMM as its descriptors state it, and whether it is valid.
#pragma once

#include "lt.h"

namespace emulator {

struct Problem {
    Descriptor operation;
    Layout a, b, c, d;

    std::int64_t m() const { return static_cast<std::int64_t>(d.rows); }
    std::int64_t n() const { return static_cast<std::int64_t>(d.columns); }
    std::int64_t k() const { return static_cast<std::int64_t>(operation.a_transposed ? a.rows : a.columns); }
    bool has_bias() const { return operation.epilogue & 4; }
    bool has_aux() const { return operation.epilogue & 128; }
    Type bias_type() const { return operation.bias_type.value_or(d.type); }
    Curve curve() const { return operation.epilogue & 64 ? Curve::GeluSlope : operation.epilogue & 32 ? Curve::Gelu : Curve::None; }
};

Outcome read_problem(const Described& described, Problem& problem);
// # Errors: InvalidValue, with a report, for a contradiction; NotSupported, without a report, for an unsupported GEMM.
Outcome check_problem(const Problem& problem);
// A number that changes with everything except the addresses of bias and aux.
std::uint64_t fingerprint_of(const Problem& problem, std::uint64_t seed);

}  // namespace emulator
