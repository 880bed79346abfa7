// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a CudaDriver does with a call beyond passing it on: again while the
// driver is not ready, and still once the device is lost. Private to vmm/cuda.

#ifndef FIRN_VMM_CUDA_CALL_RULES_H_
#define FIRN_VMM_CUDA_CALL_RULES_H_

#include <chrono>
#include <thread>

#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// Whether NOT_READY means "try again" rather than "not yet done". So it is for
// calls that manage memory (it was seen from cuMemSetAccess while other threads
// queued work): they are no part of a stream, so that a refused one has left
// nothing behind. Not for questions, whose answer it is, and not for work on
// streams, which must never be queued twice.
constexpr bool IsRetriedWhenNotReady(DriverCall call) {
  switch (call) {
    case DriverCall::kMemAddressReserve:
    case DriverCall::kMemAddressFree:
    case DriverCall::kMemCreate:
    case DriverCall::kMemRelease:
    case DriverCall::kMemMap:
    case DriverCall::kMemUnmap:
    case DriverCall::kMemSetAccess:
    case DriverCall::kMemRetainAllocationHandle:
    case DriverCall::kMemExportToShareableHandle:
    case DriverCall::kMemImportFromShareableHandle:
    case DriverCall::kMemAlloc:
    case DriverCall::kMemFree:
      return true;
    default:
      return false;
  }
}

// The pauses between tries double from the first one: 630 us in all. Where
// calls or pauses take longer than they should, no pause but the first begins
// that would end later than the bound after the first answer.
inline constexpr int kNotReadyTries = 7;
inline constexpr std::chrono::microseconds kFirstNotReadyPause{10};
inline constexpr std::chrono::microseconds kNotReadyBound{1000};

// Makes a call until it returns something else than kNotReady, or the tries or
// the time are used up.
template <typename Call>
DriverResult RetryWhileNotReady(const Call& call) {
  DriverResult result = call();
  if (result != DriverResult::kNotReady) return result;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + kNotReadyBound;
  std::chrono::microseconds pause = kFirstNotReadyPause;
  for (int tries = 1; tries < kNotReadyTries; ++tries) {
    if (tries > 1 && Clock::now() + pause > deadline) break;
    std::this_thread::sleep_for(pause);
    result = call();
    if (result != DriverResult::kNotReady) break;
    pause *= 2;
  }
  return result;
}

// What becomes of a call once the device is lost. The result is the loss in
// any case.
enum class OnceLost {
  // Not made: it would only fail.
  kRefused,
  // Made, so that work is over when it returns: the owner may then free the
  // host memory that the work reads and writes.
  kWaits,
  // Made, so that what the driver still gives back is given back, and
  // reservations, handles, streams and events of the living devices of this
  // process do not dangle.
  kEnds,
};

constexpr OnceLost RuleOnceLost(DriverCall call) {
  switch (call) {
    case DriverCall::kStreamSynchronize:
    case DriverCall::kEventSynchronize:
    case DriverCall::kCtxSynchronize:
      return OnceLost::kWaits;
    case DriverCall::kMemAddressFree:
    case DriverCall::kMemRelease:
    case DriverCall::kMemUnmap:
    case DriverCall::kMemFree:
    case DriverCall::kStreamDestroy:
    case DriverCall::kEventDestroy:
    case DriverCall::kGraphExecDestroy:
    case DriverCall::kGraphDestroy:
      return OnceLost::kEnds;
    default:
      return OnceLost::kRefused;
  }
}

}  // namespace firn

#endif  // FIRN_VMM_CUDA_CALL_RULES_H_
