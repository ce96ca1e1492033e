// Means of the squares of rows and columns, and directions of updates by them.
#pragma once

#include "lines.h"

namespace fascicle {

constexpr u32 FACTOR_TENSORS = 24;
constexpr u32 DIRECTION_TENSORS = 32;

// Of each pair, the first is of rows.
struct FactorMeansEntry {
    const void* largest[2];
    const void* sums[2];
    void* means[2];
    void* factors[2];
    u64 counts[2];
    double rounds;
    u32 first_block;
    u32 unused;
};

struct FactorMeansParams {
    const void* factor;
    double keep;
    double one_minus_keep;
    double epsilon;
    u32 num_tensors;
    u32 unused;
    FactorMeansEntry tensors[FACTOR_TENSORS];
};

struct FactorDirectionsEntry {
    void* gradients;
    const void* factors[2];
    u64 len;
    u64 columns;
    u64 start;
    u32 first_block;
    u32 unused;
};

struct FactorDirectionsParams {
    const void* factor;
    u32 num_tensors;
    u32 unused;
    FactorDirectionsEntry tensors[DIRECTION_TENSORS];
};

struct ClipDirectionsEntry {
    const void* largest;
    const void* sums;
    void* out;
    u64 rows;
    double elements;
    double rounds;
    u32 first_block;
    u32 unused;
};

struct ClipDirectionsParams {
    const void* factor;
    double most;
    u32 num_tensors;
    u32 unused;
    ClipDirectionsEntry tensors[DIRECTION_TENSORS];
};

// The sum of `count` positive numbers, each rounded so that their order does not matter; in every thread.
template <class Number>
FASCICLE_DEVICE double exact_sum(u64 count, double rounds, Number number) {
    double* scratch = reinterpret_cast<double*>(shared_memory());
    double largest = 0;
    for (u64 i = thread_x(); i < count; i += block_size_x()) largest = larger(largest, number(i));
    int power = scale_of_line(block_max(largest, scratch));
    double scale = power_of_two(-power), sum = 0;
    for (u64 i = thread_x(); i < count; i += block_size_x()) sum += (number(i) * scale + rounds) - rounds;
    return block_sum(sum, scratch) * power_of_two(power);
}

template <class A>
FASCICLE_DEVICE void factor_means(const FactorMeansParams& p) {
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const FactorMeansEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    for (int of = 0; of < 2; of++) {
        A* means = static_cast<A*>(entry.means[of]);
        double terms = double(entry.counts[1 - of]);
        for (u64 line = thread_x(); line < entry.counts[of]; line += block_size_x()) {
            double largest = static_cast<const double*>(entry.largest[of])[line];
            double root = power_of_two(scale_of_line(largest)) * factor;
            double squares = static_cast<const double*>(entry.sums[of])[line] / terms * root * root;
            means[line] = A(p.keep * double(means[line]) + p.one_minus_keep * (squares + p.epsilon));
        }
    }
    // A thread reads on only what it has written itself.
    const A* rows = static_cast<const A*>(entry.means[0]);
    const A* columns = static_cast<const A*>(entry.means[1]);
    double sum = exact_sum(entry.counts[0], entry.rounds, [&](u64 row) { return double(rows[row]); });
    double mean = sum / double(entry.counts[0]);
    for (u64 row = thread_x(); row < entry.counts[0]; row += block_size_x()) {
        static_cast<A*>(entry.factors[0])[row] = A(root_of(mean / double(rows[row])));
    }
    for (u64 column = thread_x(); column < entry.counts[1]; column += block_size_x()) {
        static_cast<A*>(entry.factors[1])[column] = A(1.0 / root_of(double(columns[column])));
    }
}

template <class A>
FASCICLE_DEVICE void factor_directions(const FactorDirectionsParams& p) {
    double factor = static_cast<const double*>(p.factor)[0];
    if (factor != factor) return;
    const FactorDirectionsEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    u64 row = block_of(entry), first = first_of_row(entry, row), end = first_of_row(entry, row + 1);
    A of_row = static_cast<const A*>(entry.factors[0])[row];
    const A* columns = static_cast<const A*>(entry.factors[1]);
    A* gradients = static_cast<A*>(entry.gradients);
    for (u64 i = first + thread_x(); i < end; i += block_size_x()) {
        gradients[i] = A(factor) * gradients[i] * columns[entry.start + i - row * entry.columns] * of_row;
    }
}

FASCICLE_DEVICE void clip_directions(const ClipDirectionsParams& p) {
    double factor = static_cast<const double*>(p.factor)[0];
    const ClipDirectionsEntry& entry = p.tensors[entry_of_block(p.tensors, p.num_tensors)];
    double total = exact_sum(entry.rows, entry.rounds, [&](u64 row) {
        double root = power_of_two(scale_of_line(static_cast<const double*>(entry.largest)[row]));
        return static_cast<const double*>(entry.sums)[row] * root * root;
    });
    if (thread_x() != 0) return;
    double root_mean_square = root_of(total / entry.elements);
    double clip = root_mean_square > p.most ? p.most / root_mean_square : 1.0;
    double* out = static_cast<double*>(entry.out);
    out[0] = factor != factor ? factor : clip;
    out[1] = root_mean_square;
}

}  // namespace fascicle

#define FASCICLE_FACTORED(suffix, A)                                                                      \
    FASCICLE_COOPERATIVE(fascicle_factor_means_##suffix, fascicle::FactorMeansParams, 256) {               \
        fascicle::factor_means<A>(p);                                                                     \
    }                                                                                                     \
    FASCICLE_INDEPENDENT(fascicle_factor_directions_##suffix, fascicle::FactorDirectionsParams, 256) {     \
        fascicle::factor_directions<A>(p);                                                                \
    }
FASCICLE_ACCUMULATORS(FASCICLE_FACTORED)
FASCICLE_COOPERATIVE(fascicle_clip_directions, fascicle::ClipDirectionsParams, 256) { fascicle::clip_directions(p); }
