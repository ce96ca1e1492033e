// One GEMM, column-major as in all BLAS.
#pragma once

#include <cstdint>

#include "numbers.h"

namespace emulator {

struct Operand {
    const void* data;
    Type type;
    std::int64_t leading;
    bool transposed;
};

// c = alpha a b + beta c. If beta is 0, c is not read. Sums are kept in f32, or in f64 if c is f64.
struct Product {
    std::int64_t m, n, k;
    double alpha, beta;
    Operand a, b;
    void* c;
    Type c_type;
    std::int64_t c_leading;
};

// The operation on a sum before it is stored.
enum class Curve { None, Gelu, GeluSlope };

// c = curve(alpha a b + beta old + bias), or that sum times the curve's slope at aux; rounded once. GELU is the tanh form.
struct Epilogue {
    const void* old;             // of c's type; may be c
    std::int64_t old_leading;
    const void* bias;            // one number for each row, or null
    Type bias_type;
    Curve curve;
    void* aux;                   // the curve's input, of c's type: GELU writes it, its slope reads it; or null
    std::int64_t aux_leading;
};

// Without an epilogue c itself is the old matrix.
void multiply(const Product& product, const Epilogue* epilogue = nullptr);

}  // namespace emulator
