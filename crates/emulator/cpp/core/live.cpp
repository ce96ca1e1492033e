#include "live.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "event.h"
#include "graph.h"
#include "memory.h"
#include "module.h"

namespace emulator {

struct Kinds {
    std::mutex lock;
    std::map<std::string, long (*)()> counts;
};

static Kinds& kinds() {
    static auto* all = [] {
        auto* made = new Kinds;
        made->counts = {{"contexts", live_contexts}, {"streams", live_streams},   {"events", live_events},
                        {"graphs", live_graphs},     {"executables", live_executables}, {"modules", live_modules},
                        {"allocations", live_allocations}, {"pinned", live_pinned},
                        {"bytes", [] { return static_cast<long>(live_bytes()); }}};
        return made;
    }();
    return *all;
}

// HIP's contexts live as long as the process.
static bool counts_as_leak(const std::string& kind) {
#ifdef EMULATOR_HIP
    return kind != "bytes" && kind != "contexts";
#else
    return kind != "bytes";
#endif
}

void count_live(const char* kind, long (*count)()) {
    std::lock_guard guard(kinds().lock);
    kinds().counts[kind] = count;
}

}  // namespace emulator

using namespace emulator;

// For tests: how many of a kind are alive (contexts, streams, events, graphs, executables, modules, allocations, pinned,
// bytes, blas, descriptors, communicators); -1 for a kind that no library has. Without a kind: all of them but
// the bytes, and in HIP the contexts.
EXPORT long fascicle_emulator_live(const char* kind) {
    std::lock_guard guard(kinds().lock);
    if (kind) {
        const auto found = kinds().counts.find(kind);
        return found == kinds().counts.end() ? -1 : found->second();
    }
    long sum = 0;
    for (const auto& [name, count] : kinds().counts)
        if (counts_as_leak(name)) sum += count();
    return sum;
}

// For tests: lines `kind count` of live objects, as many as fit into `size` bytes.
EXPORT void fascicle_emulator_live_report(char* text, unsigned long size) {
    if (!text || size == 0) return;
    std::lock_guard guard(kinds().lock);
    std::string lines;
    for (const auto& [name, count] : kinds().counts) lines += name + " " + std::to_string(count()) + "\n";
    std::strncpy(text, lines.c_str(), size - 1);
    text[size - 1] = 0;
}
