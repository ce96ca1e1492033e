// LayerNorm and RMSNorm, backward, of full rows: x and d_out are read once.
//
// A block takes a part of the rows, and each of its threads the same columns of all of them. It reads several rows ahead, sums
// each row over the block, writes its d_x, and adds its share of the gradients of gain and bias, which stay in registers. Row
// sums are those of `norm_row_sums`, by the same tree, column sums those of `norm_column_sums`, row by row, and d_x has the bits
// of `normalize_backward`.
#pragma once

#include "norm_backward.h"

namespace fascicle {

struct NormBackwardParams {
    NormSizes sizes;
    const void* x;
    const void* moments;
    const void* gain;
    const void* d_out;
    const void* addend;  // or null
    void* d_x;
    void* partials;  // as of `NormColumnSumsParams`
    u64 rows_of_part;
};

// Packs that a thread reads ahead, each of x and of d_out. It has P of each row, in neighbouring chunks.
constexpr int BACKWARD_PACKS = 2;
// The most threads of a block. `lower/norm_full.rs` knows both, and the size of a node.
constexpr int BACKWARD_THREADS = 512;

// Some rows of a thread's columns, and the moments of row l % R in lane l.
template <class T, int P>
struct NormRows {
    static constexpr int N = SIXTEEN_BYTES<T>, R = BACKWARD_PACKS / P;
    Pack<T, N> x[R][P], d_out[R][P];
    Acc<T> mean, squares;

    // Those from `row` on. Rows from `end` on are 0, with statistics that are numbers. `aligned` says that the packs of all rows
    // are complete, and their addresses aligned.
    FASCICLE_DEVICE void load(const NormBackwardParams& p, u64 row, u64 end, u64 column, u64 left, bool aligned) {
        u64 columns = p.sizes.columns;
        const T* from_x = static_cast<const T*>(p.x) + row * columns + column;
        const T* from_d_out = static_cast<const T*>(p.d_out) + row * columns + column;
        if (aligned && row + R <= end) {
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                FASCICLE_UNROLL
                for (int k = 0; k < P; k++) {
                    copy_whole<T, N>(x[r][k].at, from_x + r * columns + k * CHUNK<T>);
                    copy_whole<T, N>(d_out[r][k].at, from_d_out + r * columns + k * CHUNK<T>);
                }
            }
        } else {
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) {
                u64 of_row = row + r < end ? left : 0;
                load_chunks(from_x + r * columns, of_row, x[r]);
                load_chunks(from_d_out + r * columns, of_row, d_out[r]);
            }
        }
        u64 own = row + lane_index() % R;
        const Acc<T>* moments = static_cast<const Acc<T>*>(p.moments) + 2 * own;
        mean = own < end ? moments[0] : Acc<T>(0);
        squares = own < end ? moments[1] : Acc<T>(p.sizes.global_columns);
    }
};

// Adds to numbers once they have been rounded to the addends' type.
template <class T, class A, int N>
FASCICLE_DEVICE void add_rounded(Pack<A, N>& numbers, const Pack<T, N>& addends) {
    FASCICLE_UNROLL
    for (int i = 0; i < N; i++) numbers.at[i] = A(widen(narrow<T>(numbers.at[i]))) + A(widen(addends.at[i]));
}

template <class T, int P>
FASCICLE_DEVICE void norm_backward(const NormBackwardParams& p) {
    using A = Acc<T>;
    using Rows = NormRows<T, P>;
    using Node = NormSumsNode<A>;
    constexpr int N = Rows::N, R = Rows::R;
    static_assert(BACKWARD_THREADS / WARP <= MOST_JOINED_WARPS<R>, "a row is that of one block");
    u64 columns = p.sizes.columns, part = block_x(), first = part * p.rows_of_part;
    u64 end = first + p.rows_of_part < p.sizes.rows ? first + p.rows_of_part : p.sizes.rows;
    u64 column = (warp_index() * P * WARP + lane_index()) * N, left = column < columns ? columns - column : 0;
    bool complete = left >= (P - 1) * CHUNK<T> + N;
    bool aligned = complete && columns % N == 0 && is_aligned<T, N>(static_cast<const T*>(p.x)) &&
                   is_aligned<T, N>(static_cast<const T*>(p.d_out));
    u32 warps = block_size_x() / WARP;
    // The sums of a batch of rows are read while the next ones are written.
    Node* of_warps = reinterpret_cast<Node*>(shared_memory());
    Node* of_next = of_warps + warps * R;

    Pack<A, N> d_gain[P]{}, d_bias[P]{};
    Rows next;
    next.load(p, first, end, column, left, aligned);
    for (u64 row = first; row < end; row += R) {
        Rows rows = next;
        // Read again for each batch, from a cache: kept, it would take registers that some compilers lack.
        Pack<T, N> gain[P];
        load_chunks(static_cast<const T*>(p.gain) + column, left, gain);
        if (row + R < end) next.load(p, row + R, end, column, left, aligned);

        RowStatistics<A> own = statistics_of(p.sizes, rows.mean, rows.squares), statistics[R];
        Node nodes[R * P];
        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            statistics[r] = {from_lane(own.mean, r), from_lane(own.rstd, r)};
            FASCICLE_UNROLL
            for (int k = 0; k < P; k++) {
                auto x = widened<A>(rows.x[r][k]), d = widened<A>(rows.d_out[r][k]);
                auto factors = factors_of<A>(gain[k], p.sizes);
                Node of_pack[N];
                FASCICLE_UNROLL
                for (int i = 0; i < N; i++) {
                    A xhat = (x.at[i] - statistics[r].mean) * statistics[r].rstd, g = d.at[i] * factors.at[i];
                    d_gain[k].at[i] = multiply_add(d.at[i], xhat, d_gain[k].at[i]);
                    d_bias[k].at[i] += d.at[i];
                    of_pack[i] = {g, g * xhat};
                }
                if (!complete) {
                    FASCICLE_UNROLL
                    for (int i = 0; i < N; i++) {
                        if (u64(i) >= left_behind<T>(left, k)) of_pack[i] = Node::empty();
                    }
                }
                nodes[r * P + k] = join_pack(of_pack);
            }
        }
        auto addend_of = [&](int r, int k) {
            const T* from = static_cast<const T*>(p.addend) + (row + r) * columns + column + k * CHUNK<T>;
            return load<N>(from, row + r < end ? left_behind<T>(left, k) : 0);
        };
        // On their way while the rows are summed, if there is one pack of each; more would take registers that some compilers lack.
        Pack<T, N> addends[R];
        if (P == 1 && p.addend) {
            FASCICLE_UNROLL
            for (int r = 0; r < R; r++) addends[r] = addend_of(r, 0);
        }
        auto join = [](u32, Node left, Node right) { return Node::join(left, right); };
        Node node = join_each_chunk(nodes, true, join);
        FASCICLE_UNROLL
        for (u32 mask = 1; mask < u32(P); mask *= 2) node = join_two(node, node, mask, true, join);
        if (lane_index() < R * P && lane_index() % P == 0) of_warps[warp_index() * R + lane_index() / P] = node;
        barrier();
        Node sums = join_warps<R>(of_warps, warps);
        A mean_g = p.sizes.centred ? sums.g / A(p.sizes.global_columns) : A(0);
        A mean_g_xhat = sums.g_xhat / A(p.sizes.global_columns);
        Node* other = of_warps;
        of_warps = of_next;
        of_next = other;

        FASCICLE_UNROLL
        for (int r = 0; r < R; r++) {
            A of_g = from_lane(mean_g, r), of_g_xhat = from_lane(mean_g_xhat, r);
            FASCICLE_UNROLL
            for (int k = 0; k < P; k++) {
                u64 at = column + k * CHUNK<T>, of_pack = row + r < end ? left_behind<T>(left, k) : 0;
                auto d = widened<A>(rows.d_out[r][k]);
                gradient_of_pack(d, widened<A>(rows.x[r][k]), factors_of<A>(gain[k], p.sizes), statistics[r], of_g, of_g_xhat);
                if (p.addend) add_rounded(d, P == 1 ? addends[r] : addend_of(r, k));
                store_as<N>(static_cast<T*>(p.d_x) + (row + r) * columns + at, d, of_pack);
            }
        }
    }
    A* partials = static_cast<A*>(p.partials) + 2 * part * columns + column;
    FASCICLE_UNROLL
    for (int k = 0; k < P; k++) {
        store<N>(partials + k * CHUNK<T>, d_gain[k], left_behind<T>(left, k));
        store<N>(partials + columns + k * CHUNK<T>, d_bias[k], left_behind<T>(left, k));
    }
}

}  // namespace fascicle

#define FASCICLE_NORM_FULL_BACKWARD(suffix, T)                                                                           \
    FASCICLE_COOPERATIVE(fascicle_norm_backward_1_##suffix, fascicle::NormBackwardParams, fascicle::BACKWARD_THREADS) {  \
        fascicle::norm_backward<T, 1>(p);                                                                                \
    }                                                                                                                    \
    FASCICLE_COOPERATIVE(fascicle_norm_backward_2_##suffix, fascicle::NormBackwardParams, fascicle::BACKWARD_THREADS) {  \
        fascicle::norm_backward<T, 2>(p);                                                                                \
    }
FASCICLE_FLOATS(FASCICLE_NORM_FULL_BACKWARD)
