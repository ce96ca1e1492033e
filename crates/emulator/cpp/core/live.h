// What is still alive: for tests that look for leaks.
#pragma once

namespace emulator {

// Adds a kind that another library of this vendor counts (BLAS handles, communicators).
void count_live(const char* kind, long (*count)());

}  // namespace emulator
