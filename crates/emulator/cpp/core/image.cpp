#include "image.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "symbols.h"

namespace emulator {

static bool begins(const char* image, const char* text) { return std::strncmp(image, text, std::strlen(text)) == 0; }

static Status no_binary(const std::string& found, const std::string& device) {
    return misuse(Status::NoBinary, "an image for %s, the device is %s", found.c_str(), device.c_str());
}

#ifdef EMULATOR_HIP

// A bundle: magic, number of entries, and for each offset, size, and length of its target, then the target, such as
// hipv4-amdgcn-amd-amdhsa--gfx90a. (Clang's documentation, Clang Offload Bundler.)
Status check_image(const void* image, const std::string& device) {
    const auto* bytes = static_cast<const char*>(image);
    const char* magic = "__CLANG_OFFLOAD_BUNDLE__";
    if (!begins(bytes, magic)) return Status::Success;
    const auto* at = bytes + std::strlen(magic);
    std::uint64_t entries, length;
    std::memcpy(&entries, at, 8);
    at += 8;
    std::string found;
    for (std::uint64_t entry = 0; entry < entries; ++entry) {
        std::memcpy(&length, at + 16, 8);
        const std::string target(at + 24, length);
        at += 24 + length;
        const auto name = target.rfind("--");
        if (name == std::string::npos || target.rfind("hip", 0) != 0) continue;
        const auto architecture = target.substr(name + 2);
        // sramecc and xnack may be left open.
        if (device.rfind(architecture, 0) == 0) return Status::Success;
        found += (found.empty() ? "" : ", ") + architecture;
    }
    return no_binary(found.empty() ? "no device" : found, device);
}

#else

// The target of an ELF of NVIDIA's machine: in the low byte of its flags, from version 8 of the ABI on in the second one. As nvcc 13.0 and
// 12.8 write them.
static int of_cubin(const unsigned char* elf) {
    constexpr unsigned cuda = 190;
    if ((elf[18] | elf[19] << 8) != cuda) return 0;
    const auto abi = elf[8];
    return abi >= 8 ? elf[49] : elf[48];
}

Status check_image(const void* image, const std::string& device) {
    const auto* bytes = static_cast<const char*>(image);
    const int own = std::atoi(device.c_str());
    if (begins(bytes, "\x7f" "ELF")) {
        const int target = of_cubin(static_cast<const unsigned char*>(image));
        // A device runs what was compiled for its generation, up to its own revision.
        const bool runs = target / 10 == own / 10 && target <= own;
        return target == 0 || runs ? Status::Success : no_binary("sm_" + std::to_string(target), "sm_" + device);
    }
    if (begins(bytes, "//") || begins(bytes, ".version")) {
        const char* found = std::strstr(bytes, ".target sm_");
        const int target = found ? std::atoi(found + std::strlen(".target sm_")) : 0;
        if (target > own) return no_binary("sm_" + std::to_string(target) + " or later", "sm_" + device);
    }
    return Status::Success;
}

#endif

}  // namespace emulator
