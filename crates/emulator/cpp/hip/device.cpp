// HIP: initialisation, devices, errors.
#include <cstdio>
#include <utility>

#include "../core/context.h"
#include "../core/settings.h"
#include "call.h"

using namespace emulator;

EXPORT Status hipInit(unsigned flags) {
    CALL(Status::Unknown, { return flags == 0 ? initialize() : Status::InvalidValue; });
}

EXPORT Status hipRuntimeGetVersion(int* version) {
    CALL(Status::Unknown, { GIVE(version, EMULATOR_HIP_VERSION); return Status::Success; });
}

EXPORT Status hipDriverGetVersion(int* version) {
    CALL(Status::Unknown, { GIVE(version, EMULATOR_HIP_VERSION); return Status::Success; });
}

EXPORT Status hipGetLastError() { return std::exchange(last_status, Status::Success); }
EXPORT Status hipPeekAtLastError() { return last_status; }

EXPORT const char* hipGetErrorName(int error) {
    const auto* text = status_text(error);
    return text ? text->hip_name : "hipErrorUnknown";
}

EXPORT const char* hipGetErrorString(int error) {
    const auto* text = status_text(error);
    return text ? text->sentence : "unknown error";
}

EXPORT Status hipDrvGetErrorName(int error, const char** name) {
    GIVE(name, hipGetErrorName(error));
    return status_text(error) ? Status::Success : Status::InvalidValue;
}

EXPORT Status hipDrvGetErrorString(int error, const char** sentence) {
    GIVE(sentence, hipGetErrorString(error));
    return status_text(error) ? Status::Success : Status::InvalidValue;
}

EXPORT Status hipGetDeviceCount(int* count) {
    CALL(Status::Unknown, {
        TRY(check_initialized());
        GIVE(count, settings().devices);
        return Status::Success;
    });
}

EXPORT Status hipDeviceGet(int* device, int ordinal) {
    CALL(Status::Unknown, {
        TRY(check_device(ordinal));
        GIVE(device, ordinal);
        return Status::Success;
    });
}

EXPORT Status hipSetDevice(int device) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(retain_primary(device, context));
        set_current(context);
        return Status::Success;
    });
}

EXPORT Status hipGetDevice(int* device) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(current(context));
        GIVE(device, context->device);
        return Status::Success;
    });
}

EXPORT Status hipDeviceSynchronize() {
    CALL(Status::LaunchFailed, {
        ContextRef context;
        TRY(current(context));
        return synchronize(context);
    });
}

EXPORT Status hipDeviceReset() {
    RELEASE({
        ContextRef context;
        TRY(current(context));
        return reset_primary(context->device);
    });
}

EXPORT Status hipDeviceGetName(char* name, int length, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        if (!name || length <= 0) return Status::InvalidValue;
        std::snprintf(name, length, "Fascicle emulator (HIP)");
        return Status::Success;
    });
}

EXPORT Status hipDeviceGetPCIBusId(char* text, int length, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        if (!text || length < 13) return Status::InvalidValue;
        std::snprintf(text, length, "0000:%02x:00.0", device + 1);
        return Status::Success;
    });
}

EXPORT Status hipDeviceTotalMem(std::size_t* bytes, int device) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        GIVE(bytes, settings().memory_bytes);
        return Status::Success;
    });
}

EXPORT Status hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
    CALL(Status::Unknown, {
        if (least) *least = 1;
        if (greatest) *greatest = -1;
        return check_initialized();
    });
}

EXPORT Status hipDeviceCanAccessPeer(int* can, int device, int peer) {
    CALL(Status::Unknown, {
        TRY(check_device(device));
        TRY(check_device(peer));
        GIVE(can, device != peer);
        return Status::Success;
    });
}

EXPORT Status hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(current(context));
        return flags == 0 ? enable_peer(context, peer) : Status::InvalidValue;
    });
}

EXPORT Status hipDeviceDisablePeerAccess(int peer) {
    CALL(Status::Unknown, {
        ContextRef context;
        TRY(current(context));
        return disable_peer(context, peer);
    });
}
