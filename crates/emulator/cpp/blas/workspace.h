// Memory that a GEMM may use while it runs. The emulator's GEMM needs none, but it marks both ends. So it writes to a
// workspace that was freed too early, and detects other work that uses the workspace meanwhile.
#pragma once

#include "../core/status.h"
#include "../core/symbols.h"
#include "numbers.h"

namespace emulator {

struct Workspace {
    unsigned char* start = nullptr;
    std::size_t bytes = 0;

    // Writes a token that no other GEMM has into the first and the last bytes.
    std::uint64_t take() const {
        static std::atomic<std::uint64_t> given{0x776f726b00000000ull};
        const auto token = ++given;
        if (bytes == 0) return token;
        std::memcpy(start, &token, sizeof token);
        std::memcpy(start + bytes - sizeof token, &token, sizeof token);
        return token;
    }

    // Checks the token.
    Status give_back(std::uint64_t token) const {
        if (bytes == 0) return Status::Success;
        if (std::memcmp(start, &token, sizeof token) == 0 && std::memcmp(start + bytes - sizeof token, &token, sizeof token) == 0)
            return Status::Success;
        return misuse(Status::LaunchFailed, "the workspace of %zu bytes at %p was written while a product used it", bytes,
                      static_cast<const void*>(start));
    }
};

}  // namespace emulator
