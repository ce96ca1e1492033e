// What cuBLAS and hipBLAS share: handles, the checks of a call, and its place in a stream.
#pragma once

#include "../core/stream.h"
#include "product.h"

namespace emulator {

// How a call ended; each vendor has its own number for it.
enum class Outcome { Success, NullHandle, NotInitialized, OutOfMemory, InvalidValue, InvalidEnum, NotSupported, ExecutionFailed };

constexpr bool failed(Outcome outcome) { return outcome != Outcome::Success; }

struct Blas {
    ContextRef context;
    void* stream = nullptr;
    bool scalars_on_device = false;
    std::atomic<int> math_mode{0};
    std::atomic<int> atomics{0};
};

using BlasRef = std::shared_ptr<Blas>;

// A batch of products; the strides count elements.
struct Call {
    Product product;
    const void* alpha;
    const void* beta;
    Type scalar;
    bool scalars_on_device;
    std::int64_t a_stride, b_stride, c_stride;
    int batch;
};

Outcome create_blas(void** handle);
Outcome destroy_blas(void* handle);
Outcome find_blas(const void* handle, BlasRef& blas);
Outcome outcome_of(Status status);

// Checks shapes, types and addresses, and queues the products.
Outcome queue_products(const ContextRef& context, void* stream, Call call);
// The same for a handle, whose device must be the thread's.
Outcome queue_products(const BlasRef& blas, Call call);

}  // namespace emulator
