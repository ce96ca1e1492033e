// The device's kernels, compiled for the host with warps of FASCICLE_WARP lanes; once for each width.
//
// The namespace is renamed after the width: the linker would otherwise take the functions of both for the same.
#if FASCICLE_WARP == 32
#define fascicle fascicle_32
#else
#define fascicle fascicle_64
#endif

#include "simt.h"

#include "all.h"

#if FASCICLE_WARP == 32
#include "operands.h"
#endif
