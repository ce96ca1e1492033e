// Rotary position embedding.
#pragma once

#include "loops.h"

namespace fascicle {

struct RopeParams {
    const void* x;
    void* out;
    u64 rows;
    u64 sequence;
    u64 first_position;
    const u32* places;  // of each row, in place of the two above; may be null
    u64 heads;
    u64 head_size;
    u64 turned;       // elements of a head that turn; the others are not written
    double exponent;  // -2 log2(base) / turned: the frequency of pair e is 2^(exponent * e)
    double sign;      // -1 turns the other way
    double factor;    // divides low frequencies; 1 leaves all
    double lowest;    // turns a token below which nothing of a frequency stays
    double per_turn;  // growth of the share that stays, for each turn a token above
};

FASCICLE_DEVICE void sine_and_cosine_of_pi(double x, double& sine, double& cosine) { sincospi(x, &sine, &cosine); }
FASCICLE_DEVICE void sine_and_cosine_of_pi(float x, float& sine, float& cosine) { sincospif(x, &sine, &cosine); }

template <class A>
struct Turn { A cosine, sine; };

// The turns a token of pair e.
FASCICLE_DEVICE double turns_per_token(const RopeParams& p, double e) {
    constexpr double TURNS_PER_RADIAN = 0.15915494309189534;
    double turns = exp2(p.exponent * e) * TURNS_PER_RADIAN;
    if (p.factor == 1) return p.sign * turns;
    double share = fmin(fmax((turns - p.lowest) * p.per_turn, 0.0), 1.0);
    return p.sign * turns * (share + (1 - share) / p.factor);
}

// Cosine and sine of the angle. The angle is reduced to a fraction of a full turn in f64, so a large position keeps its
// digits.
template <class A>
FASCICLE_DEVICE Turn<A> turn_of(double position, double per_token) {
    double turns = position * per_token;
    A half_turns = A(2 * (turns - rint(turns)));
    Turn<A> turn;
    sine_and_cosine_of_pi(half_turns, turn.sine, turn.cosine);
    return turn;
}

// A thread rotates the same pairs in every head of a row, so that each sine is computed once.
template <class T>
FASCICLE_DEVICE void rope(const RopeParams& p) {
    using A = Acc<T>;
    constexpr int N = SIXTEEN_BYTES<T>;
    u64 half = p.turned / 2;
    each_pack_of_rows<N>(p.rows, half, [&](u64 row, u64 e, u64 left) {
        Turn<A> turns[N];
        double place = double(p.places ? u64(p.places[row]) : p.first_position + row % p.sequence);
        FASCICLE_UNROLL
        for (int i = 0; i < N; i++) {
            turns[i] = turn_of<A>(place, turns_per_token(p, double(e + u64(i))));
        }
        for (u64 head = 0; head < p.heads; head++) {
            u64 at = (row * p.heads + head) * p.head_size + e;
            auto a = load_as<A, N>(static_cast<const T*>(p.x) + at, left);
            auto b = load_as<A, N>(static_cast<const T*>(p.x) + at + half, left);
            FASCICLE_UNROLL
            for (int i = 0; i < N; i++) {
                A first = a.at[i], second = b.at[i];
                a.at[i] = first * turns[i].cosine - second * turns[i].sine;
                b.at[i] = second * turns[i].cosine + first * turns[i].sine;
            }
            store_as<N>(static_cast<T*>(p.out) + at, a, left);
            store_as<N>(static_cast<T*>(p.out) + at + half, b, left);
        }
    });
}

}  // namespace fascicle

#define FASCICLE_ROPE(suffix, T) \
    FASCICLE_INDEPENDENT(fascicle_rope_##suffix, fascicle::RopeParams, 256) { fascicle::rope<T>(p); }
FASCICLE_FLOATS(FASCICLE_ROPE)
