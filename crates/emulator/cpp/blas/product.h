// One product of matrices, column-major as in all BLAS.
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

// c = alpha a b + beta c. c is not read where beta is 0. Sums are kept in f32, in f64 where c is f64.
struct Product {
    std::int64_t m, n, k;
    double alpha, beta;
    Operand a, b;
    void* c;
    Type c_type;
    std::int64_t c_leading;
};

void multiply(const Product& product);

}  // namespace emulator
