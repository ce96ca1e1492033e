// Where the ranks of a communicator meet. All of them are threads of this process.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "../core/stream.h"
#include "operation.h"

namespace emulator {

// ncclResult_t.
enum class Result : int {
    Success = 0,
    UnhandledCuda = 1,
    System = 2,
    Internal = 3,
    InvalidArgument = 4,
    InvalidUsage = 5,
    Remote = 6,
    InProgress = 7,
};

constexpr bool failed(Result result) { return result != Result::Success; }

class Clique;
using CliqueRef = std::shared_ptr<Clique>;

class Clique {
   public:
    explicit Clique(int size) : members_(size) {}

    int size() const { return static_cast<int>(members_.size()); }
    // A rank joins and waits for the others. `given_up` lets a rank stop waiting.
    Result arrive(int rank, int device, const std::atomic<bool>& given_up);
    // Divides the clique: every rank names the new clique that it joins. A negative color joins none and returns null.
    Result split(int rank, int color, int key, const std::atomic<bool>& given_up, CliqueRef& made, int& new_rank);
    // The first collective of a clique, and the first message of two ranks in a direction, connect them: each host waits
    // until the others have called too.
    bool connected(const std::vector<Operation>& group, int rank);
    Result connect(const std::vector<Operation>& group, int rank, const std::atomic<bool>& given_up);
    // Runs one rank's group in the calling stream's thread. Returns when it is done or the rank is aborted.
    void run(int rank, const std::vector<Operation>& group);
    // The rank leaves: its waits end, and a peer that waits for it reports a remote error.
    void abort(int rank);
    Result error(int rank);
    bool aborted(int rank);

   private:
    struct Member {
        int device = -1;
        bool arrived = false;
        bool aborted = false;
        long meetings = 0;
        long splits = 0;
        Result error = Result::Success;
    };
    struct Meeting {
        std::vector<Operation> calls;
        std::vector<bool> here;
        int arrived = 0;
        bool done = false;
    };
    struct Split {
        std::vector<std::array<int, 2>> wishes;  // color, key
        std::vector<CliqueRef> cliques;
        std::vector<int> ranks;
        int arrived = 0;
        bool done = false;
    };
    struct Message {
        Operation operation;
        bool done = false;
    };
    using MessageRef = std::shared_ptr<Message>;
    struct Box {
        std::deque<MessageRef> sends, recvs;
    };
    using Guard = std::unique_lock<std::mutex>;

    Result wait_for(Guard& guard, const std::atomic<bool>& given_up, const std::function<bool()>& done, const char* what);
    bool all_called(const std::vector<Operation>& group, int rank) const;
    Result check_devices();
    void meet(Guard& guard, int rank, const Operation& call);
    void finish(Meeting& meeting, long number);
    MessageRef post(int rank, const Operation& operation);
    void match(int from, int to, Box& box);
    void wait_done(Guard& guard, int rank, const bool& done, const Operation& call);
    bool peer_aborted(int rank, const Operation& call) const;
    void fail_all(Result error, const std::string& text);
    void form(Split& split);

    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<Member> members_;
    int arrived_ = 0;
    bool complete_ = false;
    Result joined_ = Result::Success;
    std::map<long, std::shared_ptr<Meeting>> meetings_;
    std::map<long, std::shared_ptr<Split>> splits_;
    std::map<std::pair<int, int>, Box> boxes_;
    // The senders and the receivers, by sender and receiver, that have called at least once; the ranks that have called
    // a collective.
    std::set<std::pair<int, int>> senders_, receivers_;
    std::set<int> collective_;
};

// The text of the last error, for ncclGetLastError.
void set_last_error(const std::string& text);
const char* last_error();

}  // namespace emulator
