// What CUDA and HIP spell differently: indices, barriers, exchanges within a warp, shared memory, kernels.
//
// The kernels use these names only, so that one text compiles for both. A program that runs the kernels elsewhere defines the same
// names, FASCICLE_TILES, FASCICLE_ACCESS (which checks a vector access), sincospi and, if it has warpgroups, FASCICLE_GROUPS before
// it includes a kernel.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__)
#define FASCICLE_CUDA 1
#define FASCICLE_TILES "tile_cuda.h"
// What only code for one architecture has: sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(FASCICLE_GROUPS)
#define FASCICLE_GROUPS "group_cuda.h"
#endif
#elif defined(__HIPCC__) || defined(__HIP__)
#define FASCICLE_HIP 1
#define FASCICLE_TILES "tile_hip.h"
#include <hip/hip_runtime.h>
#elif !defined(FASCICLE_TILES)
#error "found neither nvcc nor hipcc; another compiler needs the names of this file defined before it"
#endif

namespace fascicle {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;

}  // namespace fascicle

#if defined(FASCICLE_CUDA) || defined(FASCICLE_HIP)

#define FASCICLE_DEVICE __device__ __forceinline__
#define FASCICLE_UNROLL _Pragma("unroll")
#define FASCICLE_ROLLED _Pragma("unroll 1")
#define FASCICLE_UNROLL_4 _Pragma("unroll 4")
// An independent kernel has no barrier and no exchange, so its threads may run one after another.
#define FASCICLE_INDEPENDENT(name, Params, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const Params p)
// A cooperative kernel has barriers or exchanges.
#define FASCICLE_COOPERATIVE(name, Params, threads) FASCICLE_INDEPENDENT(name, Params, threads)
// A cooperative kernel of which a multiprocessor is to hold `blocks` blocks at a time; so its registers are limited.
#if defined(FASCICLE_CUDA)
#define FASCICLE_RESIDENT(name, Params, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Params p)
#else
#define FASCICLE_RESIDENT(name, Params, threads, blocks) FASCICLE_COOPERATIVE(name, Params, threads)
#endif

namespace fascicle {

#if defined(FASCICLE_CUDA)
constexpr u32 WARP = 32;
#else
constexpr u32 WARP = 64;
#endif

FASCICLE_DEVICE u32 thread_x() { return threadIdx.x; }
FASCICLE_DEVICE u32 thread_y() { return threadIdx.y; }
FASCICLE_DEVICE u32 block_x() { return blockIdx.x; }
FASCICLE_DEVICE u32 block_y() { return blockIdx.y; }
FASCICLE_DEVICE u32 block_z() { return blockIdx.z; }
FASCICLE_DEVICE u32 block_size_x() { return blockDim.x; }
FASCICLE_DEVICE u32 block_size_y() { return blockDim.y; }
FASCICLE_DEVICE u32 grid_size_x() { return gridDim.x; }
FASCICLE_DEVICE u32 grid_size_y() { return gridDim.y; }

FASCICLE_DEVICE void barrier() { __syncthreads(); }

// The block's dynamic shared memory, aligned to 16 bytes.
FASCICLE_DEVICE u8* shared_memory() {
    extern __shared__ __align__(16) u8 fascicle_shared[];
    return fascicle_shared;
}

// The value of the lane whose index differs in the bits of `mask`. All lanes of the warp take part.
template <class T>
FASCICLE_DEVICE T exchange(T value, u32 mask) {
#if defined(FASCICLE_CUDA)
    return __shfl_xor_sync(0xffffffffu, value, mask);
#else
    return __shfl_xor(value, mask);
#endif
}

// The value of one lane, which is the same for all. All lanes of the warp take part.
template <class T>
FASCICLE_DEVICE T from_lane(T value, u32 lane) {
#if defined(FASCICLE_CUDA)
    return __shfl_sync(0xffffffffu, value, lane);
#else
    return __shfl(value, lane);
#endif
}

// One bit for every lane of the warp: whether its `predicate` holds.
FASCICLE_DEVICE u64 ballot(bool predicate) {
#if defined(FASCICLE_CUDA)
    return __ballot_sync(0xffffffffu, predicate);
#else
    return __ballot(predicate);
#endif
}

// The index of the lowest set bit of `bits`, which is not 0.
FASCICLE_DEVICE u32 lowest_bit(u64 bits) { return u32(__ffsll((long long)bits)) - 1; }
FASCICLE_DEVICE u32 highest_bit(u64 bits) { return 63 - u32(__clzll((long long)bits)); }

FASCICLE_DEVICE u32 multiply_high(u32 a, u32 b) { return __umulhi(a, b); }

}  // namespace fascicle

#endif

namespace fascicle {

// This thread's index in its warp, for blocks of one dimension.
FASCICLE_DEVICE u32 lane_index() { return thread_x() % WARP; }
// Its warp's index in the block.
FASCICLE_DEVICE u32 warp_index() { return thread_x() / WARP; }

}  // namespace fascicle
