// Kernels of warpgroups with faults that show on a device only now and then, or that end in a wait for ever.
#include "simt.h"

#include "faulty.h"
#include "group.h"

using namespace fascicle;

// Fills a tile of 64 x 64 ones, and starts its product with itself: all sums become 64.
FASCICLE_DEVICE bf16* start_ones(Sum (&sum)[4]) {
    bf16* tile = shared_tiles<bf16>();
    for (u32 i = thread_x(); i < 64 * 64; i += GROUP_THREADS) tile[i] = narrow<bf16>(1.0f);
    barrier();
    begin_products();
    start_scores<bf16, 64, 64>(sum, GroupTile<64>(tile), 0, GroupTile<64>(tile));
    return tile;
}

FASCICLE_DEVICE void write(const FaultyParams& p, float value) { static_cast<float*>(p.to)[thread_x()] = value; }

FASCICLE_COOPERATIVE(right_product, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
    await_products<0>();
    write(p, sum[3].at[7]);
}

// Reads the sum before it waits.
FASCICLE_COOPERATIVE(faulty_sum, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
    write(p, sum[3].at[7]);
    await_products<0>();
}

// Waits for all products but the one that it reads.
FASCICLE_COOPERATIVE(faulty_wait, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
    await_products<1>();
    write(p, sum[3].at[7]);
    await_products<0>();
}

// Begins to overwrite the tile before it waits: the second half of the columns.
FASCICLE_COOPERATIVE(faulty_tile, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    bf16* tile = start_ones(sum);
    for (u32 i = 32 * 64 + thread_x(); i < 64 * 64; i += GROUP_THREADS) tile[i] = narrow<bf16>(2.0f);
    await_products<0>();
    write(p, sum[3].at[7]);
}

// Scales the sum before it waits.
FASCICLE_COOPERATIVE(faulty_write, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
    sum[3].at[7] = 1;
    await_products<0>();
}

// Starts a product that nothing orders behind earlier uses of its sum.
FASCICLE_COOPERATIVE(faulty_order, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
    await_products<0>();
    GroupTile<64> tile(shared_tiles<bf16>());
    start_scores<bf16, 64, 64>(sum, tile, 0, tile);
    await_products<0>();
}

FASCICLE_COOPERATIVE(faulty_end, fascicle::FaultyParams, GROUP_THREADS) {
    Sum sum[4];
    start_ones(sum);
}

// A tile at a multiple of 16 only.
FASCICLE_COOPERATIVE(faulty_place, fascicle::FaultyParams, GROUP_THREADS) {
    GroupTile<64> tile(reinterpret_cast<const bf16*>(shared_memory()));
}

// Copies a tile, and starts its product with itself: by 16 bytes, as the copying groups do.
template <bool Publishes>
FASCICLE_DEVICE void multiply_copied(const FaultyParams& p) {
    Sum sum[4];
    bf16* tile = shared_tiles<bf16>();
    for (u32 i = 8 * thread_x(); i < 64 * 64; i += 8 * GROUP_THREADS) copy_async(tile + i, p.from, true);
    commit_copies();
    if (Publishes) publish_copies<0>();
    else await_copies<0>();
    barrier();
    begin_products();
    start_scores<bf16, 64, 64>(sum, GroupTile<64>(tile), 0, GroupTile<64>(tile));
    await_products<0>();
    write(p, 1);
}

FASCICLE_COOPERATIVE(right_publication, fascicle::FaultyParams, GROUP_THREADS) { multiply_copied<true>(p); }

// Waits for its copies, but does not make them visible to products.
FASCICLE_COOPERATIVE(faulty_publication, fascicle::FaultyParams, GROUP_THREADS) { multiply_copied<false>(p); }

// Waits for more arrivals than there are threads.
FASCICLE_COOPERATIVE(faulty_phase, fascicle::FaultyParams, GROUP_THREADS) {
    u32 at = shared_address(shared_memory());
    if (thread_x() == 0) init_barrier(at, GROUP_THREADS + 1);
    barrier();
    arrive(at);
    await_phase(at, 0);
}

// One phase after another, for as many arrivals as there are threads.
FASCICLE_COOPERATIVE(right_phase, fascicle::FaultyParams, GROUP_THREADS) {
    u32 at = shared_address(shared_memory());
    if (thread_x() == 0) init_barrier(at, GROUP_THREADS);
    barrier();
    for (u32 phase = 0; phase < 3; phase++) {
        arrive(at);
        await_phase(at, phase % 2);
    }
    write(p, 1);
}

// Uses a barrier that another warp initialises, without a barrier of the block between.
FASCICLE_COOPERATIVE(faulty_init, fascicle::FaultyParams, GROUP_THREADS) {
    u32 at = shared_address(shared_memory());
    if (thread_x() == 96) init_barrier(at, GROUP_THREADS);
    arrive(at);
    await_phase(at, 0);
}

// One group waits for the other, which does not.
FASCICLE_COOPERATIVE(right_turns, fascicle::FaultyParams, 2 * GROUP_THREADS) {
    if (thread_x() < GROUP_THREADS) meet_group(1);
    else await_group(1);
    write(p, 1);
}

// Each group waits for the other, at another barrier.
FASCICLE_COOPERATIVE(faulty_turns, fascicle::FaultyParams, 2 * GROUP_THREADS) {
    await_group(thread_x() < GROUP_THREADS ? 1 : 2);
}

// Nobody waits for the group that comes to the barrier.
FASCICLE_COOPERATIVE(faulty_meeting, fascicle::FaultyParams, GROUP_THREADS) { meet_group(1); }
