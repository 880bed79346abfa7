// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which calls captures forbid to which threads.

#include <functional>
#include <thread>

#include "tests/contract/capture_scene.h"
#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

// NVIDIA does not list the calls that are unsafe while a capture goes on; the
// CPU driver counts those that change handles, mappings and access.
#define FIRN_UNSAFE \
  "cuda.h, cuThreadExchangeStreamCaptureMode; which calls are unsafe is open"

// A call that is unsafe and has no effect that outlives it, elsewhere.
DriverResult CreateAndRelease(ContractDevice& device) {
  const AllocationProp prop = device.Prop();
  PhysicalHandle handle = 0;
  const DriverResult result =
      device.MemCreate(&handle, device.granule_bytes(), &prop, 0);
  if (result != DriverResult::kSuccess) return result;
  return device.MemRelease(handle);
}

DriverResult OnAnotherThread(const std::function<DriverResult()>& call) {
  DriverResult result = DriverResult::kUnknown;
  std::thread([&] { result = call(); }).join();
  return result;
}

// --- thread_mode ---

FIRN_CONTRACT(thread_mode, is_global_at_first,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: the "
                         "default mode")) {
  CaptureMode mode = CaptureMode::kRelaxed;
  FIRN_WORKS(OnAnotherThread(
      [&] { return device.ThreadExchangeStreamCaptureMode(&mode); }));
  FIRN_HOLDS(mode == CaptureMode::kGlobal);
}

FIRN_CONTRACT(thread_mode, exchange_returns_the_last_one,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode")) {
  CaptureMode modes[] = {CaptureMode::kRelaxed, CaptureMode::kThreadLocal,
                         CaptureMode::kGlobal};
  FIRN_WORKS(OnAnotherThread([&] {
    for (CaptureMode& mode : modes) {
      const DriverResult result = device.ThreadExchangeStreamCaptureMode(&mode);
      if (result != DriverResult::kSuccess) return result;
    }
    return DriverResult::kSuccess;
  }));
  FIRN_HOLDS(modes[0] == CaptureMode::kGlobal);
  FIRN_HOLDS(modes[1] == CaptureMode::kRelaxed);
  FIRN_HOLDS(modes[2] == CaptureMode::kThreadLocal);
}

FIRN_CONTRACT(thread_mode, unknown_mode_is_refused,
              Inferred("cuda.h, cuThreadExchangeStreamCaptureMode: "
                       "INVALID_VALUE")) {
  CaptureMode mode = static_cast<CaptureMode>(9);
  FIRN_REFUSES(device.ThreadExchangeStreamCaptureMode(&mode));
}

// --- unsafe calls ---

FIRN_CONTRACT(capture, global_forbids_unsafe_calls_and_is_invalidated,
              Strict(FIRN_UNSAFE)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported, CreateAndRelease(device));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kInvalidated);
}

FIRN_CONTRACT(capture, global_forbids_unsafe_calls_of_other_threads,
              Strict(FIRN_UNSAFE)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported,
             OnAnotherThread([&] { return CreateAndRelease(device); }));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kInvalidated);
}

FIRN_CONTRACT(capture, thread_local_forbids_unsafe_calls_of_its_thread,
              Strict(FIRN_UNSAFE)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kThreadLocal));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported, CreateAndRelease(device));
}

FIRN_CONTRACT(capture, thread_local_leaves_other_threads_alone,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: global "
                         "captures of other threads alone count")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kThreadLocal));
  FIRN_WORKS(OnAnotherThread([&] { return CreateAndRelease(device); }));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(capture, relaxed_forbids_nobody,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: captures "
                         "not initiated as relaxed")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(CreateAndRelease(device));
  FIRN_WORKS(OnAnotherThread([&] { return CreateAndRelease(device); }));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(thread_mode, relaxed_allows_unsafe_calls,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: relaxed "
                         "threads are not prohibited")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_WORKS(OnAnotherThread([&] {
    const ThreadCaptureMode mode(&device, CaptureMode::kRelaxed);
    return CreateAndRelease(device);
  }));
  const ThreadCaptureMode mode(&device, CaptureMode::kRelaxed);
  FIRN_WORKS(CreateAndRelease(device));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(thread_mode, thread_local_ignores_captures_of_other_threads,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: thread "
                         "local threads")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_WORKS(OnAnotherThread([&] {
    const ThreadCaptureMode mode(&device, CaptureMode::kThreadLocal);
    return CreateAndRelease(device);
  }));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(capture, forbids_every_call_that_changes_memory,
              Strict(FIRN_UNSAFE)) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr mapped = device.MapAnywhere(handle);
  const DevicePtr bare = device.Reserve(1);
  const auto refused = [&](const std::function<DriverResult()>& call) {
    const StreamHandle stream = device.NewStream();
    GraphHandle graph = nullptr;
    if (device.StreamBeginCapture(stream, CaptureMode::kGlobal) !=
        DriverResult::kSuccess) {
      return false;
    }
    const DriverResult result = call();
    (void)device.StreamEndCapture(stream, &graph);
    return result == DriverResult::kStreamCaptureUnsupported;
  };
  FIRN_HOLDS(refused([&] { return CreateAndRelease(device); }));
  FIRN_HOLDS(refused([&] { return device.Map(bare, handle); }));
  FIRN_HOLDS(refused([&] { return device.SetAccess(mapped, 1); }));
  FIRN_HOLDS(refused([&] { return device.Unmap(mapped); }));
  FIRN_HOLDS(refused([&] { return device.MemRelease(handle); }));
  // None of them did anything.
  FIRN_WORKS(device.FillGranule(mapped, 1));
  FIRN_WORKS(device.Map(bare, handle));
}

FIRN_CONTRACT(capture, forbids_nothing_once_it_has_ended,
              Documented("cuda.h, cuThreadExchangeStreamCaptureMode: ongoing "
                         "captures")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamEndCapture(stream, &graph));
  FIRN_WORKS(CreateAndRelease(device));
}

}  // namespace
}  // namespace firn::contract
