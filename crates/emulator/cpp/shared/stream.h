// Streams and events: the functions that CUDA's driver and HIP have in common, under `NAME(cuda, hip)`.
//
// Included by each vendor's stream.cpp, after its call.h.
#pragma once

#include "../core/event.h"
#include "../core/stream.h"

using namespace emulator;

EXPORT Status NAME(cuStreamCreateWithPriority, hipStreamCreateWithPriority)(void** stream, unsigned flags, int priority) {
    CALL(Status::OutOfMemory, { return create_stream(flags, priority, stream); });
}

EXPORT Status NAME(cuStreamDestroy_v2, hipStreamDestroy)(void* stream) { RELEASE({ return destroy_stream(stream); }); }

EXPORT Status NAME(cuStreamQuery, hipStreamQuery)(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return query_stream(stream);
    });
}

EXPORT Status NAME(cuStreamSynchronize, hipStreamSynchronize)(void* handle) {
    CALL(Status::LaunchFailed, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        return synchronize_stream(stream);
    });
}

EXPORT Status NAME(cuStreamWaitEvent, hipStreamWaitEvent)(void* handle, void* event, unsigned) {
    CALL(Status::Unknown, {
        StreamRef stream;
        EventRef found;
        TRY(find_stream(handle, stream));
        TRY(find_event(event, found));
        return wait_event(stream, found);
    });
}

EXPORT Status NAME(cuStreamGetPriority, hipStreamGetPriority)(void* handle, int* priority) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(priority, stream->priority);
        return Status::Success;
    });
}

EXPORT Status NAME(cuStreamGetFlags, hipStreamGetFlags)(void* handle, unsigned* flags) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(flags, stream->flags);
        return Status::Success;
    });
}

EXPORT Status NAME(cuLaunchHostFunc, hipLaunchHostFunc)(void* handle, void (*function)(void*), void* data) {
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

EXPORT Status NAME(cuEventDestroy_v2, hipEventDestroy)(void* event) { RELEASE({ return destroy_event(event); }); }

static Status record(void* event, void* handle) {
    StreamRef stream;
    EventRef found;
    TRY(find_stream(handle, stream));
    TRY(find_event(event, found));
    return record_event(found, stream);
}

EXPORT Status NAME(cuEventRecord, hipEventRecord)(void* event, void* stream) {
    CALL(Status::Unknown, { return record(event, stream); });
}

EXPORT Status NAME(cuEventQuery, hipEventQuery)(void* event) {
    CALL(Status::LaunchFailed, {
        EventRef found;
        TRY(find_event(event, found));
        return query_event(found);
    });
}

EXPORT Status NAME(cuEventSynchronize, hipEventSynchronize)(void* event) {
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

EXPORT Status NAME(cuEventElapsedTime, hipEventElapsedTime)(float* milliseconds, void* start, void* end) {
    CALL(Status::Unknown, { return elapsed(milliseconds, start, end); });
}
