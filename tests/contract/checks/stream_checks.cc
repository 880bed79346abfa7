// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams: identity, order, and what waits for what.

#include <set>

#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

constexpr DriverResult kDone = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;

uint64_t IdOf(ContractDevice& device, StreamHandle stream) {
  uint64_t id = 0;
  (void)device.StreamGetId(stream, &id);
  return id;
}

// --- identity ---

FIRN_CONTRACT(stream, ids_differ, Documented("cuda.h, cuStreamGetId: unique")) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 8; ++i) ids.insert(IdOf(device, device.NewStream()));
  FIRN_EQUALS(size_t{8}, ids.size());
}

FIRN_CONTRACT(stream, ids_are_never_reused,
              Documented("cuda.h, cuStreamGetId: unique for the life of the "
                         "program")) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 32; ++i) {
    StreamHandle stream = nullptr;
    FIRN_WORKS(device.StreamCreate(&stream, kStreamNonBlocking));
    uint64_t id = 0;
    FIRN_WORKS(device.StreamGetId(stream, &id));
    FIRN_HOLDS(ids.insert(id).second);
    FIRN_WORKS(device.StreamDestroy(stream));
  }
}

FIRN_CONTRACT(stream, id_is_constant, Documented("cuda.h, cuStreamGetId")) {
  const StreamHandle stream = device.NewStream();
  const DevicePtr address = device.MapRow();
  const uint64_t id = IdOf(device, stream);
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_EQUALS(id, IdOf(device, stream));
}

FIRN_CONTRACT(stream, legacy_stream_has_an_id,
              Documented("cuda.h, cuStreamGetId: the NULL stream")) {
  uint64_t id = 0;
  FIRN_WORKS(device.StreamGetId(nullptr, &id));
  FIRN_HOLDS(id != IdOf(device, device.NewStream()));
}

FIRN_CONTRACT(stream, ids_differ_between_devices,
              Documented("cuda.h, cuStreamGetId: unique"), kTwoDevices) {
  FIRN_HOLDS(IdOf(device, device.NewStream()) !=
             IdOf(device.other(), device.other().NewStream()));
}

// --- arguments ---

FIRN_CONTRACT(stream, unknown_flags_are_refused,
              Documented("cuda.h, cuStreamCreate: INVALID_VALUE")) {
  StreamHandle stream = nullptr;
  FIRN_REFUSES(device.StreamCreate(&stream, 0x80));
}

FIRN_CONTRACT(stream, null_output_is_refused,
              Inferred("cuda.h, cuStreamCreate: INVALID_VALUE")) {
  FIRN_REFUSES(device.StreamCreate(nullptr, kStreamNonBlocking));
}

FIRN_CONTRACT(stream, destroyed_handle_is_refused,
              Strict("undefined in CUDA")) {
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.StreamDestroy(stream));
  FIRN_REFUSES(device.StreamQuery(stream));
  FIRN_REFUSES(device.StreamDestroy(stream));
}

FIRN_CONTRACT(stream, legacy_stream_cannot_be_destroyed,
              Strict("cuda.h, cuStreamDestroy: INVALID_HANDLE")) {
  FIRN_REFUSES(device.StreamDestroy(nullptr));
}

// --- waiting ---

FIRN_CONTRACT(stream, query_tells_done_from_busy,
              Documented("cuda.h, cuStreamQuery")) {
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_GIVES(kDone, device.StreamQuery(stream));
  FIRN_WORKS(gate.Park(stream));
  FIRN_GIVES(kBusy, device.StreamQuery(stream));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_GIVES(kDone, device.StreamQuery(stream));
}

FIRN_CONTRACT(stream, work_runs_in_order,
              Documented("CUDA programming guide, streams")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  for (int value = 1; value <= 100; ++value) {
    FIRN_WORKS(
        device.MemsetD8Async(address, static_cast<uint8_t>(value), 64, stream));
  }
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 100, 64));
}

FIRN_CONTRACT(stream, others_overtake_a_stream_that_waits,
              Documented("CUDA programming guide, streams: no order between "
                         "them")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle parked = device.NewStream();
  const StreamHandle other = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.MemsetD8Async(address, 5, 64, other));
  FIRN_WORKS(device.StreamSynchronize(other));
  FIRN_GIVES(kBusy, device.StreamQuery(parked));
}

FIRN_CONTRACT(stream, context_synchronization_waits_for_all,
              Documented("cuda.h, cuCtxSynchronize")) {
  const DevicePtr address = device.MapRow(2);
  const StreamHandle one = device.NewStream();
  const StreamHandle two = device.NewStream(kStreamDefault);
  FIRN_WORKS(device.MemsetD8Async(address, 1, device.granule_bytes(), one));
  FIRN_WORKS(device.MemsetD8Async(device.At(address, 1), 1,
                                  device.granule_bytes(), two));
  FIRN_WORKS(device.CtxSynchronize());
  FIRN_GIVES(kDone, device.StreamQuery(one));
  FIRN_GIVES(kDone, device.StreamQuery(two));
}

FIRN_CONTRACT(stream, context_synchronization_is_of_one_device,
              Documented("cuda.h, cuCtxSynchronize: the current context"),
              kTwoDevices) {
  const StreamHandle parked = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.other().CtxSynchronize());
  FIRN_GIVES(kBusy, device.StreamQuery(parked));
}

FIRN_CONTRACT(stream, destroying_it_does_not_drop_its_work,
              Documented("cuda.h, cuStreamDestroy: released once all work has "
                         "completed")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.MemsetD8Async(address, 9, 64, stream));
  FIRN_WORKS(device.StreamDestroy(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 0, 64));
  gate.Open();
  FIRN_WORKS(device.CtxSynchronize());
  FIRN_HOLDS(device.AllBytesAre(address, 9, 64));
}

// --- the legacy default stream ---

FIRN_CONTRACT(stream, legacy_waits_for_blocking_streams,
              Documented("CUDA runtime documentation, stream synchronization "
                         "behavior: legacy default stream")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle blocking = device.NewStream(kStreamDefault);
  Gate gate(&device);
  FIRN_WORKS(gate.Park(blocking));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, nullptr));
  FIRN_GIVES(kBusy, device.StreamQuery(nullptr));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(nullptr));
  FIRN_GIVES(kDone, device.StreamQuery(blocking));
}

FIRN_CONTRACT(stream, blocking_streams_wait_for_legacy,
              Documented("CUDA runtime documentation, stream synchronization "
                         "behavior: legacy default stream")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle blocking = device.NewStream(kStreamDefault);
  Gate gate(&device);
  FIRN_WORKS(gate.Park(nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, blocking));
  FIRN_GIVES(kBusy, device.StreamQuery(blocking));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(blocking));
  FIRN_GIVES(kDone, device.StreamQuery(nullptr));
}

FIRN_CONTRACT(stream, non_blocking_streams_ignore_legacy,
              Documented("cuda.h, CU_STREAM_NON_BLOCKING")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle independent = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, independent));
  FIRN_WORKS(device.StreamSynchronize(independent));
  FIRN_GIVES(kBusy, device.StreamQuery(nullptr));
}

FIRN_CONTRACT(stream, legacy_ignores_non_blocking_streams,
              Documented("cuda.h, CU_STREAM_NON_BLOCKING")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle independent = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(independent));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, nullptr));
  FIRN_WORKS(device.StreamSynchronize(nullptr));
  FIRN_GIVES(kBusy, device.StreamQuery(independent));
}

FIRN_CONTRACT(stream, legacy_orders_blocking_streams_through_it,
              Documented("CUDA runtime documentation, stream synchronization "
                         "behavior: legacy default stream")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle one = device.NewStream(kStreamDefault);
  const StreamHandle two = device.NewStream(kStreamDefault);
  Gate gate(&device);
  FIRN_WORKS(gate.Park(one));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 2, 64, two));
  FIRN_GIVES(kBusy, device.StreamQuery(two));
  gate.Open();
  FIRN_WORKS(device.StreamSynchronize(two));
  FIRN_HOLDS(device.AllBytesAre(address, 2, 64));
}

FIRN_CONTRACT(stream, each_device_has_its_legacy_stream,
              Observed("PyTorch pull request 197159: stream 0 of the wrong "
                       "device"),
              kTwoDevices) {
  const DevicePtr address = device.other().MapRow();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(nullptr));
  FIRN_WORKS(device.other().MemsetD8Async(address, 1, 64, nullptr));
  FIRN_WORKS(device.other().StreamSynchronize(nullptr));
  FIRN_GIVES(kBusy, device.StreamQuery(nullptr));
}

}  // namespace
}  // namespace firn::contract
