// HIP: streams and events, and those functions of theirs that the driver does not have.
#include "call.h"

#include "../shared/stream.h"

EXPORT Status hipStreamCreate(void** stream) {
    CALL(Status::OutOfMemory, { return create_stream(0, 0, stream); });
}

EXPORT Status hipStreamCreateWithFlags(void** stream, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_stream(flags, 0, stream); });
}

EXPORT Status hipEventCreate(void** event) {
    CALL(Status::OutOfMemory, { return create_event(0, event); });
}

EXPORT Status hipEventCreateWithFlags(void** event, unsigned flags) {
    CALL(Status::OutOfMemory, { return create_event(flags, event); });
}

#if EMULATOR_HIP_VERSION >= 60000000
EXPORT Status hipEventRecordWithFlags(void* event, void* stream, unsigned) {
    CALL(Status::Unknown, { return record(event, stream); });
}
#endif
