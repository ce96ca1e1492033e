// Devices and their contexts. CUDA's are retained and made current; HIP's exist from the start.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "handles.h"
#include "hardware.h"

namespace emulator {

class Stream;

// The state of a device between calls.
struct Context {
    explicit Context(int ordinal) : device(ordinal) {}

    const int device;
    void* handle = nullptr;
    std::atomic<bool> alive{true};
    // The first error of work that ran on the device; every later call of the context returns it.
    std::atomic<int> fault{0};
    HardwareQueues queues;
    Residency residency;
    std::mutex lock;
    std::set<int> peers;
    std::shared_ptr<Stream> standard;                // the legacy default stream, made on first use
    std::vector<std::weak_ptr<Stream>> streams;      // all others
};

using ContextRef = std::shared_ptr<Context>;

// cuInit and hipInit. Without it, other calls report NotInitialized (CUDA) or initialise by themselves (HIP).
Status initialize();
Status check_initialized();
Status check_device(int device);

// Retains and releases the primary context of a device.
Status retain_primary(int device, ContextRef& context);
Status release_primary(int device);
Status reset_primary(int device);
bool primary_active(int device);

// A separate context, as cuCtxCreate makes it.
ContextRef create_context(int device);
Status destroy_context(const void* handle);

// The calling thread's stack of contexts.
void push_current(ContextRef context);
Status pop_current(ContextRef& context);
void set_current(ContextRef context);
// The current context of this thread, which must exist, be alive, and have no fault.
Status current(ContextRef& context);
// The same without those checks; null if none is current.
ContextRef current_or_null();
Status find_context(const void* handle, ContextRef& context);

// Waits for all streams of a context, and returns the error of their work.
Status synchronize(const ContextRef& context);
// Waits for them as a call may that promises nothing: the caller learns of no order. Streams that capture have no work.
void wait_unseen(const ContextRef& context);

// Whether the device of `from` may touch memory of `device`.
bool reaches(const ContextRef& from, int device);
Status enable_peer(const ContextRef& from, int device);
Status disable_peer(const ContextRef& from, int device);

long live_contexts();

}  // namespace emulator
