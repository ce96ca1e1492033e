// Groups: the calls of a thread between start and end become one piece of work for each communicator.
#include <algorithm>
#include <utility>

#include "../core/memory.h"
#include "communicator.h"

namespace emulator {

namespace {

struct Queued {
    CommunicatorRef communicator;
    StreamRef stream;
    Operation operation;
};

struct Group {
    int depth = 0;
    Result error = Result::Success;
    std::vector<Queued> calls;
    std::vector<std::function<Result()>> meetings;
};

thread_local Group group;

Result note(Result result) {
    if (group.depth > 0 && failed(result) && result != Result::InProgress) group.error = result;
    return result;
}

Status check_buffers(const Communicator& communicator, const Operation& operation) {
    const auto width = size_of(operation.type);
    if (reads(operation, communicator.rank))
        TRY(check_range(communicator.context, reinterpret_cast<std::uint64_t>(operation.send),
                        send_count(operation, communicator.size) * width, false, "send buffer"));
    if (writes(operation, communicator.rank))
        TRY(check_range(communicator.context, reinterpret_cast<std::uint64_t>(operation.recv),
                        recv_count(operation, communicator.size) * width, false, "receive buffer"));
    return Status::Success;
}

Touches touches_of(const std::vector<Operation>& operations, const Communicator& communicator) {
    Touches touches;
    for (const auto& operation : operations) {
        const auto width = size_of(operation.type);
        if (reads(operation, communicator.rank))
            touches.push_back({reinterpret_cast<std::uint64_t>(operation.send), send_count(operation, communicator.size) * width, false});
        if (writes(operation, communicator.rank))
            touches.push_back({reinterpret_cast<std::uint64_t>(operation.recv), recv_count(operation, communicator.size) * width, true});
    }
    return touches;
}

// A communicator's calls of one group. They run in the first stream, and the other streams wait for it.
void queue(const CommunicatorRef& communicator, const std::vector<StreamRef>& streams, std::vector<Operation> operations) {
    std::vector<TicketRef> before;
    std::lock_guard guard(communicator->lock);
    if (communicator->last) before.push_back(communicator->last);
    streams[0]->timeline.follow(communicator->clock);
    for (const auto& stream : streams) streams[0]->timeline.follow(stream->timeline.now());
    auto& residency = communicator->context->residency;
    const auto place = residency.launch();
    for (std::size_t index = 1; index < streams.size(); ++index)
        if (auto ticket = streams[index]->wait_for({})) before.push_back(std::move(ticket));
    const auto* what = operations.size() == 1 ? intern(describe(operations[0]).c_str()) : "a group of collectives";
    auto touches = touches_of(operations, *communicator);
    const auto ticket = streams[0]->submit([communicator, place, &residency, operations = std::move(operations)] {
        auto& clique = *communicator->clique;
        if (!residency.enter(place, [&] { return clique.aborted(communicator->rank); })) return Status::Success;
        clique.run(communicator->rank, operations);
        residency.leave();
        return Status::Success;
    }, std::move(touches), what, std::move(before));
    if (ticket) communicator->last = ticket;
    communicator->clock = streams[0]->timeline.now();
    for (const auto& stream : streams) stream->timeline.follow(communicator->clock);
    for (std::size_t index = 1; ticket && index < streams.size(); ++index)
        streams[index]->wait_for({ticket});
}

// A communicator's part of a group.
struct Share {
    CommunicatorRef communicator;
    std::vector<StreamRef> streams;
    std::vector<Operation> operations;
};

std::vector<Share> shares_of(const std::vector<Queued>& calls) {
    std::vector<Share> shares;
    for (const auto& call : calls) {
        auto share = std::find_if(shares.begin(), shares.end(), [&](const Share& each) { return each.communicator == call.communicator; });
        if (share == shares.end()) share = shares.insert(shares.end(), {call.communicator, {}, {}});
        share->operations.push_back(call.operation);
        if (std::find(share->streams.begin(), share->streams.end(), call.stream) == share->streams.end())
            share->streams.push_back(call.stream);
    }
    return shares;
}

// Ranks of one thread that join in one group: each waits in its own thread.
Result run_meetings(const std::vector<std::function<Result()>>& meetings) {
    std::vector<Result> results(meetings.size(), Result::Success);
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < meetings.size(); ++index)
        threads.emplace_back([&, index] { results[index] = meetings[index](); });
    for (auto& thread : threads) thread.join();
    for (const auto result : results) TRY(result);
    return Result::Success;
}

void set_state(const std::vector<Share>& shares, Result state) {
    for (const auto& share : shares) {
        std::lock_guard guard(share.communicator->lock);
        share.communicator->state = state;
    }
}

// Connects what the calls connect, and queues them. The host waits for the connections in this call; on non-blocking
// communicators a thread waits, and the call is in progress until then.
Result launch(const std::vector<Queued>& calls) {
    const auto shares = shares_of(calls);
    std::vector<std::function<Result()>> connections;
    bool blocking = true;
    for (const auto& share : shares) {
        const auto communicator = share.communicator;
        if (communicator->clique->connected(share.operations, communicator->rank)) continue;
        blocking = blocking && communicator->blocking;
        connections.emplace_back([communicator, operations = share.operations] {
            return communicator->clique->connect(operations, communicator->rank, communicator->given_up);
        });
    }
    auto run = [shares, connections] {
        TRY(run_meetings(connections));
        for (const auto& share : shares) queue(share.communicator, share.streams, share.operations);
        return Result::Success;
    };
    if (blocking) return run();
    set_state(shares, Result::InProgress);
    std::thread([shares, run] { set_state(shares, run()); }).detach();
    return Result::InProgress;
}

Result prepare(void* handle, void* stream, const Operation& operation, Queued& queued) {
    TRY(find_communicator(handle, queued.communicator));
    auto& communicator = *queued.communicator;
    const auto state = state_of(queued.communicator);
    if (state == Result::InProgress) return misuse(Result::InvalidArgument, "the communicator's last call is still in progress");
    TRY(state);
    queued.operation = operation;
    if (operation.peer < 0 || operation.peer >= communicator.size)
        return misuse(Result::InvalidArgument, "peer or root %d of %d ranks", operation.peer, communicator.size);
    if (failed(find_stream(stream, queued.stream))) return Result::UnhandledCuda;
    if (queued.stream->context != communicator.context)
        return misuse(Result::InvalidUsage, "the communicator is of device %d, the stream of device %d",
                      communicator.context->device, queued.stream->context->device);
    return failed(check_buffers(communicator, operation)) ? Result::InvalidArgument : Result::Success;
}

}  // namespace

Result group_start() {
    ++group.depth;
    return Result::Success;
}

Result group_end() {
    if (group.depth == 0) return misuse(Result::InvalidUsage, "no group was started");
    if (--group.depth > 0) return Result::Success;
    const Group ended = std::exchange(group, Group{});
    TRY(ended.error);
    TRY(run_meetings(ended.meetings));
    return launch(ended.calls);
}

void group_forget() { group = Group{}; }

Result run_or_defer(std::function<Result()> meeting) {
    if (group.depth == 0) return meeting();
    group.meetings.push_back(std::move(meeting));
    return Result::Success;
}

Result queue_operation(void* handle, void* stream, const Operation& operation) {
    Queued queued;
    TRY(note(prepare(handle, stream, operation, queued)));
    if (group.depth == 0) return launch({queued});
    group.calls.push_back(std::move(queued));
    return Result::Success;
}

}  // namespace emulator
