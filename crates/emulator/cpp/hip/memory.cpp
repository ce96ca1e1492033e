// HIP: memory of devices and pinned memory of the host.
#include "../core/graph.h"
#include "../core/memory.h"

#include "call.h"

using namespace emulator;

static Status get(void** pointer, std::size_t bytes, Place place) {
    if (!pointer) return Status::InvalidValue;
    ContextRef context;
    TRY(current(context));
    *pointer = nullptr;
    return bytes == 0 ? Status::Success : allocate(context, place, bytes, reinterpret_cast<std::uint64_t*>(pointer));
}

EXPORT Status hipMalloc(void** pointer, std::size_t bytes) {
    CALL(Status::OutOfMemory, { return get(pointer, bytes, Place::Device); });
}

EXPORT Status hipExtMallocWithFlags(void** pointer, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, { return get(pointer, bytes, Place::Device); });
}

// Waits for the device, as HIP's documentation promises.
EXPORT Status hipFree(void* pointer) {
    RELEASE({
        ContextRef context;
        TRY(current(context));
        if (!pointer) return Status::Success;
        TRY(check_uncaptured());
        synchronize(context);
        return release(number(pointer), Place::Device);
    });
}

EXPORT Status hipMallocAsync(void** pointer, std::size_t bytes, void* handle) {
    CALL(Status::OutOfMemory, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return allocate_in_order(stream, bytes, reinterpret_cast<std::uint64_t*>(pointer));
    });
}

EXPORT Status hipFreeAsync(void* pointer, void* handle) {
    RELEASE({
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return release_in_order(number(pointer), stream);
    });
}

EXPORT Status hipMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(current(context));
        if (!free_bytes || !total_bytes) return Status::InvalidValue;
        memory_of(context->device, *free_bytes, *total_bytes);
        return Status::Success;
    });
}

EXPORT Status hipHostMalloc(void** pointer, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, { return get(pointer, bytes, Place::Pinned); });
}

EXPORT Status hipHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, { return get(pointer, bytes, Place::Pinned); });
}

EXPORT Status hipHostFree(void* pointer) {
    RELEASE({ return pointer ? release(number(pointer), Place::Pinned) : Status::Success; });
}

EXPORT Status hipHostRegister(void* pointer, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, { return register_host(pointer, bytes); });
}

EXPORT Status hipHostUnregister(void* pointer) { RELEASE({ return unregister_host(pointer); }); }

EXPORT Status hipHostGetDevicePointer(void** device, void* host, unsigned) {
    CALL(Status::Unknown, {
        Region region;
        if (!find_region(number(host), region)) return Status::InvalidValue;
        GIVE(device, host);
        return Status::Success;
    });
}

EXPORT Status hipMemGetAddressRange(void** start, std::size_t* bytes, void* pointer) {
    CALL(Status::Unknown, {
        Region region;
        if (!find_region(number(pointer), region) || !region.live) return Status::NotFound;
        if (start) *start = reinterpret_cast<void*>(region.address);
        if (bytes) *bytes = region.bytes;
        return Status::Success;
    });
}
