// A rank's side of a clique, and the groups of calls of a thread.
#pragma once

#include <functional>

#include "clique.h"

namespace emulator {

struct Communicator {
    CliqueRef clique;  // null until the ranks have met
    int rank = -1;
    int size = 0;
    ContextRef context;
    bool blocking = true;
    std::atomic<bool> given_up{false};
    std::mutex lock;
    Result state = Result::Success;  // InProgress while the ranks meet
    Clock clock;                     // what its last call leaves known
    TicketRef last;                  // calls of a communicator run in the order in which they were made
};

using CommunicatorRef = std::shared_ptr<Communicator>;

// 128 bytes that name a future clique.
struct UniqueId {
    char bytes[128];
};

Result make_id(UniqueId* id);
Result init_rank(void** handle, int size, const UniqueId& id, int rank, bool blocking);
Result split(void* handle, int color, int key, void** made, int blocking);
Result destroy(void* handle, bool abort);
Result finalize(void* handle);
Result find_communicator(const void* handle, CommunicatorRef& found);
// Its error if it has one; InProgress while the ranks meet.
Result state_of(const CommunicatorRef& communicator);

Result group_start();
Result group_end();
// Ends all groups of this thread and drops their calls.
void group_forget();
// Inside a group the call waits for the group's end.
Result queue_operation(void* handle, void* stream, const Operation& operation);
Result run_or_defer(std::function<Result()> meeting);

}  // namespace emulator
