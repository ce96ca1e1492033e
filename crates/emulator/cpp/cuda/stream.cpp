// The driver: streams and events, and those functions of theirs that HIP does not have.
#include "call.h"

#include "../shared/stream.h"

EXPORT Status cuStreamCreate(void** stream, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_stream(flags, 0, stream); });
}

EXPORT Status cuStreamGetCtx(void* handle, void** context) {
    CALL(Status::Unknown, {
        StreamRef stream;
        TRY(find_stream(handle, stream));
        GIVE(context, stream->context->handle);
        return Status::Success;
    });
}

EXPORT Status cuEventCreate(void** event, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_event(flags, event); });
}

EXPORT Status cuEventRecordWithFlags(void* event, void* stream, unsigned) {
    CALL(Status::Unknown, { return record(event, stream); });
}

EXPORT Status cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    CALL(Status::Unknown, { return elapsed(milliseconds, start, end); });
}
