// Kernels with faults that a run in the order of blocks and lanes, with copies that arrive at once, would hide.
#include "simt.h"

#include "faulty.h"
#include "tile.h"

using namespace fascicle;

// Reads what it copies before it waits.
FASCICLE_COOPERATIVE(faulty_copy, fascicle::FaultyParams, 32) {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    copy_async(shared + 4 * lane_index(), static_cast<const float*>(p.from) + 4 * lane_index(), true);
    commit_copies();
    static_cast<float*>(p.to)[lane_index()] = shared[4 * lane_index()];
    await_copies<0>();
}

// The same in the right order.
FASCICLE_COOPERATIVE(right_copy, fascicle::FaultyParams, 32) {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    copy_async(shared + 4 * lane_index(), static_cast<const float*>(p.from) + 4 * lane_index(), true);
    commit_copies();
    await_copies<0>();
    static_cast<float*>(p.to)[lane_index()] = shared[4 * lane_index()];
}

// Loads 16 bytes from an address that is aligned to 4.
FASCICLE_INDEPENDENT(faulty_alignment, fascicle::FaultyParams, 32) {
    float pack[4];
    copy_whole<float, 4>(pack, static_cast<const float*>(p.from) + 1);
    static_cast<float*>(p.to)[0] = pack[0];
}

// The last block by number is not the last to run.
FASCICLE_INDEPENDENT(faulty_blocks, fascicle::FaultyParams, 32) { static_cast<float*>(p.to)[0] = float(block_x()); }

// The second warp reads what the first writes, without a barrier between them.
FASCICLE_COOPERATIVE(faulty_barrier, fascicle::FaultyParams, 1024) {
    auto* shared = reinterpret_cast<float*>(shared_memory());
    shared[thread_x()] = 1;
    uint32_t warps = block_size_x() / WARP, before = (warp_index() + warps - 1) % warps;
    if (warp_index() > 0) static_cast<float*>(p.to)[thread_x()] = shared[before * WARP + lane_index()];
}

// Writes one number behind the shared memory that the tests ask for.
FASCICLE_COOPERATIVE(faulty_shared, fascicle::FaultyParams, 32) {
    if (lane_index() == 0) reinterpret_cast<float*>(shared_memory())[4096 / sizeof(float)] = 1;
}
