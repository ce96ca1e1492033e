// Shared by cublasLt and hipblasLt: the choice of an algorithm, and a GEMM with an epilogue in its place in a stream.
#pragma once

#include <vector>

#include "descriptors.h"

namespace emulator {

// The handles of a GEMM's descriptors.
struct Described {
    const void *operation, *a, *b, *c, *d;
};

// The content of a vendor's opaque algorithm, which fits only the GEMM that it was chosen for.
struct Choice {
    std::uint32_t mark;
    std::uint8_t alignments[4];  // powers of two that the caller promised for a, b, c and d
    std::uint64_t fingerprint;   // of the GEMM and of the fields above
};
static_assert(sizeof(Choice) == 16, "hipblasLt's algorithm has 16 bytes of its own");

// The addresses of a GEMM's matrices.
struct Addresses {
    const void *alpha, *a, *b, *beta, *c;
    void *d, *workspace;
    std::size_t workspace_bytes;
    void* stream;
};

// An algorithm for a GEMM, and the bytes of workspace that it needs.
struct Found {
    Choice choice;
    std::size_t workspace;
};

// The first algorithms for a GEMM, at most as many as asked for, whose workspace the preference allows.
// # Errors: NotSupported, without a report, if there is none: asking is no mistake.
Outcome choose(void* handle, const Described& described, const void* preference, std::size_t asked, std::vector<Found>& found);
// The same for both vendors' result structures: `algo` begins with 16 bytes for the choice.
template <class Heuristic>
Outcome choose_into(void* handle, const Described& described, const void* preference, int asked, Heuristic* results, int* count) {
    if (!results || !count || asked < 1) return misuse(Outcome::InvalidValue, "no place for a result: %d asked for", asked);
    *count = 0;
    std::vector<Found> found;
    TRY(choose(handle, described, preference, static_cast<std::size_t>(asked), found));
    for (const auto& [choice, workspace] : found) {
        auto& result = results[(*count)++];
        result = {};
        std::memcpy(&result.algo, &choice, sizeof choice);
        result.workspace = workspace;
        result.waves = 1;
    }
    return Outcome::Success;
}

// Checks everything and queues the GEMM. `algo` is a vendor's algorithm.
Outcome queue_matmul(void* handle, const Described& described, const Addresses& at, const void* algo);

}  // namespace emulator
