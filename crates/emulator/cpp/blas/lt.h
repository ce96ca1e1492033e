// Shared by cublasLt and hipblasLt: the choice of an algorithm, and a GEMM with an epilogue in its place in a stream.
#pragma once

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

// The one algorithm for a GEMM, and the workspace that it needs.
// # Errors: NotSupported, without a report, if there is none: asking is no mistake.
Outcome choose(void* handle, const Described& described, const void* preference, Choice& choice, std::size_t& workspace);
// The same for both vendors' result structures: `algo` begins with 16 bytes for the choice.
template <class Heuristic>
Outcome choose_into(void* handle, const Described& described, const void* preference, int asked, Heuristic* results, int* found) {
    if (!results || !found || asked < 1) return misuse(Outcome::InvalidValue, "no place for a result: %d asked for", asked);
    *found = 0;
    Choice choice;
    std::size_t workspace = 0;
    TRY(choose(handle, described, preference, choice, workspace));
    results[0] = {};
    std::memcpy(&results[0].algo, &choice, sizeof choice);
    results[0].workspace = workspace;
    results[0].waves = 1;
    *found = 1;
    return Outcome::Success;
}

// Checks everything and queues the GEMM. `algo` is a vendor's algorithm.
Outcome queue_matmul(void* handle, const Described& described, const Addresses& at, const void* algo);

}  // namespace emulator
