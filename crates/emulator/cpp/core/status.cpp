#include "status.h"

namespace emulator {

static const StatusText texts[] = {
    {Status::Success, "CUDA_SUCCESS", "hipSuccess", "no error"},
    {Status::InvalidValue, "CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue", "invalid argument"},
    {Status::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory", "out of memory"},
    {Status::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized", "initialization error"},
    {Status::NoDevice, "CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice", "no device was found"},
    {Status::InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice", "invalid device ordinal"},
    {Status::InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage", "device code is invalid"},
    {Status::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext", "invalid device context"},
    {Status::NoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu", "no binary for this device"},
    {Status::PeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "hipErrorPeerAccessUnsupported",
     "peer access is not supported between these devices"},
    {Status::InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle", "invalid resource handle"},
    {Status::NotFound, "CUDA_ERROR_NOT_FOUND", "hipErrorNotFound", "named symbol not found"},
    {Status::NotReady, "CUDA_ERROR_NOT_READY", "hipErrorNotReady", "device not ready"},
    {Status::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress", "an illegal memory access"},
    {Status::LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "hipErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {Status::PeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {Status::PeerAccessNotEnabled, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "hipErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {Status::ContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "hipErrorContextIsDestroyed",
     "context is destroyed"},
    {Status::MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "hipErrorUnknown", "misaligned address"},
    {Status::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure", "unspecified launch failure"},
    {Status::NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "hipErrorNotSupported", "operation not supported"},
    {Status::CaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {Status::CaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {Status::CaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "hipErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
    {Status::CaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "hipErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {Status::CaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {Status::CaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "hipErrorStreamCaptureWrongThread",
     "the capture ends in another thread than it began in"},
    {Status::Unknown, "CUDA_ERROR_UNKNOWN", "hipErrorUnknown", "unknown error"},
};

const StatusText* status_text(int number) {
    for (const auto& text : texts)
        if (static_cast<int>(text.status) == number) return &text;
    return nullptr;
}

}  // namespace emulator
