#include "pace.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "../core/symbols.h"

namespace emulator {

static std::array<std::atomic<long>, 8> microseconds{};

void keep_pace(std::size_t algorithm) {
    const long pause = microseconds[algorithm].load();
    if (pause > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause));
}

}  // namespace emulator

using namespace emulator;

// For tests: how long a GEMM of this algorithm waits from now on, before it computes; see keep_pace for the numbers.
EXPORT void fascicle_emulator_pace(unsigned long algorithm, long pause) { microseconds.at(algorithm).store(pause); }
