// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: its states, and what must not be done meanwhile.

#include <thread>

#include "tests/contract/capture_scene.h"
#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

#define FIRN_PROHIBITED \
  "CUDA programming guide, stream capture: prohibited operations"

FIRN_CONTRACT(capture, status_is_active_until_its_end,
              Documented("cuda.h, cuStreamIsCapturing")) {
  const StreamHandle stream = device.NewStream();
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kNone);
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamEndCapture(stream, &graph));
  FIRN_HOLDS(graph != nullptr);
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kNone);
}

FIRN_CONTRACT(capture, runs_nothing,
              Documented("cuda.h, cuStreamBeginCapture: operations will not be "
                         "executed")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamEndCapture(stream, &graph));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 0, 64));
}

FIRN_CONTRACT(capture, leaves_other_streams_alone,
              Documented("cuda.h, cuStreamBeginCapture: of a stream")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const StreamHandle other = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(device.MemsetD8Async(address, 2, 64, other));
  FIRN_WORKS(device.StreamSynchronize(other));
  FIRN_HOLDS(StatusOf(device, other) == CaptureStatus::kNone);
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(
    capture, not_of_the_legacy_stream,
    Documented("cuda.h, cuStreamBeginCapture: not CU_STREAM_LEGACY")) {
  FIRN_REFUSES(device.StreamBeginCapture(nullptr, CaptureMode::kRelaxed));
}

FIRN_CONTRACT(capture, begins_once,
              Documented("cuda.h, cuStreamBeginCapture: if the stream is not "
                         "already in capture mode")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_REFUSES(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
}

FIRN_CONTRACT(capture, ends_only_what_began,
              Documented("cuda.h, cuStreamEndCapture: must have been "
                         "initiated")) {
  const StreamHandle stream = device.NewStream();
  GraphHandle graph = nullptr;
  FIRN_REFUSES(device.StreamEndCapture(stream, &graph));
}

FIRN_CONTRACT(capture, unknown_mode_is_refused,
              Inferred("cuda.h, cuStreamBeginCapture: INVALID_VALUE")) {
  const StreamHandle stream = device.NewStream();
  FIRN_REFUSES(device.StreamBeginCapture(stream, static_cast<CaptureMode>(9)));
}

FIRN_CONTRACT(capture, ends_on_the_thread_that_began_it,
              Documented("cuda.h, cuStreamEndCapture: WRONG_THREAD")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kThreadLocal));
  DriverResult elsewhere = DriverResult::kSuccess;
  GraphHandle graph = nullptr;
  std::thread([&] {
    elsewhere = device.StreamEndCapture(stream, &graph);
  }).join();
  (void)device.StreamEndCapture(stream, &graph);
  FIRN_GIVES(DriverResult::kStreamCaptureWrongThread, elsewhere);
}

FIRN_CONTRACT(capture, relaxed_ends_on_any_thread,
              Documented("cuda.h, cuStreamEndCapture: unless relaxed")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  DriverResult elsewhere = DriverResult::kUnknown;
  GraphHandle graph = nullptr;
  std::thread([&] {
    elsewhere = device.StreamEndCapture(stream, &graph);
  }).join();
  FIRN_WORKS(elsewhere);
}

// --- what must not be done ---

FIRN_CONTRACT(capture, synchronizing_the_stream_is_refused_and_invalidates,
              Documented(FIRN_PROHIBITED)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported,
             device.StreamSynchronize(stream));
  CaptureStatus status = CaptureStatus::kNone;
  FIRN_WORKS(device.StreamIsCapturing(stream, &status));
  FIRN_HOLDS(status == CaptureStatus::kInvalidated);
}

FIRN_CONTRACT(capture, querying_the_stream_is_refused,
              Documented(FIRN_PROHIBITED)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_GIVES(DriverResult::kStreamCaptureUnsupported,
             device.StreamQuery(stream));
}

FIRN_CONTRACT(capture, synchronizing_the_context_is_refused,
              Documented(FIRN_PROHIBITED)) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kGlobal));
  FIRN_REFUSES(device.CtxSynchronize());
}

FIRN_CONTRACT(capture, invalid_until_its_end,
              Documented("CUDA programming guide, stream capture: "
                         "invalidation")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_REFUSES(device.StreamSynchronize(stream));
  FIRN_GIVES(DriverResult::kStreamCaptureInvalidated,
             device.MemsetD8Async(address, 1, 64, stream));
  GraphHandle graph = reinterpret_cast<GraphHandle>(uintptr_t{8});
  FIRN_GIVES(DriverResult::kStreamCaptureInvalidated,
             device.StreamEndCapture(stream, &graph));
  FIRN_HOLDS(graph == nullptr);
  // The stream serves again.
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kNone);
  FIRN_WORKS(device.MemsetD8Async(address, 2, 64, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 2, 64));
}

FIRN_CONTRACT(capture, captured_event_is_neither_queried_nor_awaited,
              Documented("cuda.h, CUDA_ERROR_CAPTURED_EVENT")) {
  const StreamHandle stream = device.NewStream();
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_WORKS(device.EventRecord(event, stream));
  FIRN_GIVES(DriverResult::kCapturedEvent, device.EventQuery(event));
  FIRN_REFUSES(device.EventSynchronize(event));
}

FIRN_CONTRACT(capture, waits_for_no_event_from_outside,
              Documented("cuda.h, CUDA_ERROR_STREAM_CAPTURE_ISOLATION")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const StreamHandle outside = device.NewStream();
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, outside));
  FIRN_WORKS(device.EventRecord(event, outside));
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_GIVES(DriverResult::kStreamCaptureIsolation,
             device.StreamWaitEvent(stream, event, 0));
}

FIRN_CONTRACT(capture, does_not_merge_with_another,
              Documented("cuda.h, CUDA_ERROR_STREAM_CAPTURE_MERGE")) {
  const StreamHandle one = device.NewStream();
  const StreamHandle two = device.NewStream();
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.StreamBeginCapture(one, CaptureMode::kRelaxed));
  FIRN_WORKS(device.StreamBeginCapture(two, CaptureMode::kRelaxed));
  FIRN_WORKS(device.EventRecord(event, one));
  FIRN_GIVES(DriverResult::kStreamCaptureMerge,
             device.StreamWaitEvent(two, event, 0));
}

// --- forks and joins ---

FIRN_CONTRACT(capture, spreads_through_an_event,
              Documented("CUDA programming guide, stream capture: cross-stream "
                         "dependencies")) {
  const StreamHandle origin = device.NewStream();
  const StreamHandle forked = device.NewStream();
  const EventHandle fork = device.NewEvent();
  const EventHandle join = device.NewEvent();
  FIRN_WORKS(device.StreamBeginCapture(origin, CaptureMode::kRelaxed));
  FIRN_WORKS(device.EventRecord(fork, origin));
  FIRN_WORKS(device.StreamWaitEvent(forked, fork, 0));
  FIRN_HOLDS(StatusOf(device, forked) == CaptureStatus::kActive);
  FIRN_WORKS(device.EventRecord(join, forked));
  FIRN_WORKS(device.StreamWaitEvent(origin, join, 0));
  GraphHandle graph = nullptr;
  FIRN_WORKS(device.StreamEndCapture(origin, &graph));
  FIRN_HOLDS(StatusOf(device, forked) == CaptureStatus::kNone);
}

FIRN_CONTRACT(capture, forks_are_joined_before_its_end,
              Documented("cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNJOINED")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle origin = device.NewStream();
  const StreamHandle forked = device.NewStream();
  const EventHandle fork = device.NewEvent();
  FIRN_WORKS(device.StreamBeginCapture(origin, CaptureMode::kRelaxed));
  FIRN_WORKS(device.EventRecord(fork, origin));
  FIRN_WORKS(device.StreamWaitEvent(forked, fork, 0));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, forked));
  GraphHandle graph = nullptr;
  FIRN_GIVES(DriverResult::kStreamCaptureUnjoined,
             device.StreamEndCapture(origin, &graph));
  FIRN_HOLDS(graph == nullptr);
}

FIRN_CONTRACT(capture, ends_on_the_stream_it_began_on,
              Documented("cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED")) {
  const StreamHandle origin = device.NewStream();
  const StreamHandle forked = device.NewStream();
  const EventHandle fork = device.NewEvent();
  FIRN_WORKS(device.StreamBeginCapture(origin, CaptureMode::kRelaxed));
  FIRN_WORKS(device.EventRecord(fork, origin));
  FIRN_WORKS(device.StreamWaitEvent(forked, fork, 0));
  GraphHandle graph = nullptr;
  FIRN_GIVES(DriverResult::kStreamCaptureUnmatched,
             device.StreamEndCapture(forked, &graph));
}

// --- the legacy default stream ---

FIRN_CONTRACT(capture, of_a_blocking_stream_forbids_the_legacy_stream,
              Documented("cuda.h, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream(kStreamDefault);
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_GIVES(DriverResult::kStreamCaptureImplicit,
             device.MemsetD8Async(address, 1, 64, nullptr));
}

FIRN_CONTRACT(capture, status_of_the_legacy_stream_is_no_use_of_it,
              Documented("cuda.h, cuStreamIsCapturing: the capture is not "
                         "invalidated")) {
  const StreamHandle stream = device.NewStream(kStreamDefault);
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  CaptureStatus status = CaptureStatus::kNone;
  FIRN_GIVES(DriverResult::kStreamCaptureImplicit,
             device.StreamIsCapturing(nullptr, &status));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

FIRN_CONTRACT(capture, of_a_non_blocking_stream_leaves_the_legacy_stream,
              Documented("cuda.h, CU_STREAM_NON_BLOCKING")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamBeginCapture(stream, CaptureMode::kRelaxed));
  FIRN_HOLDS(StatusOf(device, nullptr) == CaptureStatus::kNone);
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, nullptr));
  FIRN_WORKS(device.StreamSynchronize(nullptr));
  FIRN_HOLDS(StatusOf(device, stream) == CaptureStatus::kActive);
}

}  // namespace
}  // namespace firn::contract
