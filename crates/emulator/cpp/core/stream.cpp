#include "stream.h"

#include "graph.h"

#include "settings.h"

namespace emulator {

// Shared with the thread, which outlives the stream until its work is done.
struct Stream::Queue {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<Item> items;
    TicketRef last;
    bool closed = false;
};

static Table<Stream>& streams() {
    static auto* table = new Table<Stream>("stream", 2);
    return *table;
}

static std::uint64_t next_seed() {
    static std::atomic<std::uint64_t> given{0};
    return settings().delay_seed * 0x9e3779b97f4a7c15ull + ++given;
}

Stream::Stream(ContextRef of, unsigned with_flags, int with_priority)
    : context(std::move(of)), flags(with_flags), priority(with_priority), queue_(std::make_shared<Queue>()),
      hardware_(context->queues.take(priority)) {
    std::thread(run, queue_, context, next_seed()).detach();
}

Stream::~Stream() {
    context->queues.give_back(hardware_);
    std::lock_guard guard(queue_->lock);
    queue_->closed = true;
    queue_->changed.notify_all();
}

// A third of all work starts late, so that missing waits show as wrong numbers or as a use of freed memory.
static void delay(std::mt19937_64& random) {
    if (!settings().delay || random() % 3 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (settings().delay_us + 1)));
}

void Stream::run(std::shared_ptr<Queue> queue, ContextRef context, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::unique_lock guard(queue->lock);
    for (;;) {
        queue->changed.wait(guard, [&] { return queue->closed || !queue->items.empty(); });
        if (queue->items.empty()) return;
        Item item = std::move(queue->items.front());
        queue->items.pop_front();
        guard.unlock();
        delay(random);
        if (const auto status = item.work(); failed(status)) {
            int none = 0;
            context->fault.compare_exchange_strong(none, static_cast<int>(status));
        }
        item.work = nullptr;
        item.ticket->complete();
        guard.lock();
    }
}

TicketRef Stream::enqueue(Work work) {
    std::lock_guard guard(queue_->lock);
    auto ticket = std::make_shared<Ticket>();
    queue_->items.push_back({std::move(work), ticket});
    queue_->last = ticket;
    queue_->changed.notify_all();
    return ticket;
}

// Work behind other work of a hardware queue begins once that has begun (NVIDIA) or ended (AMD).
#ifdef EMULATOR_HIP
constexpr bool queue_moves_on_at_end = true;
#else
constexpr bool queue_moves_on_at_end = false;
#endif

TicketRef Stream::push(std::vector<TicketRef> before, Work work) {
    const auto begun = hardware_ ? std::make_shared<Ticket>() : nullptr;
    std::unique_lock<std::mutex> guard;
    if (hardware_) guard = std::unique_lock(hardware_->lock);
    if (hardware_ && hardware_->last) before.push_back(hardware_->last);
    auto ticket = before.empty() && !begun ? enqueue(std::move(work))
                                           : enqueue([begun, before = std::move(before), work = std::move(work)] {
                                                 for (const auto& each : before) each->wait();
                                                 if (begun) begun->complete();
                                                 return work();
                                             });
    if (hardware_) hardware_->last = queue_moves_on_at_end ? ticket : begun;
    return ticket;
}

// The legacy default stream waits for all blocking streams of its context, and they wait for it.
std::vector<TicketRef> Stream::legacy_order() {
    std::vector<TicketRef> before;
    if (flags & non_blocking) return before;
    std::vector<std::weak_ptr<Stream>> others;
    {
        std::lock_guard guard(context->lock);
        if (context->standard.get() == this) others = context->streams;
        else if (context->standard) others.push_back(context->standard);
    }
    for (auto& weak : others) {
        const auto other = weak.lock();
        if (!other || other->flags & non_blocking) continue;
        timeline.follow(other->timeline.now());
        if (auto ticket = other->last(); ticket && !ticket->done()) before.push_back(std::move(ticket));
    }
    return before;
}

// In a capture the order of the list keeps what the work waits for.
TicketRef Stream::submit_after(std::vector<TicketRef> before, Work work) {
    if (auto capture = this->capture()) {
        std::lock_guard guard(capture->lock);
        capture->works.push_back(std::move(work));
        if (capture->origin != this) capture->unjoined.insert(this);
        return nullptr;
    }
    for (auto& ticket : legacy_order()) before.push_back(std::move(ticket));
    return push(std::move(before), std::move(work));
}

TicketRef Stream::submit(Work work) { return submit_after({}, std::move(work)); }

TicketRef Stream::wait_for(std::vector<TicketRef> before) {
    return submit_after(std::move(before), [] { return Status::Success; });
}

TicketRef Stream::submit(Work work, Touches touches, const char* what, std::vector<TicketRef> before) {
    if (auto capture = this->capture()) {
        std::lock_guard guard(capture->lock);
        capture->touches.push_back({std::move(touches), what});
    } else {
        legacy_order();
        touch(touches, what);
    }
    return submit_after(std::move(before), std::move(work));
}

void Stream::touch(const Touches& touches, const char* what) {
    int none = 0;
    if (!timeline.touch(touches, what)) context->fault.compare_exchange_strong(none, static_cast<int>(Status::LaunchFailed));
}

TicketRef Stream::last() {
    std::lock_guard guard(queue_->lock);
    return queue_->last;
}

void Stream::drain() {
    if (const auto ticket = last()) ticket->wait();
}

bool Stream::idle() {
    const auto ticket = last();
    return !ticket || ticket->done();
}

CaptureRef Stream::capture() {
    std::lock_guard guard(lock_);
    return capture_;
}

void Stream::set_capture(CaptureRef capture) {
    std::lock_guard guard(lock_);
    capture_ = std::move(capture);
}

Status create_stream(unsigned flags, int priority, void** handle) {
    if (!handle || flags > non_blocking) return Status::InvalidValue;
    ContextRef context;
    TRY(current(context));
    auto stream = std::make_shared<Stream>(context, flags, std::max(-5, std::min(0, priority)));
    *handle = stream->handle = streams().insert<void*>(stream);
    std::lock_guard guard(context->lock);
    std::erase_if(context->streams, [](const auto& weak) { return weak.expired(); });
    context->streams.push_back(stream);
    return Status::Success;
}

Status destroy_stream(void* handle) {
    const auto stream = streams().remove(handle);
    if (!stream) return Status::InvalidHandle;
    const auto capture = stream->capture();
    if (!capture) return Status::Success;
    misuse(Status::CaptureUnsupported, "stream %p is destroyed while it is captured", handle);
    if (capture->origin == stream.get()) forget(capture);
    return Status::Success;
}

static StreamRef standard_stream(const ContextRef& context) {
    std::lock_guard guard(context->lock);
    if (!context->standard) context->standard = std::make_shared<Stream>(context, 0, 0);
    return context->standard;
}

Status find_stream(const void* handle, StreamRef& stream) {
    if (reinterpret_cast<std::uintptr_t>(handle) > 2) {
        stream = streams().find(handle);
        if (!stream) return Status::InvalidHandle;
        if (!stream->context->alive.load()) return misuse(Status::ContextIsDestroyed, "the stream's context is destroyed");
        return static_cast<Status>(stream->context->fault.load());
    }
    ContextRef context;
    TRY(current(context));
    stream = standard_stream(context);
    return Status::Success;
}

Status find_own_stream(const void* handle, StreamRef& stream) {
    ContextRef context;
    TRY(current(context));
    TRY(find_stream(handle, stream));
    if (stream->context == context) return Status::Success;
    return misuse(Status::InvalidHandle, "the stream is of device %d, the current context of device %d",
                  stream->context->device, context->device);
}

static Status forbid_capture(const StreamRef& stream) {
    const auto capture = stream->capture();
    if (!capture) return Status::Success;
    std::lock_guard guard(capture->lock);
    capture->invalid = true;
    return misuse(Status::CaptureUnsupported, "the stream is being captured");
}

Status query_stream(const StreamRef& stream) {
    TRY(forbid_capture(stream));
    TRY(check_uncaptured());
    const auto clock = stream->timeline.now();
    if (!stream->idle()) return Status::NotReady;
    observe(clock);
    return static_cast<Status>(stream->context->fault.load());
}

Status synchronize_stream(const StreamRef& stream) {
    TRY(forbid_capture(stream));
    TRY(check_uncaptured());
    const auto clock = stream->timeline.now();
    stream->drain();
    observe(clock);
    return static_cast<Status>(stream->context->fault.load());
}

long live_streams() { return streams().size(); }

}  // namespace emulator
