// The driver: memory pools. Each device has one, and it caches nothing.
#include "../core/memory.h"
#include "../core/settings.h"
#include "call.h"

using namespace emulator;

static void* pool_of(int device) { return reinterpret_cast<void*>(0x00fe700000000000ull + 16 * (device + 1)); }

EXPORT Status cuDeviceGetDefaultMemPool(void** pool, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(pool, pool_of(device));
        return Status::Success;
    });
}

EXPORT Status cuDeviceGetMemPool(void** pool, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(pool, pool_of(device));
        return Status::Success;
    });
}

EXPORT Status cuMemPoolTrimTo(void*, std::size_t) {
    CALL(Status::Unknown, { return check_initialized(); });
}

EXPORT Status cuMemPoolSetAttribute(void*, int, void* value) {
    CALL(Status::Unknown, { return value ? Status::Success : Status::InvalidValue; });
}

EXPORT Status cuMemPoolGetAttribute(void* pool, int, void* value) {
    CALL(Status::Unknown, {
        for (int device = 0; value && device < settings().devices; ++device) {
            if (pool_of(device) != pool) continue;
            std::size_t free_bytes, total_bytes;
            memory_of(device, free_bytes, total_bytes);
            *static_cast<std::uint64_t*>(value) = total_bytes - free_bytes;
            return Status::Success;
        }
        return Status::InvalidValue;
    });
}
