// The counter-based generator that every vendor shares: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC11).
#pragma once

#include "portable.h"

namespace fascicle {

// Names a sequence of random numbers.
struct RandomKey {
    u64 seed;
    u64 sequence;
};

// The words of four indices: index i has word i % 4 of block i / 4.
struct RandomWords { u32 at[4]; };

FASCICLE_DEVICE RandomWords random_block(RandomKey key, u64 block) {
    u32 a = u32(block), b = u32(block >> 32), c = u32(key.sequence), d = u32(key.sequence >> 32);
    u32 low = u32(key.seed), high = u32(key.seed >> 32);
    FASCICLE_UNROLL
    for (int round = 0; round < 10; round++) {
        u32 left_high = multiply_high(a, 0xD2511F53u), left_low = a * 0xD2511F53u;
        u32 right_high = multiply_high(c, 0xCD9E8D57u), right_low = c * 0xCD9E8D57u;
        a = right_high ^ b ^ low;
        b = right_low;
        c = left_high ^ d ^ high;
        d = left_low;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return RandomWords{{a, b, c, d}};
}

// The word of an index within its block of four.
FASCICLE_DEVICE u32 word_of(const RandomWords& words, u32 index) {
    u32 low = index % 2 == 0 ? words.at[0] : words.at[1];
    u32 high = index % 2 == 0 ? words.at[2] : words.at[3];
    return index < 2 ? low : high;
}

// Sets `drops[i]` to whether the number of index `first + i` lies below a probability. `threshold` is the probability
// times 2^24, rounded up, which is compared with the upper 24 bits of a word.
template <int N>
FASCICLE_DEVICE void draw(RandomKey key, u64 first, u32 threshold, bool (&drops)[N]) {
    if (N % 4 == 0 && first % 4 == 0) {
        FASCICLE_UNROLL
        for (int i = 0; i < N; i += 4) {
            RandomWords words = random_block(key, first / 4 + u64(i / 4));
            FASCICLE_UNROLL
            for (int word = 0; word < 4 && i + word < N; word++) drops[i + word] = (words.at[word] >> 8) < threshold;
        }
        return;
    }
    RandomWords words = random_block(key, first / 4);
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) {
        u64 index = first + u64(i);
        if (i > 0 && index % 4 == 0) words = random_block(key, index / 4);
        drops[i] = (word_of(words, u32(index % 4)) >> 8) < threshold;
    }
}

}  // namespace fascicle
