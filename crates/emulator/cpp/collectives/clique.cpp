// Collectives and messages between the ranks of a clique.
#include "clique.h"

namespace emulator {

void Clique::fail_all(Result error, const std::string& text) {
    set_last_error(text);
    for (auto& member : members_)
        if (!failed(member.error)) member.error = error;
}

// The last rank to arrive does the work for all.
void Clique::finish(Meeting& meeting, long number) {
    for (int rank = 1; rank < size(); ++rank) {
        if (agrees(meeting.calls[0], meeting.calls[rank])) continue;
        fail_all(Result::InvalidUsage, "collective " + std::to_string(number) + ": rank 0 calls " + describe(meeting.calls[0]) +
                                           ", rank " + std::to_string(rank) + " calls " + describe(meeting.calls[rank]));
        meeting.done = true;
        return;
    }
    carry_out(meeting.calls);
    meeting.done = true;
}

// Whether a rank that this call needs is gone.
bool Clique::peer_aborted(int rank, const Operation& call) const {
    if (call.kind == Kind::Send || call.kind == Kind::Recv) return members_[call.peer].aborted;
    for (int other = 0; other < size(); ++other)
        if (other != rank && members_[other].aborted) return true;
    return false;
}

// An aborted rank stops waiting. Its peers see a remote error and keep waiting, as on a device, until they are aborted
// too.
void Clique::wait_done(Guard& guard, int rank, const bool& done, const Operation& call) {
    const auto start = std::chrono::steady_clock::now();
    for (bool told = false; !done && !members_[rank].aborted;) {
        if (!failed(members_[rank].error) && peer_aborted(rank, call)) members_[rank].error = Result::Remote;
        changed_.wait_for(guard, std::chrono::seconds(5));
        if (told || std::chrono::steady_clock::now() - start < std::chrono::seconds(30)) continue;
        say("rank %d has waited 30 s for its peers in %s", rank, describe(call).c_str());
        told = true;
    }
}

void Clique::meet(Guard& guard, int rank, const Operation& call) {
    const long number = members_[rank].meetings++;
    auto& entry = meetings_[number];
    if (!entry) {
        entry = std::make_shared<Meeting>();
        entry->calls.resize(size());
        entry->here.resize(size(), false);
    }
    const auto meeting = entry;
    meeting->calls[rank] = call;
    meeting->here[rank] = true;
    if (++meeting->arrived == size()) {
        finish(*meeting, number);
        meetings_.erase(number);
        changed_.notify_all();
    }
    wait_done(guard, rank, meeting->done, call);
    if (meeting->done) return;
    meeting->here[rank] = false;
    --meeting->arrived;
}

void Clique::match(int from, int to, Box& box) {
    while (!box.sends.empty() && !box.recvs.empty()) {
        const auto send = std::move(box.sends.front()), recv = std::move(box.recvs.front());
        box.sends.pop_front();
        box.recvs.pop_front();
        const auto &sent = send->operation, &received = recv->operation;
        if (sent.count == received.count && sent.type == received.type) {
            std::memmove(received.recv, sent.send, sent.count * size_of(sent.type));
        } else {
            fail_all(Result::InvalidUsage, "message: rank " + std::to_string(from) + " calls " + describe(sent) + ", rank " +
                                               std::to_string(to) + " calls " + describe(received));
        }
        send->done = recv->done = true;
        changed_.notify_all();
    }
}

Clique::MessageRef Clique::post(int rank, const Operation& operation) {
    auto message = std::make_shared<Message>(Message{operation});
    const bool send = operation.kind == Kind::Send;
    const int from = send ? rank : operation.peer, to = send ? operation.peer : rank;
    auto& box = boxes_[{from, to}];
    (send ? box.sends : box.recvs).push_back(message);
    match(from, to, box);
    return message;
}

void Clique::run(int rank, const std::vector<Operation>& group) {
    Guard guard(lock_);
    if (members_[rank].aborted) return;
    std::vector<MessageRef> messages;
    for (const auto& operation : group)
        if (operation.kind == Kind::Send || operation.kind == Kind::Recv) messages.push_back(post(rank, operation));
    for (const auto& operation : group) {
        if (members_[rank].aborted) break;
        if (operation.kind != Kind::Send && operation.kind != Kind::Recv) meet(guard, rank, operation);
    }
    for (const auto& message : messages) wait_done(guard, rank, message->done, message->operation);
}

void Clique::abort(int rank) {
    Guard guard(lock_);
    members_[rank].aborted = true;
    for (auto& [pair, box] : boxes_) {
        if (pair.first == rank) box.sends.clear();
        if (pair.second == rank) box.recvs.clear();
    }
    changed_.notify_all();
}

Result Clique::error(int rank) {
    Guard guard(lock_);
    return members_[rank].error;
}

bool Clique::aborted(int rank) {
    Guard guard(lock_);
    return members_[rank].aborted;
}

}  // namespace emulator
