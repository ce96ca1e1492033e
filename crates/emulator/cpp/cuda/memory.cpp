// The driver: memory of devices and pinned memory of the host.
#include "../core/memory.h"

#include "call.h"

using namespace emulator;
using Address = std::uint64_t;

EXPORT Status cuMemAlloc_v2(Address* address, std::size_t bytes) {
    CALL(Status::OutOfMemory, {
        ContextRef context;
        TRY(current(context));
        return allocate(context, Place::Device, bytes, address);
    });
}

EXPORT Status cuMemFree_v2(Address address) {
    RELEASE({
        ContextRef context;
        TRY(current(context));
        return address ? release(address, Place::Device) : Status::Success;
    });
}

EXPORT Status cuMemAllocAsync(Address* address, std::size_t bytes, void* handle) {
    CALL(Status::OutOfMemory, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return allocate_in_order(stream, bytes, address);
    });
}

EXPORT Status cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, void*, void* handle) {
    CALL(Status::OutOfMemory, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return allocate_in_order(stream, bytes, address);
    });
}

EXPORT Status cuMemFreeAsync(Address address, void* handle) {
    RELEASE({
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return release_in_order(address, stream);
    });
}

EXPORT Status cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(current(context));
        if (!free_bytes || !total_bytes) return Status::InvalidValue;
        memory_of(context->device, *free_bytes, *total_bytes);
        return Status::Success;
    });
}

EXPORT Status cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, {
        ContextRef context;
        TRY(current(context));
        return allocate(context, Place::Pinned, bytes, reinterpret_cast<Address*>(address));
    });
}

EXPORT Status cuMemAllocHost_v2(void** address, std::size_t bytes) {
    CALL(Status::OutOfMemory, {
        ContextRef context;
        TRY(current(context));
        return allocate(context, Place::Pinned, bytes, reinterpret_cast<Address*>(address));
    });
}

EXPORT Status cuMemFreeHost(void* address) { RELEASE({ return release(reinterpret_cast<Address>(address), Place::Pinned); }); }

EXPORT Status cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned) {
    CALL(Status::OutOfMemory, { return register_host(address, bytes); });
}

EXPORT Status cuMemHostUnregister(void* address) { RELEASE({ return unregister_host(address); }); }

EXPORT Status cuMemHostGetDevicePointer_v2(Address* address, void* host, unsigned) {
    CALL(Status::Unknown, {
        Region region;
        if (!find_region(reinterpret_cast<Address>(host), region)) return Status::InvalidValue;
        GIVE(address, reinterpret_cast<Address>(host));
        return Status::Success;
    });
}

EXPORT Status cuMemGetAddressRange_v2(Address* start, std::size_t* bytes, Address address) {
    CALL(Status::Unknown, {
        Region region;
        if (!find_region(address, region) || !region.live) return Status::NotFound;
        if (start) *start = region.address;
        if (bytes) *bytes = region.bytes;
        return Status::Success;
    });
}

// CU_POINTER_ATTRIBUTE_MEMORY_TYPE (2; a host's is 1, a device's 2) and _DEVICE_ORDINAL (9).
EXPORT Status cuPointerGetAttribute(void* value, int attribute, Address address) {
    CALL(Status::Unknown, {
        Region region;
        if (!value || !find_region(address, region) || !region.live) return Status::InvalidValue;
        const bool device = region.place == Place::Device;
        if (attribute != 2 && attribute != 9) return Status::NotSupported;
        *static_cast<int*>(value) = attribute == 9 ? region.device : device ? 2 : 1;
        return Status::Success;
    });
}
