// AdamW with moments that are kept as 8-bit codes, each block of a row with a scale.
#pragma once

#include "optimiser.h"

namespace fascicle {

// Elements of a row that share a scale, and blocks of one tensor that a block of threads updates.
constexpr u64 CODED_BLOCK = 256;
constexpr u64 CODED_PART = UPDATE_PART / CODED_BLOCK;
constexpr u32 CODED_TENSORS = 24;
constexpr int DECADES = 7;

// The shares of a scale for which codes stand; see hal::codes.
struct CodeNumbers {
    double thresholds[DECADES + 1];
    double densities[DECADES];
    double firsts[DECADES + 1];
};

// Of each pair, the first is of the first moments.
struct CodedEntry {
    void* weights;  // null where only scales are computed, as all that is written with them
    const void* gradients;
    void* codes[2];
    const void* scales[2];
    void* next[2];
    void* compute;  // or null
    u64 len;
    u64 columns;  // of this rank's part of the matrix
    u64 first_column;
    u64 start;
    double keep;  // 1 - rate * weight decay
    u32 first_block;
    u32 compute_dtype;  // as in AdamWEntry
};

struct CodedParams {
    const void* factor;
    double one_minus_beta1;
    double beta2;
    double one_minus_beta2;
    double root_of_correction2;
    double epsilon;
    double step_size;
    CodeNumbers numbers[2];
    u32 num_tensors;
    u32 unused;
    CodedEntry tensors[CODED_TENSORS];
};

// The share of a code, in the arithmetic of the host's table.
FASCICLE_DEVICE double share_of(const CodeNumbers& numbers, bool has_sign, u32 code) {
    bool below = has_sign && code > 128;
    double magnitude = below ? code & 127 : code;
    double share = 0;
    for (int decade = 0; decade < DECADES; decade++) {
        double first = numbers.firsts[decade];
        if (magnitude < first) break;
        double cells = numbers.firsts[decade + 1] - first;
        share = (magnitude - first + 0.5 + cells / 9.0) / numbers.densities[decade];
    }
    if (magnitude == numbers.firsts[DECADES]) share = 1;
    return below ? -share : share;
}

// The shares of all codes, in memory of the block: first those with signs.
template <class A>
FASCICLE_DEVICE const A* tables(const CodedParams& p) {
    A* shares = reinterpret_cast<A*>(shared_memory());
    for (u32 index = thread_x(); index < 512; index += block_size_x()) {
        shares[index] = A(share_of(p.numbers[index / 256], index < 256, index % 256));
    }
    barrier();
    return shares;
}

// The code of a share without a sign, as a number.
template <class A>
FASCICLE_DEVICE A code_of(const CodeNumbers& numbers, A share) {
    A density = 0, cells = 1, first = 0;
    FASCICLE_UNROLL
    for (int decade = 0; decade < DECADES; decade++) {
        bool here = share >= A(numbers.thresholds[decade]);
        density = here ? A(numbers.densities[decade]) : density;
        cells = here ? A(numbers.firsts[decade + 1]) - A(numbers.firsts[decade]) : cells;
        first = here ? A(numbers.firsts[decade]) : first;
    }
    // A decade begins at a tenth of its end: a ninth of its cells lies below.
    A cell = larger(share * density - cells * A(1.0 / 9.0), A(0));
    cell = cell < cells ? cell : cells - A(1);
    return share >= A(numbers.thresholds[DECADES]) ? A(numbers.firsts[DECADES]) : first + A(u32(cell));
}

// Numbers of a block whose scale is 0 are 0.
template <class A>
FASCICLE_DEVICE A divisor(A scale) { return scale > A(0) ? scale : A(1); }

template <class A>
FASCICLE_DEVICE u8 signed_code(const CodeNumbers& numbers, A number, A scale) {
    A share = number / divisor(scale);
    A code = code_of(numbers, share < A(0) ? -share : share);
    // 1 has no negative: below, the highest magnitude is the last cell's.
    A last = A(numbers.firsts[DECADES]) - A(1);
    return share < A(0) && code > A(0) ? u8(u32(code < last ? code : last) | 128) : u8(u32(code));
}

// Only 0 has the code of 0.
template <class A>
FASCICLE_DEVICE u8 unsigned_code(const CodeNumbers& numbers, A number, A scale) {
    A code = code_of(numbers, number / divisor(scale));
    return u8(u32(number > A(0) ? larger(code, A(1)) : code));
}

// Calls `body(block, from, to)` with every warp for blocks of its own; the elements of a block lie in from..to.
template <class Body>
FASCICLE_DEVICE void each_coded_block(const CodedEntry& entry, Body body) {
    u64 of_row = entry.first_column / CODED_BLOCK;
    u64 width = (entry.first_column + entry.columns + CODED_BLOCK - 1) / CODED_BLOCK - of_row;
    auto number = [&](u64 element) {
        u64 column = entry.first_column + element % entry.columns;
        return element / entry.columns * width + column / CODED_BLOCK - of_row;
    };
    u64 first = number(entry.start) + u64(block_x() - entry.first_block) * CODED_PART;
    u64 end = number(entry.start + entry.len - 1) + 1;
    end = first + CODED_PART < end ? first + CODED_PART : end;
    auto within = [&](u64 element) {
        u64 low = element < entry.start ? entry.start : element;
        return (low < entry.start + entry.len ? low : entry.start + entry.len) - entry.start;
    };
    for (u64 block = first + warp_index(); block < end; block += block_size_x() / WARP) {
        u64 row = block / width * entry.columns;
        u64 column = (of_row + block % width) * CODED_BLOCK;
        u64 begin = column < entry.first_column ? 0 : column - entry.first_column;
        u64 stop = column + CODED_BLOCK - entry.first_column;
        stop = stop < entry.columns ? stop : entry.columns;
        body(block, within(row + begin), within(row + stop));
    }
}

// Calls `body(start, left, m, v)` with the new moments of this lane's packs of a block.
template <class A, class Body>
FASCICLE_DEVICE void each_pack_of_moments(const CodedParams& p, const CodedEntry& entry, const A* shares, A factor,
                                          u64 block, u64 from, u64 to, Body body) {
    constexpr int N = SIXTEEN_BYTES<A>;
    A scale1 = static_cast<const A*>(entry.scales[0])[block];
    A scale2 = static_cast<const A*>(entry.scales[1])[block];
    for (u64 start = from + lane_index() * N; start < to; start += u64(WARP) * N) {
        auto g = load<N>(static_cast<const A*>(entry.gradients) + start, to - start);
        auto first = load<N>(static_cast<const u8*>(entry.codes[0]) + start, to - start);
        auto second = load<N>(static_cast<const u8*>(entry.codes[1]) + start, to - start);
        Pack<A, N> m, v;
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            A gradient = factor * g.at[i];
            A old = shares[first.at[i]] * scale1;
            m.at[i] = old + A(p.one_minus_beta1) * (gradient - old);
            v.at[i] = A(p.beta2) * (shares[256 + second.at[i]] * scale2) + A(p.one_minus_beta2) * gradient * gradient;
        }
        body(start, to - start, m, v);
    }
}

template <class A>
FASCICLE_DEVICE void coded_scales(const CodedParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    const A* shares = tables<A>(p);
    const CodedEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_coded_block(entry, [&](u64 block, u64 from, u64 to) {
        A most[2] = {0, 0};
        each_pack_of_moments<A>(p, entry, shares, A(factor), block, from, to, [&](u64, u64 left, auto& m, auto& v) {
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                if (u64(i) >= left) break;
                most[0] = larger(most[0], m.at[i] < A(0) ? -m.at[i] : m.at[i]);
                most[1] = larger(most[1], v.at[i]);
            }
        });
        for (int of = 0; of < 2; of++) {
            A largest = warp_max(most[of]);
            A old = static_cast<const A*>(entry.scales[of])[block];
            if (lane_index() == 0) static_cast<A*>(entry.next[of])[block] = factor != factor ? old : largest;
        }
    });
}

template <class A>
FASCICLE_DEVICE void coded_adamw(const CodedParams& p) {
    constexpr int N = SIXTEEN_BYTES<A>;
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const A* shares = tables<A>(p);
    const CodedEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    each_coded_block(entry, [&](u64 block, u64 from, u64 to) {
        A next1 = static_cast<const A*>(entry.next[0])[block];
        A next2 = static_cast<const A*>(entry.next[1])[block];
        auto work = [&](u64 start, u64 left, auto& m, auto& v) {
            A* weights = static_cast<A*>(entry.weights) + start;
            auto w = load<N>(static_cast<const A*>(weights), left);
            Pack<u8, N> first, second;
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                w.at[i] = adamw_weight(p, A(entry.keep), w.at[i], m.at[i], v.at[i]);
                first.at[i] = signed_code(p.numbers[0], m.at[i], next1);
                second.at[i] = unsigned_code(p.numbers[1], v.at[i], next2);
            }
            store<N>(weights, w, left);
            store<N>(static_cast<u8*>(entry.codes[0]) + start, first, left);
            store<N>(static_cast<u8*>(entry.codes[1]) + start, second, left);
            store_compute<A, N>(entry.compute, entry.compute_dtype, start, w, left);
        };
        each_pack_of_moments<A>(p, entry, shares, A(factor), block, from, to, work);
    });
}

}  // namespace fascicle

#define FASCICLE_CODED(suffix, A)                                                                      \
    FASCICLE_COOPERATIVE(fascicle_coded_scales_##suffix, fascicle::CodedParams, 256) {                 \
        fascicle::coded_scales<A>(p);                                                                  \
    }                                                                                                  \
    FASCICLE_COOPERATIVE(fascicle_coded_adamw_##suffix, fascicle::CodedParams, 256) { fascicle::coded_adamw<A>(p); }
FASCICLE_ACCUMULATORS(FASCICLE_CODED)
