// The argument of the kernels with faults.
#pragma once

namespace fascicle {

struct FaultyParams {
    const void* from;
    void* to;
};

}  // namespace fascicle
