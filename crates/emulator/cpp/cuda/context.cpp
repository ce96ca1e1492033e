// The driver: the contexts of a thread.
#include "../core/context.h"

#include "call.h"

using namespace emulator;

EXPORT Status cuCtxCreate_v2(void** context, unsigned, int device) {
    CALL(Status::OutOfMemory, {
        TRY(check_device(device));
        auto made = create_context(device);
        GIVE(context, made->handle);
        push_current(made);
        return Status::Success;
    });
}

EXPORT Status cuCtxDestroy_v2(void* context) { RELEASE({ return destroy_context(context); }); }

EXPORT Status cuCtxSetCurrent(void* context) {
    CALL(Status::Unknown, {
        TRY(check_initialized());
        ContextRef found;
        if (context) TRY(find_context(context, found));
        set_current(found);
        return Status::Success;
    });
}

EXPORT Status cuCtxGetCurrent(void** context) {
    CALL(Status::Unknown, {
        TRY(check_initialized());
        const auto found = current_or_null();
        GIVE(context, found ? found->handle : nullptr);
        return Status::Success;
    });
}

EXPORT Status cuCtxPushCurrent_v2(void* context) {
    CALL(Status::Unknown, {
        ContextRef found;
        TRY(find_context(context, found));
        push_current(found);
        return Status::Success;
    });
}

EXPORT Status cuCtxPopCurrent_v2(void** context) {
    CALL(Status::Unknown, {
        ContextRef popped;
        TRY(pop_current(popped));
        if (context) *context = popped->handle;
        return Status::Success;
    });
}

EXPORT Status cuCtxGetDevice(int* device) {
    CALL(Status::Unknown, {
        ContextRef found;
        TRY(current(found));
        GIVE(device, found->device);
        return Status::Success;
    });
}

EXPORT Status cuCtxSynchronize() {
    CALL(Status::Unknown, {
        ContextRef found;
        TRY(current(found));
        return synchronize(found);
    });
}

EXPORT Status cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    CALL(Status::Unknown, {
        ContextRef found;
        TRY(current(found));
        if (least) *least = 0;
        if (greatest) *greatest = -5;
        return Status::Success;
    });
}

EXPORT Status cuCtxGetApiVersion(void*, unsigned* version) {
    CALL(Status::Unknown, { GIVE(version, 3020); return Status::Success; });
}

EXPORT Status cuCtxSetLimit(int, std::size_t) {
    CALL(Status::Unknown, {
        ContextRef found;
        return current(found);
    });
}

EXPORT Status cuCtxEnablePeerAccess(void* peer, unsigned flags) {
    CALL(Status::Unknown, {
        ContextRef own;
        ContextRef other;
        TRY(current(own));
        TRY(find_context(peer, other));
        return flags == 0 ? enable_peer(own, other->device) : Status::InvalidValue;
    });
}

EXPORT Status cuCtxDisablePeerAccess(void* peer) {
    CALL(Status::Unknown, {
        ContextRef own;
        ContextRef other;
        TRY(current(own));
        TRY(find_context(peer, other));
        return disable_peer(own, other->device);
    });
}
