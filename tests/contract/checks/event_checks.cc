// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Events: what they capture, and who waits for it.

#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

constexpr DriverResult kDone = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;

FIRN_CONTRACT(event, never_recorded_is_complete,
              Documented("cuda.h, cuEventRecord: before the first call")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle stream = device.NewStream();
  FIRN_GIVES(kDone, device.EventQuery(event));
  FIRN_WORKS(device.EventSynchronize(event));
  FIRN_WORKS(device.StreamWaitEvent(stream, event, 0));
  FIRN_WORKS(device.StreamSynchronize(stream));
}

FIRN_CONTRACT(event, query_tells_done_from_busy,
              Documented("cuda.h, cuEventQuery")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.EventRecord(event, stream));
  FIRN_GIVES(kBusy, device.EventQuery(event));
  gate.Open();
  FIRN_WORKS(device.EventSynchronize(event));
  FIRN_GIVES(kDone, device.EventQuery(event));
}

FIRN_CONTRACT(event, ignores_later_work,
              Documented("cuda.h, cuEventRecord: uses of the stream after this "
                         "call")) {
  const DevicePtr address = device.MapRow();
  const EventHandle event = device.NewEvent();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.EventRecord(event, stream));
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.EventSynchronize(event));
  FIRN_GIVES(kBusy, device.StreamQuery(stream));
}

FIRN_CONTRACT(event, recording_again_overwrites,
              Documented("cuda.h, cuEventRecord: overwrites the captured "
                         "state")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle parked = device.NewStream();
  const StreamHandle idle = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.EventRecord(event, parked));
  FIRN_WORKS(device.EventRecord(event, idle));
  FIRN_WORKS(device.EventSynchronize(event));
  FIRN_GIVES(kDone, device.EventQuery(event));
  FIRN_GIVES(kBusy, device.StreamQuery(parked));
}

FIRN_CONTRACT(event, wait_orders_streams,
              Documented("cuda.h, cuStreamWaitEvent")) {
  const DevicePtr address = device.MapRow();
  const EventHandle event = device.NewEvent();
  const StreamHandle first = device.NewStream();
  const StreamHandle second = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(first));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, first));
  FIRN_WORKS(device.EventRecord(event, first));
  FIRN_WORKS(device.StreamWaitEvent(second, event, 0));
  FIRN_WORKS(device.MemsetD8Async(address, 2, 64, second));
  FIRN_GIVES(kBusy, device.StreamQuery(second));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(second));
  FIRN_HOLDS(device.AllBytesAre(address, 2, 64));
}

FIRN_CONTRACT(event, wait_does_not_hold_the_other_stream,
              Documented("cuda.h, cuStreamWaitEvent: makes the stream wait")) {
  const EventHandle event = device.NewEvent();
  const DevicePtr address = device.MapRow();
  const StreamHandle parked = device.NewStream();
  const StreamHandle waiting = device.NewStream();
  const StreamHandle third = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.EventRecord(event, parked));
  FIRN_WORKS(device.StreamWaitEvent(waiting, event, 0));
  FIRN_WORKS(device.MemsetD8Async(address, 2, 64, third));
  FIRN_WORKS(device.StreamSynchronize(third));
  FIRN_GIVES(kBusy, device.StreamQuery(waiting));
}

FIRN_CONTRACT(event, wait_uses_the_state_at_its_call,
              Documented("cuda.h, cuEventRecord: waits are not affected by "
                         "later calls")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle idle = device.NewStream();
  const StreamHandle parked = device.NewStream();
  const StreamHandle waiting = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(device.EventRecord(event, idle));
  FIRN_WORKS(device.StreamWaitEvent(waiting, event, 0));
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.EventRecord(event, parked));
  FIRN_WORKS(device.StreamSynchronize(waiting));
  FIRN_GIVES(kBusy, device.EventQuery(event));
}

FIRN_CONTRACT(event, order_is_transitive,
              Inferred("cuda.h, cuEventRecord: all work captured, and what it "
                       "waits for")) {
  const EventHandle one = device.NewEvent();
  const EventHandle two = device.NewEvent();
  const StreamHandle a = device.NewStream();
  const StreamHandle b = device.NewStream();
  const StreamHandle c = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(a));
  FIRN_WORKS(device.EventRecord(one, a));
  FIRN_WORKS(device.StreamWaitEvent(b, one, 0));
  FIRN_WORKS(device.EventRecord(two, b));
  FIRN_WORKS(device.StreamWaitEvent(c, two, 0));
  FIRN_GIVES(kBusy, device.StreamQuery(c));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(c));
  FIRN_GIVES(kDone, device.StreamQuery(a));
}

FIRN_CONTRACT(event, of_the_legacy_stream_captures_blocking_streams,
              Documented("cuda.h, cuEventRecord: default stream behavior")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle blocking = device.NewStream(kStreamDefault);
  Gate gate(&device);
  FIRN_WORKS(gate.Park(blocking));
  FIRN_WORKS(device.EventRecord(event, nullptr));
  FIRN_GIVES(kBusy, device.EventQuery(event));
  gate.Open();
  FIRN_WORKS(device.EventSynchronize(event));
}

FIRN_CONTRACT(event, may_be_destroyed_while_pending,
              Documented("cuda.h, cuEventDestroy: before it is complete")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle parked = device.NewStream();
  const StreamHandle waiting = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.EventRecord(event, parked));
  FIRN_WORKS(device.StreamWaitEvent(waiting, event, 0));
  FIRN_WORKS(device.EventDestroy(event));
  FIRN_GIVES(kBusy, device.StreamQuery(waiting));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(waiting));
}

FIRN_CONTRACT(event, outlives_its_stream,
              Inferred("cuda.h, cuStreamDestroy: work completes")) {
  const EventHandle event = device.NewEvent();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.EventRecord(event, stream));
  FIRN_WORKS(device.StreamDestroy(stream));
  FIRN_GIVES(kBusy, device.EventQuery(event));
  gate.Open();
  FIRN_WORKS(device.EventSynchronize(event));
}

FIRN_CONTRACT(event, timing_may_be_on_or_off,
              Documented("cuda.h, CUevent_flags")) {
  EventHandle timed = nullptr;
  EventHandle untimed = nullptr;
  FIRN_WORKS(device.EventCreate(&timed, kEventDefault));
  FIRN_WORKS(device.EventCreate(&untimed, kEventDisableTiming));
}

FIRN_CONTRACT(event, unknown_flags_are_refused,
              Documented("cuda.h, cuEventCreate: INVALID_VALUE")) {
  EventHandle event = nullptr;
  FIRN_REFUSES(device.EventCreate(&event, 0x100));
}

FIRN_CONTRACT(event, null_output_is_refused,
              Inferred("cuda.h, cuEventCreate: INVALID_VALUE")) {
  FIRN_REFUSES(device.EventCreate(nullptr, kEventDisableTiming));
}

FIRN_CONTRACT(event, destroyed_handle_is_refused, Strict("undefined in CUDA")) {
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.EventDestroy(event));
  FIRN_REFUSES(device.EventQuery(event));
  FIRN_REFUSES(device.EventDestroy(event));
}

// --- across devices ---

FIRN_CONTRACT(event, is_recorded_on_its_device_only,
              Documented("cuda.h, cuEventRecord: same context, else "
                         "INVALID_HANDLE"),
              kTwoDevices) {
  const EventHandle event = device.NewEvent();
  const StreamHandle stream = device.other().NewStream();
  FIRN_GIVES(DriverResult::kInvalidHandle,
             device.other().EventRecord(event, stream));
}

FIRN_CONTRACT(event, wait_crosses_devices,
              Documented("cuda.h, cuStreamWaitEvent: another context or "
                         "device"),
              kTwoDevices) {
  const EventHandle event = device.NewEvent();
  const StreamHandle mine = device.NewStream();
  const StreamHandle theirs = device.other().NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(mine));
  FIRN_WORKS(device.EventRecord(event, mine));
  FIRN_WORKS(device.other().StreamWaitEvent(theirs, event, 0));
  FIRN_GIVES(kBusy, device.other().StreamQuery(theirs));
  gate.Open();
  FIRN_WORKS(device.other().StreamSynchronize(theirs));
}

}  // namespace
}  // namespace firn::contract
