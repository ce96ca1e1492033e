// Defines the names of the kernels' `portable.h` for the host. It must be included before any kernel.
//
// A block's lanes run one after another on one thread of the host. A kernel whose lanes never meet is called in a plain
// loop. In any other kernel, each lane has its own stack and switches to another lane where lanes meet (block.cpp).
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <initializer_list>

#define FASCICLE_TILES "tile_host.h"
// Warps of 32 are NVIDIA's, whose devices of compute capability 9.0 have warpgroups.
#if defined(FASCICLE_WARP) && FASCICLE_WARP == 32
#define FASCICLE_GROUPS "group_host.h"
#endif
#define FASCICLE_DEVICE inline __attribute__((always_inline))
#define FASCICLE_UNROLL
#define FASCICLE_ROLLED
#define FASCICLE_UNROLL_4
#define FASCICLE_INDEPENDENT(name, Params, threads) FASCICLE_SIMT_KERNEL(name, Params, threads, false)
#define FASCICLE_RESIDENT(name, Params, threads, blocks) FASCICLE_COOPERATIVE(name, Params, threads)
#define FASCICLE_COOPERATIVE(name, Params, threads) FASCICLE_SIMT_KERNEL(name, Params, threads, true)

// A kernel is a function that registers itself in the table of kernels, under its name and the width of warps.
#define FASCICLE_SIMT_KERNEL(name, Params, threads, meets)                                           \
    static void name(const Params& p);                                                               \
    static const simt::Registration name##_entry(                                          \
        {#name, fascicle::WARP, threads, meets, sizeof(Params), alignof(Params), #Params,            \
         [](const void* arguments) { name(*static_cast<const Params*>(arguments)); }});              \
    static void name(const Params& p)

namespace simt {

struct Index {
    uint32_t x, y, z;
};

// The running lane's indices, and its block's shared memory.
struct Place {
    Index thread, block, block_size, grid_size;
    uint32_t linear;  // of the thread in the block
    uint8_t* shared;
};

// A kernel in the table.
struct Kernel {
    const char* name;
    uint32_t warp;
    uint32_t max_threads;
    bool meets;
    size_t argument_bytes;
    size_t argument_alignment;
    const char* argument;  // the name of its type
    void (*run)(const void* arguments);
};

struct Registration {
    explicit Registration(const Kernel& kernel);
};

// Pointers in a kernel's argument: `count` of them, `step` bytes apart.
struct Operand {
    const char* argument;
    size_t offset, count, step;
    bool written;
};

// The table of all operands.
struct Operands {
    Operands(std::initializer_list<Operand> rows);
};

// The address of the first byte of shared memory: a multiple of 16 and of no more, which is all that a device promises.
constexpr uint32_t SHARED_START = 16;

// Bytes that a lane can show to its warp at once.
constexpr size_t SHOWN_BYTES = 64;

extern __thread Place place __attribute__((tls_model("initial-exec")));

// Waits until every lane of the block has arrived here.
void meet_block();

// Shows `bytes` of `value` to the warp, waits until every lane has done so, and returns what all lanes showed. Lane i's
// bytes begin at i * SHOWN_BYTES, and stay valid until this lane has shown something twice more.
const uint8_t* show(const void* value, size_t bytes);

// Ends the launch with a report, because an access of `bytes` at `address` is not aligned to them.
void misaligned(const void* address, size_t bytes);

// Copies of `bytes`, at most 16, that a lane has started. They arrive when it waits for them, and until then `to` holds NaN.
void copy_later(void* to, const void* from, uint32_t bytes, bool exists);
void end_copies();
// Lets all groups but the latest `pending` arrive.
void await_copies(size_t pending);

}  // namespace simt

// A vector access of `bytes`.
#define FASCICLE_ACCESS(address, bytes) \
    do {                                                                                    \
        if (uintptr_t(address) % (bytes) != 0) simt::misaligned(address, bytes);            \
    } while (0)

// Only a file that is compiled for one width of warps contains kernels.
#if defined(FASCICLE_WARP)

namespace fascicle {

constexpr uint32_t WARP = FASCICLE_WARP;

FASCICLE_DEVICE uint32_t thread_x() { return simt::place.thread.x; }
FASCICLE_DEVICE uint32_t thread_y() { return simt::place.thread.y; }
FASCICLE_DEVICE uint32_t block_x() { return simt::place.block.x; }
FASCICLE_DEVICE uint32_t block_y() { return simt::place.block.y; }
FASCICLE_DEVICE uint32_t block_z() { return simt::place.block.z; }
FASCICLE_DEVICE uint32_t block_size_x() { return simt::place.block_size.x; }
FASCICLE_DEVICE uint32_t block_size_y() { return simt::place.block_size.y; }
FASCICLE_DEVICE uint32_t grid_size_x() { return simt::place.grid_size.x; }
FASCICLE_DEVICE uint32_t grid_size_y() { return simt::place.grid_size.y; }

FASCICLE_DEVICE void barrier() { simt::meet_block(); }
FASCICLE_DEVICE uint8_t* shared_memory() { return simt::place.shared; }

template <class T>
FASCICLE_DEVICE T exchange(T value, uint32_t mask) {
    static_assert(sizeof(T) <= simt::SHOWN_BYTES, "fits what a lane can show");
    const uint8_t* shown = simt::show(&value, sizeof(T));
    T other;
    memcpy(&other, shown + ((simt::place.linear % WARP) ^ mask) * simt::SHOWN_BYTES, sizeof(T));
    return other;
}

template <class T>
FASCICLE_DEVICE T from_lane(T value, uint32_t lane) {
    static_assert(sizeof(T) <= simt::SHOWN_BYTES, "fits what a lane can show");
    const uint8_t* shown = simt::show(&value, sizeof(T));
    T other;
    memcpy(&other, shown + lane * simt::SHOWN_BYTES, sizeof(T));
    return other;
}

FASCICLE_DEVICE uint64_t ballot(bool predicate) {
    const uint8_t* shown = simt::show(&predicate, 1);
    uint64_t bits = 0;
    for (uint32_t lane = 0; lane < WARP; lane++) bits |= uint64_t(shown[lane * simt::SHOWN_BYTES]) << lane;
    return bits;
}

FASCICLE_DEVICE uint32_t lowest_bit(uint64_t bits) { return uint32_t(__builtin_ctzll(bits)); }
FASCICLE_DEVICE uint32_t highest_bit(uint64_t bits) { return 63 - uint32_t(__builtin_clzll(bits)); }
FASCICLE_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }

FASCICLE_DEVICE void sincospi(double x, double* sine, double* cosine) {
    *sine = sin(3.141592653589793 * x);
    *cosine = cos(3.141592653589793 * x);
}
FASCICLE_DEVICE void sincospif(float x, float* sine, float* cosine) {
    *sine = float(sin(3.141592653589793 * double(x)));
    *cosine = float(cos(3.141592653589793 * double(x)));
}

}  // namespace fascicle

#endif
