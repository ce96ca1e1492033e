// Sums of squares without rounding, whatever the order of the elements.
//
// The largest gradient fixes a power of 2 by which all are scaled below 1. Adding and subtracting a constant rounds the square
// of each to a multiple of 2^-38, and the rest to one of 2^-76, as Demmel and Nguyen do ("Fast reproducible floating-point
// summation", ARITH 2013). The sums of a part are sums of integers below 2^53, so doubles hold them exactly in any order.
// Sums over parts are three numbers of 33 binary digits each (the last one longer), added as integers.
#pragma once

#include "squares.h"

namespace fascicle {

// Binary digits of a square that the first of its two multiples holds, and those of the second.
constexpr int SQUARE_DIGITS = 38;
// Binary digits of the lower two of the three sums, which leaves room for 2^20 launches on all ranks.
constexpr int LIMB = 33;
constexpr u64 LIMB_MASK = (u64(1) << LIMB) - 1;
static_assert(SQUARES_PART <= 1 << 15, "sums of a part are integers that a double holds");

struct LargestTotalParams {
    const void* partials;
    void* out;
    u64 parts;
};

struct ExactSquaresPartsParams {
    const void* largest;
    void* partials;  // three integers for each part; of a launch that is not finite, a double
    u32 num_slices;
    u32 unused;
    SquaresSlice slices[SQUARES_SLICES];
};

struct ExactSquaresTotalParams {
    const void* largest;
    const void* partials;
    void* sums;
    u64 parts;
};

struct ExactTotalParams {
    const void* largest;
    const void* sums;
    void* out;
};

FASCICLE_DEVICE bool is_finite(double x) { return x - x == 0; }

// 2^n, for n from -1074 to 1023.
FASCICLE_DEVICE double power_of_two(int n) {
    return same_bits<double>(n >= -1022 ? u64(n + 1023) << 52 : u64(1) << (n + 1074));
}

// The smallest n for which `largest` is below 2^n; at least -900, so that all powers here are normal or exact.
FASCICLE_DEVICE int exponent_of(double largest) {
    int exponent = int(same_bits<u64>(largest) >> 52) - 1022;
    return largest == 0 ? 0 : exponent < -900 ? -900 : exponent;
}

// A comparison with NaN is false, so a NaN becomes infinity: a maximum could lose it.
template <class T>
FASCICLE_DEVICE double largest_of(const void* x, u64 start, u64 end) {
    constexpr int N = SIXTEEN_BYTES<T>;
    const double infinity = -minus_infinity<double>();
    double largest = 0;
    each_pack_of_row<N>(end - start, thread_x(), block_size_x(), [&](u64 at, u64 left) {
        auto pack = load_as<double, N>(static_cast<const T*>(x) + start + at, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            double size = fabs(pack.at[i]);
            largest = larger(largest, size < infinity ? size : infinity);
        }
    });
    return largest;
}

FASCICLE_DEVICE void largest_parts(const SquaresPartsParams& p) {
    double largest = of_part(p, [](const SquaresSlice& slice, u64 start, u64 end) {
        return slice.dtype == 0   ? largest_of<double>(slice.x, start, end)
               : slice.dtype == 1 ? largest_of<float>(slice.x, start, end)
               : slice.dtype == 2 ? largest_of<bf16>(slice.x, start, end)
                                  : largest_of<f16>(slice.x, start, end);
    });
    largest = block_max(largest, reinterpret_cast<double*>(shared_memory()));
    if (thread_x() == 0) static_cast<double*>(p.partials)[block_x()] = largest;
}

FASCICLE_DEVICE void largest_total(const LargestTotalParams& p) {
    double largest = 0;
    for (u64 part = thread_x(); part < p.parts; part += block_size_x()) {
        largest = larger(largest, static_cast<const double*>(p.partials)[part]);
    }
    largest = block_max(largest, reinterpret_cast<double*>(shared_memory()));
    double* out = static_cast<double*>(p.out);
    if (thread_x() == 0) out[0] = larger(out[0], largest);
}

// The multiples of a thread's squares.
struct Multiples { double high, low; };

template <class T>
FASCICLE_DEVICE Multiples multiples_of(const void* x, u64 start, u64 end, double scale) {
    constexpr int N = SIXTEEN_BYTES<T>;
    // The last digit of a number near 1.5 * 2^(52 - n) is 2^-n.
    const double to_high = 1.5 * power_of_two(52 - SQUARE_DIGITS), to_low = 1.5 * power_of_two(52 - 2 * SQUARE_DIGITS);
    Multiples sums{0, 0};
    each_pack_of_row<N>(end - start, thread_x(), block_size_x(), [&](u64 at, u64 left) {
        auto pack = load_as<double, N>(static_cast<const T*>(x) + start + at, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            double value = pack.at[i] * scale, square = value * value;
            double first = (square + to_high) - to_high;
            sums.high += first;
            sums.low += ((square - first) + to_low) - to_low;
        }
    });
    return sums;
}

FASCICLE_DEVICE void exact_squares_parts(const ExactSquaresPartsParams& p) {
    double* scratch = reinterpret_cast<double*>(shared_memory());
    double largest = static_cast<const double*>(p.largest)[0];
    if (!is_finite(largest)) {
        double sum = block_sum(of_part(p, squares_of_slice), scratch);
        if (thread_x() == 0) static_cast<double*>(p.partials)[3 * block_x()] = sum;
        return;
    }
    double scale = power_of_two(-exponent_of(largest));
    Multiples sums = of_part(p, [&](const SquaresSlice& slice, u64 start, u64 end) {
        return slice.dtype == 0   ? multiples_of<double>(slice.x, start, end, scale)
               : slice.dtype == 1 ? multiples_of<float>(slice.x, start, end, scale)
               : slice.dtype == 2 ? multiples_of<bf16>(slice.x, start, end, scale)
                                     : multiples_of<f16>(slice.x, start, end, scale);
    });
    double high = block_sum(sums.high, scratch), low = block_sum(sums.low, scratch);
    if (thread_x() != 0) return;
    int64_t high_units = int64_t(high * power_of_two(SQUARE_DIGITS));
    int64_t low_units = int64_t(low * power_of_two(2 * SQUARE_DIGITS));
    // A high unit is 2^38 low ones, so the lowest limb has digits of the low units alone. Those may be negative.
    int64_t rest = (high_units << (SQUARE_DIGITS - LIMB)) + (low_units >> LIMB);
    u64* to = static_cast<u64*>(p.partials) + 3 * block_x();
    to[0] = u64(low_units) & LIMB_MASK;
    to[1] = u64(rest) & LIMB_MASK;
    to[2] = u64(rest >> LIMB);
}

FASCICLE_DEVICE u64 sum_of_limb(const ExactSquaresTotalParams& p, u32 limb, u64* scratch) {
    u64 sum = 0;
    for (u64 part = thread_x(); part < p.parts; part += block_size_x()) {
        sum += static_cast<const u64*>(p.partials)[3 * part + limb];
    }
    return block_sum(sum, scratch);
}

FASCICLE_DEVICE void exact_squares_total(const ExactSquaresTotalParams& p) {
    double* sums = static_cast<double*>(p.sums);
    if (!is_finite(static_cast<const double*>(p.largest)[0])) {
        // Infinity and NaN must stay visible; beside them, a finite sum no longer counts.
        double sum = 0;
        for (u64 part = thread_x(); part < p.parts; part += block_size_x()) {
            double of_part = static_cast<const double*>(p.partials)[3 * part];
            sum += is_finite(of_part) ? 0 : of_part;
        }
        sum = block_sum(sum, reinterpret_cast<double*>(shared_memory()));
        if (thread_x() == 0) sums[2] += sum;
        return;
    }
    u64* scratch = reinterpret_cast<u64*>(shared_memory());
    u64 limbs[3];
    FASCICLE_UNROLL
    for (u32 limb = 0; limb < 3; limb++) limbs[limb] = sum_of_limb(p, limb, scratch);
    if (thread_x() != 0) return;
    limbs[1] += limbs[0] >> LIMB;
    limbs[2] += limbs[1] >> LIMB;
    sums[0] += double(limbs[0] & LIMB_MASK);
    sums[1] += double(limbs[1] & LIMB_MASK);
    sums[2] += double(limbs[2]);
}

FASCICLE_DEVICE u64 last_digits(u64 x, u32 count) { return x & ((u64(1) << count) - 1); }

// The nearest double to high * 2^66 + middle * 2^33 + low, from sums of limbs. It rounds the first 64 digits, of which the last
// one is set if any follows: that equals rounding once.
FASCICLE_DEVICE double joined_limbs(u64 low, u64 middle, u64 high) {
    middle += low >> LIMB;
    low &= LIMB_MASK;
    high += middle >> LIMB;
    middle &= LIMB_MASK;
    u32 digits = high == 0 ? 0 : highest_bit(high) + 1;
    if (digits + LIMB > 64) {
        u32 behind = digits + LIMB - 64;
        u64 head = high << (LIMB - behind) | middle >> behind;
        u64 follows = (last_digits(middle, behind) | low) != 0;
        return double(head | follows) * power_of_two(LIMB + int(behind));
    }
    u64 head = high << LIMB | middle;
    if (head == 0) return double(low);
    u32 room = 63 - highest_bit(head), taken = room < u32(LIMB) ? room : u32(LIMB), behind = LIMB - taken;
    u64 follows = last_digits(low, behind) != 0;
    return double(head << taken | low >> behind | follows) * power_of_two(int(behind));
}

FASCICLE_DEVICE void exact_total(const ExactTotalParams& p) {
    double largest = static_cast<const double*>(p.largest)[0];
    const double* sums = static_cast<const double*>(p.sums);
    double* out = static_cast<double*>(p.out);
    if (sums[2] != sums[2]) {
        out[0] = sums[2];
        return;
    }
    if (!is_finite(largest)) {
        out[0] = -minus_infinity<double>();
        return;
    }
    // In two steps, because the square of the power may be out of range where the result is not.
    double root = power_of_two(exponent_of(largest) - SQUARE_DIGITS);
    out[0] = joined_limbs(u64(sums[0]), u64(sums[1]), u64(sums[2])) * root * root;
}

}  // namespace fascicle

FASCICLE_COOPERATIVE(fascicle_largest_parts, fascicle::SquaresPartsParams, 256) { fascicle::largest_parts(p); }
FASCICLE_COOPERATIVE(fascicle_largest_total, fascicle::LargestTotalParams, 512) { fascicle::largest_total(p); }
FASCICLE_COOPERATIVE(fascicle_exact_squares_parts, fascicle::ExactSquaresPartsParams, 256) {
    fascicle::exact_squares_parts(p);
}
FASCICLE_COOPERATIVE(fascicle_exact_squares_total, fascicle::ExactSquaresTotalParams, 512) {
    fascicle::exact_squares_total(p);
}
FASCICLE_INDEPENDENT(fascicle_exact_total, fascicle::ExactTotalParams, 1) { fascicle::exact_total(p); }
