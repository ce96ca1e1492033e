#include "event.h"

#include "graph.h"

namespace emulator {

static Table<Event>& events() {
    static auto* table = new Table<Event>("event", 3);
    return *table;
}

Status create_event(unsigned flags, void** handle) {
    if (!handle) return Status::InvalidValue;
    auto event = std::make_shared<Event>();
    TRY(current(event->context));
    event->flags = flags;
    *handle = events().insert<void*>(event);
    return Status::Success;
}

Status destroy_event(void* handle) { return events().remove(handle) ? Status::Success : Status::InvalidHandle; }

Status find_event(const void* handle, EventRef& event) {
    event = events().find(handle);
    return event ? Status::Success : Status::InvalidHandle;
}

Status record_event(const EventRef& event, const StreamRef& stream) {
    if (event->context != stream->context)
        return misuse(Status::InvalidHandle, "the event is of device %d, the stream of device %d", event->context->device,
                      stream->context->device);
    auto capture = stream->capture();
    auto ticket = capture ? nullptr : stream->submit([] { return Status::Success; });
    std::lock_guard guard(event->lock);
    event->capture = std::move(capture);
    event->recorded_in = stream.get();
    event->ticket = std::move(ticket);
    event->clock = stream->timeline.now();
    return Status::Success;
}

Status wait_event(const StreamRef& stream, const EventRef& event) {
    std::unique_lock guard(event->lock);
    const auto ticket = event->ticket;
    const auto capture = event->capture;
    const auto* recorded_in = event->recorded_in;
    const auto clock = event->clock;
    guard.unlock();
    if (capture) return join_capture(stream, capture, recorded_in);
    if (!ticket) return Status::Success;
    if (stream->capturing())
        return misuse(Status::CaptureIsolation, "a captured stream waits for an event that was recorded outside of the capture");
    stream->timeline.follow(clock);
    stream->wait_for({ticket});
    return Status::Success;
}

static Status ticket_of(const EventRef& event, TicketRef& ticket, Clock* clock = nullptr) {
    std::lock_guard guard(event->lock);
    if (event->capture) {
        std::lock_guard own(event->capture->lock);
        event->capture->invalid = true;
        return misuse(Status::CaptureUnsupported, "the event was recorded in a capture");
    }
    ticket = event->ticket;
    if (clock) *clock = event->clock;
    return Status::Success;
}

Status query_event(const EventRef& event) {
    TicketRef ticket;
    Clock clock;
    TRY(ticket_of(event, ticket, &clock));
    TRY(check_uncaptured());
    if (ticket && !ticket->done()) return Status::NotReady;
    observe(clock);
    return static_cast<Status>(event->context->fault.load());
}

Status synchronize_event(const EventRef& event) {
    TicketRef ticket;
    Clock clock;
    TRY(ticket_of(event, ticket, &clock));
    TRY(check_uncaptured());
    if (ticket) ticket->wait();
    observe(clock);
    return static_cast<Status>(event->context->fault.load());
}

Status elapsed_ms(const EventRef& start, const EventRef& end, float* milliseconds) {
    if (!milliseconds) return Status::InvalidValue;
    TicketRef first, last;
    TRY(ticket_of(start, first));
    TRY(ticket_of(end, last));
    if (!first || !last) return misuse(Status::InvalidHandle, "an event was not recorded");
    if ((start->flags | end->flags) & event_without_timing) return misuse(Status::InvalidHandle, "an event has no timing");
    if (start->context != end->context) return misuse(Status::InvalidHandle, "the events are of different devices");
    if (!first->done() || !last->done()) return Status::NotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(last->when() - first->when()).count();
    return Status::Success;
}

long live_events() { return events().size(); }

}  // namespace emulator
