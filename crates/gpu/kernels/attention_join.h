// Joins the attention of two blocks of keys.
#pragma once

#include "loops.h"

namespace fascicle {

struct AttentionJoinParams {
    u64 sequences;
    u64 queries;  // per sequence
    u64 heads;
    u64 head_size;
    void* out;                      // of the accumulator type; updated
    const void* log_sum_exp;        // of `out`: sequences x heads x queries
    const void* block;
    const void* block_log_sum_exp;
    void* joined;                   // the log-sum-exp of both
};

// The shares of two sums in their total, and its logarithm.
template <class A>
struct Shares { A first, second, log_sum; };

template <class A>
FASCICLE_DEVICE Shares<A> shares_of(A first, A second) {
    A largest = first > second ? first : second;
    // Neither block has a key for the query, and a difference of infinities is not a number.
    if (largest == minus_infinity<A>()) return {A(1), A(0), largest};
    A of_first = exp_of(first - largest), of_second = exp_of(second - largest);
    A total = of_first + of_second;
    return {of_first / total, of_second / total, largest + log_of(total)};
}

// A row is one head of one token.
template <class T>
FASCICLE_DEVICE void attention_join(const AttentionJoinParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    each_pack_of_rows<N>(p.sequences * p.queries * p.heads, p.head_size, [&](u64 row, u64 e, u64 left) {
        u64 token = row / p.heads, head = row % p.heads;
        u64 sum = (token / p.queries * p.heads + head) * p.queries + token % p.queries;
        Shares<A> shares = shares_of(static_cast<const A*>(p.log_sum_exp)[sum],
                                     static_cast<const A*>(p.block_log_sum_exp)[sum]);
        if (e == 0) static_cast<A*>(p.joined)[sum] = shares.log_sum;
        u64 at = row * p.head_size + e;
        A* out = static_cast<A*>(p.out) + at;
        auto own = load_as<A, N>(static_cast<const A*>(out), left);
        auto block = load_as<A, N>(static_cast<const T*>(p.block) + at, left);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) own.at[i] = shares.first * own.at[i] + shares.second * block.at[i];
        store_as<N>(out, own, left);
    });
}

}  // namespace fascicle

#define FASCICLE_ATTENTION_JOIN(suffix, T)                                                           \
    FASCICLE_INDEPENDENT(fascicle_attention_join_##suffix, fascicle::AttentionJoinParams, 256) {     \
        fascicle::attention_join<T>(p);                                                              \
    }
FASCICLE_FLOATS(FASCICLE_ATTENTION_JOIN)
