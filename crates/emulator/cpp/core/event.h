// A point in a stream, which can be recorded, queried and waited for.
#pragma once

#include "stream.h"

namespace emulator {

constexpr unsigned event_without_timing = 2;

struct Event {
    ContextRef context;
    unsigned flags = 0;
    std::mutex lock;
    TicketRef ticket;        // null before the first record
    CaptureRef capture;      // the capture that it was last recorded in
    Clock clock;             // what its point knows
    const Stream* recorded_in = nullptr;
};

using EventRef = std::shared_ptr<Event>;

Status create_event(unsigned flags, void** handle);
Status destroy_event(void* handle);
Status find_event(const void* handle, EventRef& event);
Status record_event(const EventRef& event, const StreamRef& stream);
// The stream waits, the host does not.
Status wait_event(const StreamRef& stream, const EventRef& event);
Status query_event(const EventRef& event);
Status synchronize_event(const EventRef& event);
Status elapsed_ms(const EventRef& start, const EventRef& end, float* milliseconds);

long live_events();

}  // namespace emulator
