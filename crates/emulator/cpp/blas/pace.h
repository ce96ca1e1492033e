// How long a GEMM takes beside its arithmetic. Tests make one algorithm slower than another.
#pragma once

#include <cstddef>

namespace emulator {

// Waits for as long as a test has asked for. 0 stands for cuBLAS or hipBLAS, from 1 on for the algorithms of cuBLASLt or
// hipBLASLt in the order in which a search finds them.
void keep_pace(std::size_t algorithm);

}  // namespace emulator
