// HIP: streams and events.
#include "../core/stream.h"

#include "../core/event.h"
#include "call.h"

using namespace emulator;

EXPORT Status hipStreamCreate(void** stream) {
    CALL(Status::OutOfMemory, { return create_stream(0, 0, stream); });
}

EXPORT Status hipStreamCreateWithFlags(void** stream, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_stream(flags, 0, stream); });
}

EXPORT Status hipStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
    CALL(Status::OutOfMemory, { return create_stream(flags, priority, stream); });
}

EXPORT Status hipStreamDestroy(void* stream) { RELEASE({ return destroy_stream(stream); }); }

EXPORT Status hipStreamQuery(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return query_stream(stream);
    });
}

EXPORT Status hipStreamSynchronize(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return synchronize_stream(stream);
    });
}

EXPORT Status hipStreamWaitEvent(void* handle, void* event, unsigned) {
    CALL(Status::Unknown, {
        StreamRef stream;
        EventRef found;
        TRY(find_stream(handle, stream));
        TRY(find_event(event, found));
        return wait_event(stream, found);
    });
}

EXPORT Status hipStreamGetPriority(void* handle, int* priority) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(priority, stream->priority);
        return Status::Success;
    });
}

EXPORT Status hipStreamGetFlags(void* handle, unsigned* flags) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(flags, stream->flags);
        return Status::Success;
    });
}

EXPORT Status hipLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
    CALL(Status::Unknown, {
        if (!function) return Status::InvalidValue;
        StreamRef stream;
        TRY(find_stream(handle, stream));
        stream->submit([=] {
            function(data);
            return Status::Success;
        });
        return Status::Success;
    });
}

EXPORT Status hipEventCreate(void** event) {
    CALL(Status::OutOfMemory, { return create_event(0, event); });
}

EXPORT Status hipEventCreateWithFlags(void** event, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_event(flags, event); });
}

EXPORT Status hipEventDestroy(void* event) { RELEASE({ return destroy_event(event); }); }

static Status record(void* event, void* handle) {
    StreamRef stream;
    EventRef found;
    TRY(find_stream(handle, stream));
    TRY(find_event(event, found));
    return record_event(found, stream);
}

EXPORT Status hipEventRecord(void* event, void* stream) {
    CALL(Status::Unknown, { return record(event, stream); });
}

#if EMULATOR_HIP_VERSION >= 60000000
EXPORT Status hipEventRecordWithFlags(void* event, void* stream, unsigned) {
    CALL(Status::Unknown, { return record(event, stream); });
}
#endif

EXPORT Status hipEventQuery(void* event) {
    CALL(Status::LaunchFailed, {
        EventRef found;
        TRY(find_event(event, found));
        return query_event(found);
    });
}

EXPORT Status hipEventSynchronize(void* event) {
    CALL(Status::LaunchFailed, {
        EventRef found;
        TRY(find_event(event, found));
        return synchronize_event(found);
    });
}

static Status elapsed(float* milliseconds, void* start, void* end) {
    EventRef first;
    EventRef last;
    TRY(find_event(start, first));
    TRY(find_event(end, last));
    return elapsed_ms(first, last, milliseconds);
}

EXPORT Status hipEventElapsedTime(float* milliseconds, void* start, void* end) {
    CALL(Status::Unknown, { return elapsed(milliseconds, start, end); });
}
