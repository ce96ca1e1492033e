// Whether a code object is for the device: its architecture, as compilers write it into the image.
#pragma once

#include <string>

#include "status.h"

namespace emulator {

// NoBinary for a cubin, PTX or bundle of another architecture than `device` (CUDA: the capability times 10, in
// digits; HIP: gfx90a). Images without such a header are those of tests.
Status check_image(const void* image, const std::string& device);

}  // namespace emulator
