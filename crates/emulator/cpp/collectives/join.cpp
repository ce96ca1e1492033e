// How ranks find each other: the first meeting of a clique, and its division.
#include <algorithm>

#include "../core/settings.h"
#include "clique.h"

namespace emulator {

static std::mutex text_lock;
static std::string text_of_last;

void set_last_error(const std::string& text) {
    say("%s", text.c_str());
    std::lock_guard guard(text_lock);
    text_of_last = text;
}

const char* last_error() {
    static thread_local std::string copy;
    std::lock_guard guard(text_lock);
    copy = text_of_last;
    return copy.c_str();
}

// The vendors' libraries wait for ever. Here a test gets an error with the number of ranks that joined.
Result Clique::wait_for(Guard& guard, const std::atomic<bool>& given_up, const std::function<bool()>& done, const char* what) {
    const auto seconds = std::chrono::seconds(quantity("FASCICLE_EMULATOR_TIMEOUT", 60));
    const auto end = std::chrono::steady_clock::now() + seconds;
    while (!done()) {
        if (given_up.load()) return Result::Internal;
        if (std::chrono::steady_clock::now() > end) {
            set_last_error(std::string(what) + ": not all of " + std::to_string(size()) + " ranks came within " +
                           std::to_string(seconds.count()) + " s");
            return Result::System;
        }
        changed_.wait_for(guard, std::chrono::milliseconds(20));
    }
    return Result::Success;
}

Result Clique::check_devices() {
    if (variable("NCCL_MULTI_RANK_GPU_ENABLE") && quantity("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1) return Result::Success;
    for (int rank = 0; rank < size(); ++rank)
        for (int other = 0; other < rank; ++other) {
            if (members_[rank].device != members_[other].device) continue;
            set_last_error("Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " + std::to_string(other) +
                           " both on device " + std::to_string(members_[rank].device));
            return Result::InvalidUsage;
        }
    return Result::Success;
}

Result Clique::arrive(int rank, int device, const std::atomic<bool>& given_up) {
    Guard guard(lock_);
    auto& member = members_[rank];
    if (member.arrived) {
        set_last_error("rank " + std::to_string(rank) + " joins twice");
        return Result::InvalidUsage;
    }
    member.arrived = true;
    member.device = device;
    if (++arrived_ == size()) {
        joined_ = check_devices();
        complete_ = true;
        changed_.notify_all();
    }
    if (const auto waited = wait_for(guard, given_up, [&] { return complete_; }, "joining"); failed(waited)) return waited;
    return joined_;
}

// Sender and receiver of a message.
static std::pair<int, int> ends(const Operation& message, int rank) {
    return message.kind == Kind::Send ? std::pair{rank, message.peer} : std::pair{message.peer, rank};
}

static bool is_message(const Operation& operation) { return operation.kind == Kind::Send || operation.kind == Kind::Recv; }

bool Clique::all_called(const std::vector<Operation>& group, int rank) const {
    return std::all_of(group.begin(), group.end(), [&](const Operation& operation) {
        if (!is_message(operation)) return static_cast<int>(collective_.size()) == size();
        const auto pair = ends(operation, rank);
        return senders_.count(pair) > 0 && receivers_.count(pair) > 0;
    });
}

bool Clique::connected(const std::vector<Operation>& group, int rank) {
    Guard guard(lock_);
    return all_called(group, rank);
}

Result Clique::connect(const std::vector<Operation>& group, int rank, const std::atomic<bool>& given_up) {
    Guard guard(lock_);
    for (const auto& operation : group) {
        if (operation.kind == Kind::Send) senders_.insert(ends(operation, rank));
        else if (operation.kind == Kind::Recv) receivers_.insert(ends(operation, rank));
        else collective_.insert(rank);
    }
    changed_.notify_all();
    auto left = [&] {
        return std::any_of(group.begin(), group.end(), [&](const Operation& operation) { return peer_aborted(rank, operation); });
    };
    TRY(wait_for(guard, given_up, [&] { return all_called(group, rank) || left(); }, "connecting"));
    return all_called(group, rank) ? Result::Success : members_[rank].error = Result::Remote;
}

void Clique::form(Split& split) {
    std::map<int, std::vector<int>> colors;
    for (int rank = 0; rank < size(); ++rank)
        if (split.wishes[rank][0] >= 0) colors[split.wishes[rank][0]].push_back(rank);
    for (auto& [color, ranks] : colors) {
        std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return split.wishes[a][1] < split.wishes[b][1]; });
        auto clique = std::make_shared<Clique>(static_cast<int>(ranks.size()));
        for (std::size_t index = 0; index < ranks.size(); ++index) {
            clique->members_[index].device = members_[ranks[index]].device;
            clique->members_[index].arrived = true;
            split.cliques[ranks[index]] = clique;
            split.ranks[ranks[index]] = static_cast<int>(index);
        }
        clique->complete_ = true;
    }
    split.done = true;
}

Result Clique::split(int rank, int color, int key, const std::atomic<bool>& given_up, CliqueRef& made, int& new_rank) {
    Guard guard(lock_);
    const long number = members_[rank].splits++;
    auto& entry = splits_[number];
    if (!entry) {
        entry = std::make_shared<Split>();
        entry->wishes.resize(size());
        entry->cliques.resize(size());
        entry->ranks.resize(size(), -1);
    }
    const auto split = entry;
    split->wishes[rank] = {color, key};
    if (++split->arrived == size()) {
        form(*split);
        splits_.erase(number);
        changed_.notify_all();
    }
    if (const auto waited = wait_for(guard, given_up, [&] { return split->done; }, "split"); failed(waited)) return waited;
    made = split->cliques[rank];
    new_rank = split->ranks[rank];
    return Result::Success;
}

}  // namespace emulator
