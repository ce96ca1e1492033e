#include "communicator.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "../core/graph.h"
#include "../core/live.h"

namespace emulator {

static Table<Communicator>& communicators() {
    static auto* table = new Table<Communicator>("communicator", 9);
    return *table;
}

struct Waiting {
    std::mutex lock;
    std::map<std::string, CliqueRef> cliques;
    long given = 0;
};

static Waiting& waiting() {
    static auto* all = new Waiting;
    return *all;
}

static Result reject(Result result, const std::string& text) {
    set_last_error(text);
    return result;
}

Result make_id(UniqueId* id) {
    if (!id) return Result::InvalidArgument;
    std::lock_guard guard(waiting().lock);
    *id = {};
    std::snprintf(id->bytes, sizeof id->bytes, "fascicle-%d-%ld", static_cast<int>(getpid()), ++waiting().given);
    waiting().cliques[id->bytes] = nullptr;
    return Result::Success;
}

// An id serves one clique: it is used up once all ranks have joined.
static Result clique_of(const UniqueId& id, int size, CliqueRef& clique) {
    std::lock_guard guard(waiting().lock);
    const auto found = waiting().cliques.find(std::string(id.bytes, strnlen(id.bytes, sizeof id.bytes)));
    if (found == waiting().cliques.end()) return reject(Result::InvalidUsage, "the unique id is used up, or of another process");
    if (!found->second) found->second = std::make_shared<Clique>(size);
    if (found->second->size() != size)
        return reject(Result::InvalidUsage, "size " + std::to_string(size) + ", another rank says " + std::to_string(found->second->size()));
    clique = found->second;
    return Result::Success;
}

static void use_up(const UniqueId& id) {
    std::lock_guard guard(waiting().lock);
    waiting().cliques.erase(id.bytes);
}

static void settle(const CommunicatorRef& communicator, const CliqueRef& clique, int rank, Result result) {
    std::lock_guard guard(communicator->lock);
    communicator->state = result;
    communicator->rank = rank;
    if (failed(result)) return;
    communicator->size = clique->size();
    communicator->clique = clique;
}

static void* add(const CommunicatorRef& communicator) {
    static const bool counted = (count_live("communicators", [] { return communicators().size(); }), true);
    (void)counted;
    return communicators().insert<void*>(communicator);
}

// A blocking call returns the handle once all ranks have met. Otherwise it returns at once, and a thread meets the
// others.
static Result begin(const CommunicatorRef& communicator, void** handle, std::function<Result()> meeting) {
    communicator->state = Result::InProgress;
    *handle = add(communicator);
    if (!communicator->blocking) {
        std::thread(std::move(meeting)).detach();
        return Result::InProgress;
    }
    return run_or_defer([meeting = std::move(meeting), handle] {
        const auto result = meeting();
        if (failed(result)) communicators().remove(std::exchange(*handle, nullptr));
        return result;
    });
}

Result init_rank(void** handle, int size, const UniqueId& id, int rank, bool blocking) {
    if (!handle || size < 1 || rank < 0 || rank >= size)
        return reject(Result::InvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size));
    if (failed(check_uncaptured())) return Result::UnhandledCuda;
    auto communicator = std::make_shared<Communicator>();
    if (failed(current(communicator->context))) return Result::UnhandledCuda;
    communicator->blocking = blocking;
    CliqueRef clique;
    TRY(clique_of(id, size, clique));
    return begin(communicator, handle, [=] {
        const auto result = clique->arrive(rank, communicator->context->device, communicator->given_up);
        use_up(id);
        settle(communicator, clique, rank, result);
        return result;
    });
}

Result find_communicator(const void* handle, CommunicatorRef& found) {
    if (!handle) return reject(Result::InvalidArgument, "the communicator is null");
    found = communicators().find(handle);
    return found ? Result::Success : Result::InvalidArgument;
}

Result state_of(const CommunicatorRef& communicator) {
    std::lock_guard guard(communicator->lock);
    if (failed(communicator->state)) return communicator->state;
    return communicator->clique->error(communicator->rank);
}

Result split(void* handle, int color, int key, void** made, int blocking) {
    CommunicatorRef parent;
    TRY(find_communicator(handle, parent));
    TRY(state_of(parent));
    if (!made || color < -1) return reject(Result::InvalidArgument, "color " + std::to_string(color));
    auto communicator = std::make_shared<Communicator>();
    communicator->context = parent->context;
    communicator->blocking = blocking < 0 ? parent->blocking : blocking == 1;
    auto meeting = [=] {
        CliqueRef clique;
        int rank = -1;
        const auto result = parent->clique->split(parent->rank, color, key, communicator->given_up, clique, rank);
        if (clique || failed(result)) settle(communicator, clique, rank, result);
        return result;
    };
    if (color >= 0) return begin(communicator, made, meeting);
    *made = nullptr;
    return run_or_defer(meeting);
}

Result finalize(void* handle) {
    CommunicatorRef communicator;
    TRY(find_communicator(handle, communicator));
    TRY(state_of(communicator));
    std::unique_lock guard(communicator->lock);
    const auto last = communicator->last;
    const auto clock = communicator->clock;
    guard.unlock();
    if (last) last->wait();
    observe(clock);
    return Result::Success;
}

Result destroy(void* handle, bool abort) {
    CommunicatorRef communicator;
    TRY(find_communicator(handle, communicator));
    communicators().remove(handle);
    communicator->given_up.store(true);
    std::unique_lock guard(communicator->lock);
    const auto clique = communicator->clique;
    const auto last = communicator->last;
    const auto clock = communicator->clock;
    guard.unlock();
    if (abort && clique) clique->abort(communicator->rank);
    if (last) last->wait();
    observe(clock);
    return Result::Success;
}

}  // namespace emulator
