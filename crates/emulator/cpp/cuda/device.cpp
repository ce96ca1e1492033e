// The driver: initialisation, devices, contexts, error texts.
#include <cstdio>
#include <cstring>

#include "../core/context.h"
#include "../core/settings.h"
#include "call.h"

using namespace emulator;

EXPORT Status cuInit(unsigned flags) {
    CALL(Status::Unknown, { return flags == 0 ? initialize() : Status::InvalidValue; });
}

EXPORT Status cuDriverGetVersion(int* version) {
    CALL(Status::Unknown, { GIVE(version, EMULATOR_CUDA_VERSION); return Status::Success; });
}

EXPORT Status cuGetErrorName(int error, const char** name) {
    const auto* text = status_text(error);
    GIVE(name, text ? text->cuda_name : nullptr);
    return text ? Status::Success : Status::InvalidValue;
}

EXPORT Status cuGetErrorString(int error, const char** sentence) {
    const auto* text = status_text(error);
    GIVE(sentence, text ? text->sentence : nullptr);
    return text ? Status::Success : Status::InvalidValue;
}

EXPORT Status cuDeviceGetCount(int* count) {
    CALL(Status::Unknown, {
        TRY(check_initialized());
        GIVE(count, settings().devices);
        return Status::Success;
    });
}

EXPORT Status cuDeviceGet(int* device, int ordinal) {
    CALL(Status::Unknown, {
        TRY(check_device(ordinal));
        GIVE(device, ordinal);
        return Status::Success;
    });
}

EXPORT Status cuDeviceGetName(char* name, int length, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        if (!name || length <= 0) return Status::InvalidValue;
        std::snprintf(name, length, "Fascicle emulator (CUDA)");
        return Status::Success;
    });
}

EXPORT Status cuDeviceGetUuid_v2(char* uuid, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        if (!uuid) return Status::InvalidValue;
        std::memset(uuid, 0, 16);
        uuid[15] = static_cast<char>(device);
        return Status::Success;
    });
}

EXPORT Status cuDeviceGetUuid(char* uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

EXPORT Status cuDeviceGetPCIBusId(char* text, int length, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        if (!text || length < 13) return Status::InvalidValue;
        std::snprintf(text, length, "0000:%02X:00.0", device + 1);
        return Status::Success;
    });
}

EXPORT Status cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(bytes, settings().memory_bytes);
        return Status::Success;
    });
}

EXPORT Status cuDeviceCanAccessPeer(int* can, int device, int peer) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        TRY(check_device(peer));
        GIVE(can, device != peer);
        return Status::Success;
    });
}

EXPORT Status cuDevicePrimaryCtxRetain(void** context, int device) {
    CALL(Status::OutOfMemory, {
        if (!context) return Status::InvalidValue;
        ContextRef retained;
        TRY(retain_primary(device, retained));
        *context = retained->handle;
        return Status::Success;
    });
}

EXPORT Status cuDevicePrimaryCtxRelease_v2(int device) { RELEASE({ return release_primary(device); }); }
EXPORT Status cuDevicePrimaryCtxReset_v2(int device) { RELEASE({ return reset_primary(device); }); }

EXPORT Status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    CALL(Status::Unknown, { return check_device(device); });
}

EXPORT Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(flags, 0);
        GIVE(active, primary_active(device));
        return Status::Success;
    });
}
