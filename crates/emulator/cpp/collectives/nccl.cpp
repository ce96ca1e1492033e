// NCCL's and RCCL's functions. EMULATOR_NCCL_VERSION (22304 for 2.23.4) selects those that exist.
#include <climits>
#include <cstring>

#include "../core/memory.h"
#include "../core/settings.h"
#include "communicator.h"

using namespace emulator;

#define CALL(standard, ...)    \
    static Symbol symbol(__func__); \
    return enter(symbol, Result::standard, [&]() -> Result __VA_ARGS__)

#define RELEASE(...)           \
    static Symbol symbol(__func__); \
    return enter_release(symbol, Result::System, [&]() -> Result __VA_ARGS__)

// The part of ncclConfig_t that is read here; newer versions only append to it.
struct Config {
    std::size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
};

// -1 if the configuration leaves it open.
static Result read_blocking(const Config* config, int& blocking) {
    blocking = -1;
    if (!config) return Result::Success;
    if (config->magic != 0xcafebeef || config->size < sizeof(Config))
        return misuse(Result::InvalidArgument, "the configuration has magic %#x and %zu bytes", config->magic, config->size);
    if (config->blocking == INT_MIN) return Result::Success;
    if (config->blocking != 0 && config->blocking != 1) return misuse(Result::InvalidArgument, "blocking is %d", config->blocking);
    blocking = config->blocking;
    return Result::Success;
}

EXPORT Result ncclGetVersion(int* version) {
    CALL(System, {
        if (!version) return Result::InvalidArgument;
        *version = static_cast<int>(quantity("FASCICLE_EMULATOR_NCCL", EMULATOR_NCCL_VERSION));
        return Result::Success;
    });
}

EXPORT Result ncclGetUniqueId(UniqueId* id) {
    CALL(System, { return make_id(id); });
}

EXPORT const char* ncclGetErrorString(Result result) {
    switch (result) {
        case Result::Success: return "no error";
        case Result::UnhandledCuda: return "unhandled cuda error";
        case Result::System: return "unhandled system error";
        case Result::Internal: return "internal error";
        case Result::InvalidArgument: return "invalid argument";
        case Result::InvalidUsage: return "invalid usage";
        case Result::Remote: return "remote process exited or there was a network error";
        case Result::InProgress: return "operation in progress";
    }
    return "unknown result code";
}

EXPORT const char* ncclGetLastError(void*) { return last_error(); }

EXPORT Result ncclCommInitRank(void** communicator, int size, UniqueId id, int rank) {
    CALL(System, { return init_rank(communicator, size, id, rank, true); });
}

EXPORT Result ncclCommInitRankConfig(void** communicator, int size, UniqueId id, int rank, const Config* config) {
    CALL(System, {
        int blocking = -1;
        TRY(read_blocking(config, blocking));
        return init_rank(communicator, size, id, rank, blocking != 0);
    });
}

EXPORT Result ncclCommFinalize(void* communicator) {
    CALL(System, { return finalize(communicator); });
}

EXPORT Result ncclCommDestroy(void* communicator) { RELEASE({ return destroy(communicator, false); }); }
EXPORT Result ncclCommAbort(void* communicator) { RELEASE({ return destroy(communicator, true); }); }

#if EMULATOR_NCCL_VERSION >= 21800
EXPORT Result ncclCommSplit(void* communicator, int color, int key, void** made, const Config* config) {
    CALL(System, {
        int blocking = -1;
        TRY(read_blocking(config, blocking));
        return split(communicator, color, key, made, blocking);
    });
}
#endif

#if EMULATOR_NCCL_VERSION >= 21900
EXPORT Result ncclMemAlloc(void** pointer, std::size_t bytes) {
    CALL(UnhandledCuda, {
        ContextRef context;
        if (failed(current(context))) return Result::UnhandledCuda;
        return failed(allocate(context, Place::Device, bytes, reinterpret_cast<std::uint64_t*>(pointer))) ? Result::UnhandledCuda : Result::Success;
    });
}

EXPORT Result ncclMemFree(void* pointer) {
    RELEASE({ return failed(release(reinterpret_cast<std::uint64_t>(pointer), Place::Device)) ? Result::InvalidArgument : Result::Success; });
}

EXPORT Result ncclCommRegister(void* communicator, void* buffer, std::size_t bytes, void** handle) {
    CALL(System, {
        CommunicatorRef found;
        TRY(find_communicator(communicator, found));
        if (!handle || failed(check_range(found->context, reinterpret_cast<std::uint64_t>(buffer), bytes, false, "registered buffer")))
            return Result::InvalidArgument;
        *handle = buffer;
        return Result::Success;
    });
}

EXPORT Result ncclCommDeregister(void* communicator, void*) {
    RELEASE({
        CommunicatorRef found;
        return find_communicator(communicator, found);
    });
}
#endif

#if EMULATOR_NCCL_VERSION >= 22300
EXPORT Result ncclCommInitRankScalable(void** communicator, int size, int rank, int ids, const UniqueId* id, const Config* config) {
    CALL(System, {
        int blocking = -1;
        TRY(read_blocking(config, blocking));
        if (ids < 1 || !id) return Result::InvalidArgument;
        return init_rank(communicator, size, id[0], rank, blocking != 0);
    });
}
#endif

EXPORT Result ncclCommGetAsyncError(void* communicator, Result* error) {
    CALL(System, {
        CommunicatorRef found;
        TRY(find_communicator(communicator, found));
        if (!error) return Result::InvalidArgument;
        *error = state_of(found);
        return Result::Success;
    });
}

EXPORT Result ncclCommCount(void* communicator, int* count) {
    CALL(System, {
        CommunicatorRef found;
        TRY(find_communicator(communicator, found));
        if (!count) return Result::InvalidArgument;
        *count = found->size;
        return Result::Success;
    });
}

EXPORT Result ncclCommUserRank(void* communicator, int* rank) {
    CALL(System, {
        CommunicatorRef found;
        TRY(find_communicator(communicator, found));
        if (!rank) return Result::InvalidArgument;
        *rank = found->rank;
        return Result::Success;
    });
}

EXPORT Result ncclCommCuDevice(void* communicator, int* device) {
    CALL(System, {
        CommunicatorRef found;
        TRY(find_communicator(communicator, found));
        if (!device) return Result::InvalidArgument;
        *device = found->context->device;
        return Result::Success;
    });
}
