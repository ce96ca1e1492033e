// Shared by cuBLAS and hipBLAS: handles, the checks of a call, and its place in a stream.
#pragma once

#include "../core/stream.h"
#include "product.h"
#include "workspace.h"

namespace emulator {

// The outcome of a call; each vendor has its own number for it.
enum class Outcome { Success, NullHandle, NotInitialized, OutOfMemory, InvalidValue, InvalidEnum, NotSupported, ExecutionFailed };

constexpr bool failed(Outcome outcome) { return outcome != Outcome::Success; }

// The vendor's library that a handle belongs to; neither accepts the other's handles.
enum class Library { Plain, Light };

struct Blas {
    ContextRef context;
    Library library = Library::Plain;
    void* stream = nullptr;
    std::atomic<bool> has_workspace{false};  // its own, allocated by the first GEMM
    bool allocates_in_captures = false;      // unless the caller has set a workspace, which has bytes
    Workspace workspace;
    bool scalars_on_device = false;
    std::atomic<int> math_mode{0};
    std::atomic<int> atomics{0};
};

using BlasRef = std::shared_ptr<Blas>;

// A batch of GEMMs; the strides count elements.
struct Call {
    Product product;
    const void* alpha;
    const void* beta;
    Type scalar;
    bool scalars_on_device;
    std::int64_t a_stride, b_stride, c_stride;
    int batch;
    Workspace workspace;
};

Outcome create_blas(void** handle, Library library = Library::Plain, bool allocates_in_captures = false);
// Memory of the caller for the GEMMs of a handle; without bytes, the library uses its own again.
Outcome set_workspace(void* handle, void* start, std::size_t bytes);
Outcome destroy_blas(void* handle, Library library = Library::Plain);
Outcome find_blas(const void* handle, BlasRef& blas, Library library = Library::Plain);
Outcome outcome_of(Status status);

// Whether a handle belongs to the thread's current device.
Outcome check_device_of(const BlasRef& blas);
// The stream of a handle, which must be one of `context`.
Outcome stream_of(const ContextRef& context, const void* handle, StreamRef& stream);
// Checks the address and the leading dimension of a matrix, or of a batch of them.
Outcome check_matrix(const ContextRef& context, const char* name, const void* data, Type type, std::int64_t rows,
                     std::int64_t columns, std::int64_t leading, std::int64_t stride = 0, int batch = 1);
// The access of such a matrix.
Touch matrix_touch(const void* data, Type type, std::int64_t rows, std::int64_t columns, std::int64_t leading, std::int64_t stride,
                   int batch, bool writes);
// The address `elements` elements further on.
template <class Pointer>
Pointer advance(Pointer data, std::int64_t elements, Type type) {
    return reinterpret_cast<Pointer>(reinterpret_cast<std::uint64_t>(data) + elements * size_of(type));
}

// Checks shapes, types and addresses, and queues the GEMMs.
Outcome queue_products(const ContextRef& context, void* stream, Call call);
// The same for a handle, which must belong to the thread's current device.
Outcome queue_products(const BlasRef& blas, Call call);

}  // namespace emulator
