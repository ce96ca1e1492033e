// A stream is a queue and a thread that empties it, so host and streams really run in parallel.
#pragma once

#include <deque>
#include <functional>
#include <random>
#include <thread>

#include "context.h"
#include "order.h"
#include "ticket.h"

namespace emulator {

// A piece of a stream's work. It may run more than once if it was captured into a graph.
using Work = std::function<Status()>;

// CU_STREAM_CAPTURE_MODE_..., as numbered there: whose unsafe calls end a capture.
enum class CaptureMode { Global, ThreadLocal, Relaxed };

// The work that was queued while streams were captured, in the order in which it was queued. That order keeps all
// dependencies, so one stream can run it as a list.
struct CapturedTouches {
    Touches touches;
    const char* what;
};

struct Capture {
    std::mutex lock;
    std::vector<CapturedTouches> touches;
    CaptureMode mode = CaptureMode::Global;
    std::thread::id thread;  // that began it
    std::vector<Work> works;
    const Stream* origin = nullptr;
    std::vector<std::weak_ptr<Stream>> joined;
    std::set<const Stream*> unjoined;
    bool active = true;
    bool invalid = false;
};

using CaptureRef = std::shared_ptr<Capture>;

class Stream : public std::enable_shared_from_this<Stream> {
   public:
    Stream(ContextRef context, unsigned flags, int priority);
    ~Stream();

    // Queues work. The ticket is null if the work went into a capture instead.
    TicketRef submit(Work work);
    // The same for work that accesses memory, known as `what`, which must be interned, and that begins after `before`.
    TicketRef submit(Work work, Touches touches, const char* what, std::vector<TicketRef> before = {});
    // The stream waits for these.
    TicketRef wait_for(std::vector<TicketRef> before);
    // Reports an access that is not ordered after another, and makes it a fault of the device.
    void touch(const Touches& touches, const char* what);
    // The host waits until everything queued so far is done.
    void drain();
    bool idle();
    TicketRef last();

    CaptureRef capture();
    bool capturing() { return capture() != nullptr; }
    void set_capture(CaptureRef capture);

    const ContextRef context;
    const unsigned flags;
    const int priority;
    void* handle = nullptr;
    Timeline timeline;

   private:
    struct Item {
        Work work;
        TicketRef ticket;
    };
    struct Queue;

    static void run(std::shared_ptr<Queue> queue, ContextRef context, std::uint64_t seed);
    TicketRef push(std::vector<TicketRef> before, Work work);
    TicketRef submit_after(std::vector<TicketRef> before, Work work);
    TicketRef enqueue(Work work);
    std::vector<TicketRef> legacy_order();

    std::shared_ptr<Queue> queue_;
    HardwareQueueRef hardware_;
    std::mutex lock_;
    CaptureRef capture_;
};

using StreamRef = std::shared_ptr<Stream>;

constexpr unsigned non_blocking = 1;

Status create_stream(unsigned flags, int priority, void** handle);
// Queued work still runs.
Status destroy_stream(void* handle);
// The stream of a handle; the null stream and its aliases belong to the current context.
Status find_stream(const void* handle, StreamRef& stream);
// The same, for a stream that must belong to the current context.
Status find_own_stream(const void* handle, StreamRef& stream);
Status query_stream(const StreamRef& stream);
Status synchronize_stream(const StreamRef& stream);

long live_streams();

}  // namespace emulator
