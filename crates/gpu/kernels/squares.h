// The norm of all gradients, and the factor that clips them.
#pragma once

#include "loops.h"
#include "reduce.h"

namespace fascicle {

// Elements of one slice whose squares make one partial sum.
constexpr u64 SQUARES_PART = 32768;
constexpr u32 SQUARES_SLICES = 128;

struct SquaresSlice {
    const void* x;
    u64 len;
    u32 first_block;
    u32 dtype;  // 0 f64, 1 f32, 2 bf16, 3 f16
};

// The slices that fit into the arguments of one launch.
struct SquaresPartsParams {
    void* partials;
    u32 num_slices;
    u32 unused;
    SquaresSlice slices[SQUARES_SLICES];
};

struct SquaresTotalParams {
    const void* partials;
    void* out;
    u64 parts;
};

struct ClipScaleParams {
    const void* sum_squares;
    void* out;
    double max_norm;  // infinite for none
    double gradient_scale;
};

// The last entry whose first block does not come after this block: the tensor that the block works on.
template <class Entry>
FASCICLE_DEVICE u32 entry_of_block(const Entry* entries, u32 count) {
    u32 low = 0;
    u32 high = count;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (entries[middle].first_block <= block_x()) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

template <class T>
FASCICLE_DEVICE double squares_of(const void* x, u64 start, u64 end) {
    constexpr int N = SIXTEEN_BYTES<T>;
    double sum = 0;
    each_pack_of_row<N>(end - start, thread_x(), block_size_x(), [&](u64 at, u64 left) {
        auto pack = load_as<double, N>(static_cast<const T*>(x) + start + at, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) sum += pack.at[i] * pack.at[i];
    });
    return sum;
}

FASCICLE_DEVICE double squares_of_slice(const SquaresSlice& slice, u64 start, u64 end) {
    return slice.dtype == 0   ? squares_of<double>(slice.x, start, end)
           : slice.dtype == 1 ? squares_of<float>(slice.x, start, end)
           : slice.dtype == 2 ? squares_of<bf16>(slice.x, start, end)
                              : squares_of<f16>(slice.x, start, end);
}

// Calls `work` with the part of a slice that this block has: its elements, and where they start and end.
template <class Params, class Work>
FASCICLE_DEVICE auto of_part(const Params& p, Work work) {
    const SquaresSlice& slice = p.slices[entry_of_block(p.slices, p.num_slices)];
    u64 start = (block_x() - slice.first_block) * SQUARES_PART;
    u64 end = start + SQUARES_PART < slice.len ? start + SQUARES_PART : slice.len;
    return work(slice, start, end);
}

FASCICLE_DEVICE void squares_parts(const SquaresPartsParams& p) {
    double sum = block_sum(of_part(p, squares_of_slice), reinterpret_cast<double*>(shared_memory()));
    if (thread_x() == 0) static_cast<double*>(p.partials)[block_x()] = sum;
}

FASCICLE_DEVICE void squares_total(const SquaresTotalParams& p) {
    double sum = 0;
    for (u64 part = thread_x(); part < p.parts; part += block_size_x()) {
        sum += static_cast<const double*>(p.partials)[part];
    }
    sum = block_sum(sum, reinterpret_cast<double*>(shared_memory()));
    if (thread_x() == 0) static_cast<double*>(p.out)[0] += sum;
}

FASCICLE_DEVICE void clip_scale(const ClipScaleParams& p) {
    double sum = static_cast<const double*>(p.sum_squares)[0];
    double norm = p.gradient_scale * sqrt(sum);
    double clip = p.max_norm / (norm + 1e-6);
    double factor = p.gradient_scale * (clip < 1 ? clip : 1.0);
    bool finite = sum - sum == 0;
    double* out = static_cast<double*>(p.out);
    out[0] = finite ? factor : sum - sum;
    out[1] = norm;
}

}  // namespace fascicle

FASCICLE_COOPERATIVE(fascicle_squares_parts, fascicle::SquaresPartsParams, 256) { fascicle::squares_parts(p); }
FASCICLE_COOPERATIVE(fascicle_squares_total, fascicle::SquaresTotalParams, 512) { fascicle::squares_total(p); }
FASCICLE_INDEPENDENT(fascicle_clip_scale, fascicle::ClipScaleParams, 1) { fascicle::clip_scale(p); }
