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

// A communicator's calls of one group. They run in the first stream, and the other streams wait for it.
void queue(const CommunicatorRef& communicator, const std::vector<StreamRef>& streams, std::vector<Operation> operations) {
    std::vector<TicketRef> before;
    std::lock_guard guard(communicator->lock);
    if (communicator->last) before.push_back(communicator->last);
    auto nothing = [] { return Status::Success; };
    for (std::size_t index = 1; index < streams.size(); ++index)
        if (auto ticket = streams[index]->submit(nothing)) before.push_back(std::move(ticket));
    const auto ticket = streams[0]->submit([communicator, before, operations = std::move(operations)] {
        for (const auto& each : before) each->wait();
        communicator->clique->run(communicator->rank, operations);
        return Status::Success;
    });
    if (ticket) communicator->last = ticket;
    for (std::size_t index = 1; ticket && index < streams.size(); ++index)
        streams[index]->submit([ticket] {
            ticket->wait();
            return Status::Success;
        });
}

void queue_all(const std::vector<Queued>& calls) {
    std::vector<CommunicatorRef> order;
    for (const auto& call : calls)
        if (std::find(order.begin(), order.end(), call.communicator) == order.end()) order.push_back(call.communicator);
    for (const auto& communicator : order) {
        std::vector<StreamRef> streams;
        std::vector<Operation> operations;
        for (const auto& call : calls) {
            if (call.communicator != communicator) continue;
            operations.push_back(call.operation);
            if (std::find(streams.begin(), streams.end(), call.stream) == streams.end()) streams.push_back(call.stream);
        }
        queue(communicator, streams, std::move(operations));
    }
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

Result prepare(void* handle, void* stream, const Operation& operation, Queued& queued) {
    TRY(find_communicator(handle, queued.communicator));
    auto& communicator = *queued.communicator;
    TRY(state_of(queued.communicator));
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
    queue_all(ended.calls);
    return Result::Success;
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
    if (group.depth > 0) group.calls.push_back(std::move(queued));
    else queue_all({queued});
    return Result::Success;
}

}  // namespace emulator
