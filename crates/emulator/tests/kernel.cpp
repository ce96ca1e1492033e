// A kernel that writes down how it was launched: its value, blocks, threads, shared memory and the width of warps.
#include <cstddef>
#include <cstring>

struct Arguments {
    unsigned* to;
    unsigned value;
};

extern "C" int fascicle_simt_has(const char* function, std::size_t* argument_bytes) {
    *argument_bytes = sizeof(Arguments);
    return std::strcmp(function, "say") == 0;
}

extern "C" int fascicle_simt_operand(const char*, std::size_t index, std::size_t* offset, int* written) {
    *offset = offsetof(Arguments, to);
    *written = 1;
    return index == 0;
}

extern "C" int fascicle_simt_launch(const char*, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                                    const void* arguments, int warp) {
    Arguments given;
    std::memcpy(&given, arguments, sizeof given);
    const unsigned said[5] = {given.value, grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2], shared_bytes,
                              static_cast<unsigned>(warp)};
    std::memcpy(given.to, said, sizeof said);
    return 0;
}
