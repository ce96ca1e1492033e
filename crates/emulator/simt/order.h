// The order in which blocks, warps and lanes run, which a device leaves open. FASCICLE_EMULATOR_ORDER is its seed: 1
// unless set, and 0 keeps the order of their numbers.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

namespace simt {

inline uint64_t order_seed() {
    static const uint64_t seed = [] {
        const char* value = getenv("FASCICLE_EMULATOR_ORDER");
        return value && *value ? strtoull(value, nullptr, 10) : 1ull;
    }();
    return seed;
}

// An order of the numbers below `count`, which the seed and `turn` determine: multiples of a step that shares no factor
// with `count`.
class Shuffle {
public:
    Shuffle(uint64_t count, uint64_t turn) : count_(count) {
        if (order_seed() == 0 || count < 2) return;
        uint64_t bits = (order_seed() * 0x9e3779b97f4a7c15ull) ^ ((turn + 1) * 0xbf58476d1ce4e5b9ull);
        bits = (bits ^ bits >> 31) * 0x94d049bb133111ebull;
        start_ = (bits >> 33) % count;
        step_ = 1 + (bits & 0x7fffffff) % (count - 1);
        while (divisor(step_, count) != 1) step_ = step_ % (count - 1) + 1;
    }

    uint64_t operator[](uint64_t index) const { return (start_ + index * step_) % count_; }

private:
    static uint64_t divisor(uint64_t a, uint64_t b) { return b == 0 ? a : divisor(b, a % b); }

    uint64_t count_, start_ = 0, step_ = 1;
};

}  // namespace simt
