// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The exported functions that put results into words. They need no cuInit.

#include "firn/vmm/cpu/libcuda/symbols.h"

namespace firn::libcuda {
namespace {

struct ResultWords {
  int32_t result;
  const char* name;
  const char* text;
};

constexpr ResultWords kResultWords[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "an argument is wrong"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "cuInit was not called"},
    {4, "CUDA_ERROR_DEINITIALIZED", "the driver has shut down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {100, "CUDA_ERROR_NO_DEVICE", "there is no device"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "there is no such device"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "no context, or no valid one"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "the devices cannot access each other"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "a handle is not valid"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "something is in the wrong state"},
    {500, "CUDA_ERROR_NOT_FOUND", "not found"},
    {600, "CUDA_ERROR_NOT_READY", "not finished yet"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "work accessed memory that is not mapped or not accessible"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "work did not end"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "access to the peer was enabled before"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "access to the peer was not enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
     "the current context was destroyed"},
    {710, "CUDA_ERROR_ASSERT", "an assertion of a kernel failed"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a stack is corrupt or too deep"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel has a bad instruction"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel used a bad alignment"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "an address is in the wrong address space"},
    {718, "CUDA_ERROR_INVALID_PC", "a kernel jumped to nowhere"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "work on the device failed"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted while a stream is captured"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an earlier error has made the capture invalid"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "two independent captures would be merged"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the capture did not begin on this stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a stream that was forked from the capture was not joined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "a dependency would cross the border of the capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the legacy stream would depend on the capture"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "the capture was begun by another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "an unknown error"},
};

// Null for a result that has none.
const ResultWords* WordsOf(DriverResult result) {
  for (const ResultWords& words : kResultWords) {
    if (words.result == static_cast<int32_t>(result)) return &words;
  }
  return nullptr;
}

}  // namespace

extern "C" {

DriverResult cuGetErrorName_v6000(DriverResult result, const char** name) {
  if (name == nullptr) return DriverResult::kInvalidValue;
  const ResultWords* const words = WordsOf(result);
  *name = words != nullptr ? words->name : nullptr;
  return words != nullptr ? DriverResult::kSuccess
                          : DriverResult::kInvalidValue;
}

DriverResult cuGetErrorString_v6000(DriverResult result, const char** text) {
  if (text == nullptr) return DriverResult::kInvalidValue;
  const ResultWords* const words = WordsOf(result);
  *text = words != nullptr ? words->text : nullptr;
  return words != nullptr ? DriverResult::kSuccess
                          : DriverResult::kInvalidValue;
}

}  // extern "C"
}  // namespace firn::libcuda
