// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Host functions on streams.

#include <atomic>
#include <vector>

#include "absl/time/clock.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

// Something for a host function to do.
struct Note {
  std::vector<int>* list;
  int number;
};
void WriteNote(void* note) {
  const auto* const it = static_cast<const Note*>(note);
  it->list->push_back(it->number);
}

void SetFlag(void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }

FIRN_CONTRACT(host_function, runs_in_stream_order,
              Documented("cuda.h, cuLaunchHostFunc: after enqueued work, and "
                         "blocks work added after it")) {
  const StreamHandle stream = device.NewStream();
  std::vector<int> list;
  std::vector<Note> notes;
  for (int i = 0; i < 10; ++i) notes.push_back({&list, i});
  for (Note& note : notes) {
    FIRN_WORKS(device.LaunchHostFunc(stream, &WriteNote, &note));
  }
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS((list == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

FIRN_CONTRACT(host_function, waits_for_earlier_work,
              Documented("cuda.h, cuLaunchHostFunc: after currently enqueued "
                         "work")) {
  const StreamHandle stream = device.NewStream();
  std::atomic<bool> ran{false};
  {
    Gate gate(&device);
    FIRN_WORKS(gate.Park(stream));
    FIRN_WORKS(device.LaunchHostFunc(stream, &SetFlag, &ran));
    absl::SleepFor(absl::Milliseconds(20));
    FIRN_HOLDS(!ran);
  }
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(ran.load());
}

FIRN_CONTRACT(host_function, holds_later_work,
              Documented("cuda.h, cuLaunchHostFunc: blocks work added after "
                         "it")) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  const StreamHandle free_stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  static std::atomic<bool> go_on;
  go_on = false;
  FIRN_WORKS(device.LaunchHostFunc(
      stream,
      [](void*) {
        while (!go_on) absl::SleepFor(absl::Milliseconds(1));
      },
      nullptr));
  const DriverResult queued = device.MemsetD8Async(address, 1, 64, stream);
  // Another stream goes on meanwhile; the contents are read on it.
  const DriverResult other = device.StreamSynchronize(free_stream);
  const bool held = device.AllBytesAre(address, 0, 64);
  go_on = true;
  FIRN_WORKS(queued);
  FIRN_WORKS(other);
  FIRN_HOLDS(held);
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 1, 64));
}

FIRN_CONTRACT(host_function, runs_on_the_legacy_stream,
              Documented("cuda.h, cuLaunchHostFunc: null stream")) {
  std::atomic<bool> ran{false};
  FIRN_WORKS(device.LaunchHostFunc(nullptr, &SetFlag, &ran));
  FIRN_WORKS(device.StreamSynchronize(nullptr));
  FIRN_HOLDS(ran.load());
}

FIRN_CONTRACT(host_function, may_not_call_the_driver,
              Strict("cuda.h, cuLaunchHostFunc: may result in NOT_PERMITTED, "
                     "but this is not required")) {
  struct Calls {
    ContractDevice* device;
    DriverResult info = DriverResult::kUnknown;
    DriverResult query = DriverResult::kUnknown;
    DriverResult unmap = DriverResult::kUnknown;
    DevicePtr address = 0;
  };
  Calls calls{&device};
  calls.address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(
      stream,
      [](void* data) {
        auto* const it = static_cast<Calls*>(data);
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        it->info = it->device->MemGetInfo(&free_bytes, &total_bytes);
        it->query = it->device->StreamQuery(nullptr);
        it->unmap = it->device->Unmap(it->address);
      },
      &calls));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(calls.info == DriverResult::kNotPermitted);
  FIRN_HOLDS(calls.query == DriverResult::kNotPermitted);
  FIRN_HOLDS(calls.unmap == DriverResult::kNotPermitted);
  FIRN_WORKS(device.FillGranule(calls.address, 1));
}

FIRN_CONTRACT(host_function, null_is_refused,
              Strict("cuda.h, cuLaunchHostFunc: INVALID_VALUE is what such "
                     "calls give")) {
  FIRN_REFUSES(device.LaunchHostFunc(device.NewStream(), nullptr, nullptr));
}

FIRN_CONTRACT(host_function, is_waited_for_by_an_event,
              Documented("cuda.h, cuLaunchHostFunc: blocks work added after "
                         "it")) {
  const StreamHandle stream = device.NewStream();
  const EventHandle event = device.NewEvent();
  std::atomic<bool> ran{false};
  FIRN_WORKS(device.LaunchHostFunc(
      stream, [](void*) { absl::SleepFor(absl::Milliseconds(20)); }, nullptr));
  FIRN_WORKS(device.LaunchHostFunc(stream, &SetFlag, &ran));
  FIRN_WORKS(device.EventRecord(event, stream));
  const DriverResult waited = device.EventSynchronize(event);
  const bool had_run = ran;
  FIRN_WORKS(waited);
  FIRN_HOLDS(had_run);
}

}  // namespace
}  // namespace firn::contract
