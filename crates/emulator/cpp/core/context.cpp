#include "context.h"

#include <utility>

#include "graph.h"
#include "settings.h"

namespace emulator {

struct Primary {
    std::mutex lock;
    ContextRef context;
    long retained = 0;
};

struct Devices {
    Table<Context> table{"context", 1};
    std::vector<std::unique_ptr<Primary>> primaries;
    std::atomic<bool> initialized{false};
};

static Devices& devices() {
    static auto* all = [] {
        auto* made = new Devices;
        for (int device = 0; device < settings().devices; ++device) made->primaries.push_back(std::make_unique<Primary>());
        return made;
    }();
    return *all;
}

static thread_local std::vector<ContextRef> stack;

Status initialize() {
    if (settings().devices == 0) return Status::NoDevice;
    devices().initialized.store(true);
    return Status::Success;
}

Status check_initialized() {
    if (devices().initialized.load()) return Status::Success;
#ifdef EMULATOR_HIP
    return initialize();
#else
    return misuse(Status::NotInitialized, "called before cuInit");
#endif
}

Status check_device(int device) {
    TRY(check_initialized());
    return device >= 0 && device < settings().devices ? Status::Success : Status::InvalidDevice;
}

ContextRef create_context(int device) {
    auto context = std::make_shared<Context>(device);
    context->handle = devices().table.insert<void*>(context);
    return context;
}

static Status retire(const ContextRef& context) {
    const auto status = synchronize(context);
    context->alive.store(false);
    devices().table.remove(context->handle);
    return status;
}

Status destroy_context(const void* handle) {
    ContextRef context;
    TRY(find_context(handle, context));
    retire(context);
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return Status::Success;
}

Status retain_primary(int device, ContextRef& context) {
    TRY(check_device(device));
    auto& primary = *devices().primaries[device];
    std::lock_guard guard(primary.lock);
    if (!primary.context) primary.context = create_context(device);
    ++primary.retained;
    context = primary.context;
    return Status::Success;
}

static Status drop_primary(int device, bool all) {
    TRY(check_device(device));
    auto& primary = *devices().primaries[device];
    std::lock_guard guard(primary.lock);
    if (!primary.context && all) return Status::Success;
    if (!primary.context) return misuse(Status::InvalidContext, "the primary context of device %d is not retained", device);
    if (!all && --primary.retained > 0) return Status::Success;
    primary.retained = 0;
    retire(std::exchange(primary.context, nullptr));
    return Status::Success;
}

Status release_primary(int device) { return drop_primary(device, false); }
Status reset_primary(int device) { return drop_primary(device, true); }

bool primary_active(int device) {
    auto& primary = *devices().primaries[device];
    std::lock_guard guard(primary.lock);
    return primary.context != nullptr;
}

void push_current(ContextRef context) { stack.push_back(std::move(context)); }

Status pop_current(ContextRef& context) {
    if (stack.empty()) return misuse(Status::InvalidContext, "no context is current");
    context = std::move(stack.back());
    stack.pop_back();
    return Status::Success;
}

void set_current(ContextRef context) {
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(std::move(context));
}

ContextRef current_or_null() {
#ifdef EMULATOR_HIP
    if (stack.empty() || !stack.back()->alive.load()) {
        const int device = stack.empty() ? 0 : stack.back()->device;
        ContextRef context;
        if (failed(retain_primary(device, context))) return nullptr;
        set_current(context);
    }
#endif
    return stack.empty() ? nullptr : stack.back();
}

Status current(ContextRef& context) {
    TRY(check_initialized());
    context = current_or_null();
    if (!context) return misuse(Status::InvalidContext, "no context is current on this thread");
    if (!context->alive.load()) return misuse(Status::ContextIsDestroyed, "the current context is destroyed");
    return static_cast<Status>(context->fault.load());
}

Status find_context(const void* handle, ContextRef& context) {
    context = devices().table.find(handle);
    return context ? Status::Success : Status::InvalidContext;
}

static std::vector<std::weak_ptr<Stream>> streams_of(const ContextRef& context) {
    std::lock_guard guard(context->lock);
    auto streams = context->streams;
    if (context->standard) streams.push_back(context->standard);
    return streams;
}

void wait_unseen(const ContextRef& context) {
    for (auto& weak : streams_of(context)) {
        const auto stream = weak.lock();
        if (stream && !stream->capturing()) stream->drain();
    }
}

Status synchronize(const ContextRef& context) {
    TRY(check_uncaptured());
    for (auto& weak : streams_of(context)) {
        const auto stream = weak.lock();
        if (!stream) continue;
        if (stream->capturing()) return Status::CaptureUnsupported;
        const auto clock = stream->timeline.now();
        stream->drain();
        observe(clock);
    }
    return static_cast<Status>(context->fault.load());
}

bool reaches(const ContextRef& from, int device) {
    if (from->device == device) return true;
    std::lock_guard guard(from->lock);
    return from->peers.count(device) > 0;
}

Status enable_peer(const ContextRef& from, int device) {
    TRY(check_device(device));
    if (from->device == device) return Status::InvalidDevice;
    std::lock_guard guard(from->lock);
    return from->peers.insert(device).second ? Status::Success : Status::PeerAccessAlreadyEnabled;
}

Status disable_peer(const ContextRef& from, int device) {
    std::lock_guard guard(from->lock);
    return from->peers.erase(device) ? Status::Success : Status::PeerAccessNotEnabled;
}

long live_contexts() { return devices().table.size(); }

}  // namespace emulator
