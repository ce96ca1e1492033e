#include "handle.h"

#include <algorithm>

#include "../core/graph.h"
#include "../core/live.h"
#include "../core/memory.h"
#include "pace.h"

namespace emulator {

static Table<Blas>& handles() {
    static auto* table = new Table<Blas>("BLAS handle", 8);
    return *table;
}

Outcome outcome_of(Status status) {
    switch (status) {
        case Status::Success: return Outcome::Success;
        case Status::OutOfMemory: return Outcome::OutOfMemory;
        case Status::NotInitialized: case Status::InvalidContext: return Outcome::NotInitialized;
        case Status::InvalidValue: return Outcome::InvalidValue;
        default: return Outcome::ExecutionFailed;
    }
}

Outcome create_blas(void** handle, Library library, bool allocates_in_captures) {
    if (!handle) return Outcome::InvalidValue;
    TRY(outcome_of(check_uncaptured()));
    static const bool counted = (count_live("blas", [] { return handles().size(); }), true);
    (void)counted;
    auto blas = std::make_shared<Blas>();
    blas->library = library;
    blas->allocates_in_captures = allocates_in_captures;
    TRY(outcome_of(current(blas->context)));
    *handle = handles().insert<void*>(blas);
    return Outcome::Success;
}

Outcome destroy_blas(void* handle, Library library) {
    BlasRef blas;
    TRY(find_blas(handle, blas, library));
    return handles().remove(handle) ? Outcome::Success : Outcome::NotInitialized;
}

Outcome find_blas(const void* handle, BlasRef& blas, Library library) {
    if (!handle) return misuse(Outcome::NullHandle, "the BLAS handle is null");
    blas = handles().find(handle);
    if (!blas) return Outcome::NotInitialized;
    if (blas->library == library) return Outcome::Success;
    return misuse(Outcome::NotInitialized, "BLAS handle %p is of the other library (Lt or not)", handle);
}

Outcome set_workspace(void* handle, void* start, std::size_t bytes) {
    BlasRef blas;
    TRY(find_blas(handle, blas));
    const auto address = reinterpret_cast<std::uint64_t>(start);
    if (bytes > 0 && address % 256 != 0) return misuse(Outcome::InvalidValue, "a workspace at %p, which is no multiple of 256", start);
    if (bytes > 0) TRY(outcome_of(check_range(blas->context, address, bytes, false, "the workspace")));
    blas->workspace = {static_cast<unsigned char*>(start), bytes};
    return Outcome::Success;
}

Outcome check_device_of(const BlasRef& blas) {
    ContextRef now;
    TRY(outcome_of(current(now)));
    if (now == blas->context) return Outcome::Success;
    return misuse(Outcome::ExecutionFailed, "the handle is of device %d, the current context of device %d", blas->context->device,
                  now->device);
}

Outcome stream_of(const ContextRef& context, const void* handle, StreamRef& stream) {
    TRY(outcome_of(find_stream(handle, stream)));
    if (stream->context == context) return Outcome::Success;
    return misuse(Outcome::ExecutionFailed, "the handle is of device %d, its stream of device %d", context->device,
                  stream->context->device);
}

static Outcome check_types(const Product& product) {
    const auto input = product.a.type;
    const bool same = input == product.b.type;
    const bool output = product.c_type == input || (product.c_type == Type::F32 && size_of(input) == 2);
    if (same && output) return Outcome::Success;
    return misuse(Outcome::NotSupported, "this combination of types is not supported");
}

Outcome check_matrix(const ContextRef& context, const char* name, const void* data, Type type, std::int64_t rows,
                     std::int64_t columns, std::int64_t leading, std::int64_t stride, int batch) {
    if (leading < std::max<std::int64_t>(1, rows))
        return misuse(Outcome::InvalidValue, "leading dimension %ld of %s, %ld rows", leading, name, rows);
    if (rows == 0 || columns == 0) return Outcome::Success;
    const auto elements = (batch - 1) * stride + (columns - 1) * leading + rows;
    return outcome_of(check_range(context, reinterpret_cast<std::uint64_t>(data), elements * size_of(type), false, name));
}

static Outcome check_call(const ContextRef& context, const Call& call) {
    const auto& [m, n, k, alpha, beta, a, b, c, c_type, c_leading] = call.product;
    if (m < 0 || n < 0 || k < 0 || call.batch < 0)
        return misuse(Outcome::InvalidValue, "m %ld, n %ld, k %ld, batch %d", m, n, k, call.batch);
    if (!call.alpha || !call.beta) return misuse(Outcome::InvalidValue, "alpha or beta is null");
    if (m == 0 || n == 0 || call.batch == 0) return Outcome::Success;
    TRY(check_types(call.product));
    TRY(check_matrix(context, "a", a.data, a.type, a.transposed ? k : m, a.transposed ? m : k, a.leading, call.a_stride, call.batch));
    TRY(check_matrix(context, "b", b.data, b.type, b.transposed ? n : k, b.transposed ? k : n, b.leading, call.b_stride, call.batch));
    return check_matrix(context, "c", c, c_type, m, n, c_leading, call.c_stride, call.batch);
}

Touch matrix_touch(const void* data, Type type, std::int64_t rows, std::int64_t columns, std::int64_t leading, std::int64_t stride,
                   int batch, bool writes) {
    const auto elements = rows > 0 && columns > 0 ? (batch - 1) * stride + (columns - 1) * leading + rows : 0;
    return {reinterpret_cast<std::uint64_t>(data), elements * size_of(type), writes};
}

static Touches touches_of(const Call& call) {
    const auto& [m, n, k, alpha, beta, a, b, c, c_type, c_leading] = call.product;
    return {matrix_touch(a.data, a.type, a.transposed ? k : m, a.transposed ? m : k, a.leading, call.a_stride, call.batch, false),
            matrix_touch(b.data, b.type, b.transposed ? n : k, b.transposed ? k : n, b.leading, call.b_stride, call.batch, false),
            matrix_touch(c, c_type, m, n, c_leading, call.c_stride, call.batch, true),
            {reinterpret_cast<std::uint64_t>(call.workspace.start), call.workspace.bytes, true}};
}

static double scalar(const void* address, Type type) {
    return with_float(type, [address](auto* value) { return static_cast<double>(*static_cast<decltype(value)>(const_cast<void*>(address))); });
}

static void run(const Call& call) {
    for (int index = 0; index < call.batch; ++index) {
        Product product = call.product;
        product.a.data = advance(product.a.data, index * call.a_stride, product.a.type);
        product.b.data = advance(product.b.data, index * call.b_stride, product.b.type);
        product.c = advance(product.c, index * call.c_stride, product.c_type);
        multiply(product);
    }
}

Outcome queue_products(const ContextRef& context, void* handle, Call call) {
    StreamRef stream;
    TRY(stream_of(context, handle, stream));
    TRY(check_call(context, call));
    if (call.product.m == 0 || call.product.n == 0 || call.batch == 0) return Outcome::Success;
    auto read = [](Call& of) {
        of.product.alpha = scalar(of.alpha, of.scalar);
        of.product.beta = scalar(of.beta, of.scalar);
    };
    if (!call.scalars_on_device) read(call);
    stream->submit([call, read] {
        Call now = call;
        if (now.scalars_on_device) read(now);
        const auto token = now.workspace.take();
        keep_pace(0);
        run(now);
        return now.workspace.give_back(token);
    }, touches_of(call), current_symbol());
    return Outcome::Success;
}

Outcome queue_products(const BlasRef& blas, Call call) {
    TRY(check_device_of(blas));
    call.workspace = blas->workspace;
    if (call.workspace.bytes == 0) {
        if (blas->allocates_in_captures || !blas->has_workspace.load()) TRY(outcome_of(check_uncaptured()));
        blas->has_workspace.store(true);
    }
    call.scalars_on_device = blas->scalars_on_device;
    return queue_products(blas->context, blas->stream, call);
}

}  // namespace emulator
