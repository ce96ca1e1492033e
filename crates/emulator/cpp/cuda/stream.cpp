// The driver: streams and events.
#include "../core/stream.h"

#include "../core/event.h"
#include "call.h"

using namespace emulator;

EXPORT Status cuStreamCreate(void** stream, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_stream(flags, 0, stream); });
}

EXPORT Status cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
    CALL(Status::OutOfMemory, { return create_stream(flags, priority, stream); });
}

EXPORT Status cuStreamDestroy_v2(void* stream) { RELEASE({ return destroy_stream(stream); }); }

EXPORT Status cuStreamQuery(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return query_stream(stream);
    });
}

EXPORT Status cuStreamSynchronize(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return synchronize_stream(stream);
    });
}

EXPORT Status cuStreamWaitEvent(void* handle, void* event, unsigned) {
    CALL(Status::Unknown, {
        StreamRef stream;
        EventRef found;
        TRY(find_stream(handle, stream));
        TRY(find_event(event, found));
        return wait_event(stream, found);
    });
}

EXPORT Status cuStreamGetPriority(void* handle, int* priority) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(priority, stream->priority);
        return Status::Success;
    });
}

EXPORT Status cuStreamGetFlags(void* handle, unsigned* flags) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(flags, stream->flags);
        return Status::Success;
    });
}

EXPORT Status cuStreamGetCtx(void* handle, void** context) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(context, stream->context->handle);
        return Status::Success;
    });
}

EXPORT Status cuLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
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

EXPORT Status cuEventCreate(void** event, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_event(flags, event); });
}

EXPORT Status cuEventDestroy_v2(void* event) { RELEASE({ return destroy_event(event); }); }

static Status record(void* event, void* handle) {
    StreamRef stream;
    EventRef found;
    TRY(find_stream(handle, stream));
    TRY(find_event(event, found));
    return record_event(found, stream);
}

EXPORT Status cuEventRecord(void* event, void* stream) {
    CALL(Status::Unknown, { return record(event, stream); });
}

EXPORT Status cuEventRecordWithFlags(void* event, void* stream, unsigned) {
    CALL(Status::Unknown, { return record(event, stream); });
}

EXPORT Status cuEventQuery(void* event) {
    CALL(Status::LaunchFailed, {
        EventRef found;
        TRY(find_event(event, found));
        return query_event(found);
    });
}

EXPORT Status cuEventSynchronize(void* event) {
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

EXPORT Status cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    CALL(Status::Unknown, { return elapsed(milliseconds, start, end); });
}

EXPORT Status cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    CALL(Status::Unknown, { return elapsed(milliseconds, start, end); });
}
