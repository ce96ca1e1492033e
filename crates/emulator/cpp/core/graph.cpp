#include "graph.h"

#include <utility>

namespace emulator {

struct Graph {
    std::vector<Work> works;
    std::vector<CapturedTouches> touches;
    int device;
};

static Table<Graph>& graphs() {
    static auto* table = new Table<Graph>("graph", 4);
    return *table;
}

static Table<Graph>& executables() {
    static auto* table = new Table<Graph>("executable graph", 5);
    return *table;
}

// The captures that have begun and not ended.
struct Captures {
    std::mutex lock;
    std::vector<CaptureRef> active;
};

static Captures& captures() {
    static auto* all = new Captures;
    return *all;
}

static thread_local CaptureMode thread_mode = CaptureMode::Global;

CaptureMode exchange_capture_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

// A capture forbids unsafe calls to the thread that began it, unless it is relaxed, and a global one to all threads. A
// thread's own mode lifts what is wider.
static bool forbids(const Capture& capture) {
    if (thread_mode == CaptureMode::Relaxed || capture.mode == CaptureMode::Relaxed) return false;
    if (capture.thread == std::this_thread::get_id()) return true;
    return thread_mode == CaptureMode::Global && capture.mode == CaptureMode::Global;
}

Status check_uncaptured() {
    std::lock_guard guard(captures().lock);
    bool found = false;
    for (const auto& capture : captures().active) {
        if (!forbids(*capture)) continue;
        std::lock_guard own(capture->lock);
        capture->invalid = found = true;
    }
    return found ? misuse(Status::CaptureUnsupported, "an unsafe call while a stream is captured") : Status::Success;
}

Status begin_capture(const StreamRef& stream, CaptureMode mode) {
    if (!stream->handle) return misuse(Status::CaptureUnsupported, "the default stream cannot be captured");
    if (stream->capturing()) return Status::CaptureUnmatched;
    auto capture = std::make_shared<Capture>();
    capture->origin = stream.get();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    stream->set_capture(capture);
    std::lock_guard guard(captures().lock);
    captures().active.push_back(std::move(capture));
    return Status::Success;
}

Status join_capture(const StreamRef& stream, const CaptureRef& capture, const Stream* recorded_in) {
    std::lock_guard guard(capture->lock);
    if (!capture->active) return misuse(Status::CaptureInvalidated, "the event belongs to a capture that has ended");
    const auto own = stream->capture();
    if (own && own != capture) return misuse(Status::CaptureIsolation, "the stream is captured into another graph");
    if (!own) {
        stream->set_capture(capture);
        capture->joined.push_back(stream);
    }
    if (stream.get() != recorded_in) capture->unjoined.erase(recorded_in);
    if (stream.get() != capture->origin) capture->unjoined.insert(stream.get());
    return Status::Success;
}

void forget(const CaptureRef& capture) {
    std::lock_guard guard(captures().lock);
    std::erase(captures().active, capture);
}

static void leave(Capture& capture) {
    capture.active = false;
    for (auto& weak : capture.joined)
        if (const auto stream = weak.lock()) stream->set_capture(nullptr);
}

Status end_capture(const StreamRef& stream, void** graph) {
    if (!graph) return Status::InvalidValue;
    *graph = nullptr;
    const auto capture = stream->capture();
    if (!capture || capture->origin != stream.get()) return misuse(Status::CaptureUnmatched, "no capture began in this stream");
    if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id())
        return misuse(Status::CaptureWrongThread, "the capture began in another thread");
    forget(capture);
    std::lock_guard guard(capture->lock);
    leave(*capture);
    stream->set_capture(nullptr);
    if (capture->invalid) return Status::CaptureInvalidated;
    if (!capture->unjoined.empty())
        return misuse(Status::CaptureUnjoined, "%zu streams were not joined again", capture->unjoined.size());
    auto made = std::make_shared<Graph>(Graph{std::move(capture->works), std::move(capture->touches), stream->context->device});
    *graph = graphs().insert<void*>(made);
    return Status::Success;
}

Status graph_nodes(const void* graph, std::size_t* count) {
    const auto found = graphs().find(graph);
    if (!found || !count) return Status::InvalidValue;
    *count = found->works.size();
    return Status::Success;
}

Status instantiate_graph(const void* graph, void** executable) {
    if (!executable) return Status::InvalidValue;
    const auto found = graphs().find(graph);
    if (!found) return Status::InvalidValue;
    *executable = executables().insert<void*>(std::make_shared<Graph>(*found));
    return Status::Success;
}

Status launch_graph(const void* executable, const StreamRef& stream) {
    const auto found = executables().find(executable);
    if (!found) return Status::InvalidValue;
    if (found->device != stream->context->device) return misuse(Status::InvalidValue, "the graph is of another device");
    for (const auto& [touches, what] : found->touches) stream->touch(touches, what);
    stream->submit([found]() -> Status {
        for (const auto& work : found->works) TRY(work());
        return Status::Success;
    });
    return Status::Success;
}

Status destroy_graph(void* graph) { return graphs().remove(graph) ? Status::Success : Status::InvalidValue; }

Status destroy_executable(void* executable) {
    return executables().remove(executable) ? Status::Success : Status::InvalidValue;
}

long live_graphs() { return graphs().size(); }
long live_executables() { return executables().size(); }

}  // namespace emulator
