// The outcomes of a call of the emulated driver. The numbers are the CUDA driver's, which HIP shares.
#pragma once

namespace emulator {

enum class Status : int {
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    InvalidContext = 201,
    NoBinary = 209,
    PeerAccessUnsupported = 217,
    InvalidHandle = 400,
    NotFound = 500,
    NotReady = 600,
    IllegalAddress = 700,
    LaunchOutOfResources = 701,
    PeerAccessAlreadyEnabled = 704,
    PeerAccessNotEnabled = 705,
    ContextIsDestroyed = 709,
    MisalignedAddress = 716,
    LaunchFailed = 719,
    NotSupported = 801,
    CaptureUnsupported = 900,
    CaptureInvalidated = 901,
    CaptureUnmatched = 903,
    CaptureUnjoined = 904,
    CaptureIsolation = 905,
    CaptureWrongThread = 908,
    Unknown = 999,
};

constexpr bool failed(Status status) { return status != Status::Success; }

// Leaves the calling function with the status of a step that failed.
#define TRY(step)                                                           \
    do {                                                                    \
        if (const auto tried = (step); ::emulator::failed(tried)) return tried; \
    } while (0)

// The symbolic name of a status, and one sentence about it.
struct StatusText {
    Status status;
    const char* cuda_name;
    const char* hip_name;
    const char* sentence;
};

// The text of a status number; null for a number that no call returns.
const StatusText* status_text(int number);

}  // namespace emulator
