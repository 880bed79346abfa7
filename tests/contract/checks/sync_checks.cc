// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What unmapping does about work in flight. NVIDIA says that it is synchronous
// "for most use cases"; nobody may rely on it either way. The CPU driver has
// both extremes.

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

constexpr DriverResult kDone = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;
constexpr DriverResult kIllegal = DriverResult::kIllegalAddress;

#define FIRN_AT_ONCE \
  "PyTorch, CUDACachingAllocator.cpp: MemUnmap does not appear to synchronize"
#define FIRN_WAITS "cuda.h, cuMemUnmap: synchronous behavior for most use cases"

void Sleep(void*) { absl::SleepFor(absl::Milliseconds(60)); }

FIRN_CONTRACT(sync, idle_memory_may_be_unmapped_while_others_work,
              Inferred("cuda.h, cuMemUnmap: of the given range")) {
  const DevicePtr busy = device.MapRow();
  const DevicePtr idle = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(stream, &Sleep, nullptr));
  FIRN_WORKS(device.MemsetD8Async(busy, 5, device.granule_bytes(), stream));
  FIRN_WORKS(device.Unmap(idle));
  FIRN_WORKS(device.Map(idle, device.Create()));
  FIRN_WORKS(device.SetAccess(idle, 1));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(busy, 5));
}

FIRN_CONTRACT(sync, creating_and_mapping_wait_for_nothing,
              Strict("cuda.h calls only cuMemUnmap and cuMemSetAccess "
                     "synchronous")) {
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  const DevicePtr address = device.Reserve(2);
  const PhysicalHandle handle = device.Create();
  FIRN_WORKS(device.Map(address, handle));
  FIRN_WORKS(device.MemRelease(device.Create()));
  FIRN_WORKS(device.MemAddressFree(device.Reserve(1), device.granule_bytes()));
  FIRN_GIVES(kBusy, device.StreamQuery(stream));
}

// --- lazy ---

FIRN_CONTRACT(sync, lazy_unmap_does_not_wait, Strict(FIRN_AT_ONCE), kLazy) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.Unmap(address));
  FIRN_GIVES(kBusy, device.StreamQuery(stream));
}

FIRN_CONTRACT(sync, lazy_set_access_does_not_wait, Strict(FIRN_AT_ONCE),
              kLazy) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kRead));
  FIRN_GIVES(kBusy, device.StreamQuery(stream));
}

FIRN_CONTRACT(sync, lazy_unmap_under_queued_work_loses_the_device,
              Strict("vLLM issue 43020: unmapped while kernels were queued"),
              kLazy | kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.Unmap(address));
  gate.Open();
  FIRN_GIVES(kIllegal, device.StreamSynchronize(stream));
  FIRN_GIVES(kIllegal, device.CtxSynchronize());
}

struct Unmapped {
  DriverResult result = DriverResult::kUnknown;
  absl::Duration took;
};

// A stream waits for a flag before it uses memory; this thread remaps the
// memory, and sets the flag only then. Returns what waiting for the stream
// gave.
DriverResult RemapBehindAFlag(ContractDevice& device, Unmapped* unmapped) {
  const DevicePtr address = device.MapRow();
  const PhysicalHandle fresh = device.Create();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  (void)gate.Park(stream);
  (void)device.MemsetD8Async(address, 1, 64, stream);
  const absl::Time start = absl::Now();
  unmapped->result = device.Unmap(address);
  unmapped->took = absl::Now() - start;
  if (unmapped->result != DriverResult::kSuccess) return unmapped->result;
  (void)device.Map(address, fresh);
  (void)device.SetAccess(address, 1);
  gate.Open();
  return device.StreamSynchronize(stream);
}

FIRN_CONTRACT(sync, lazy_remap_behind_a_flag_loses_the_device,
              Strict("work that was queued for what was unmapped since, "
                     "whatever is mapped there now"),
              kLazy | kOwnProcess) {
  Unmapped unmapped;
  FIRN_GIVES(kIllegal, RemapBehindAFlag(device, &unmapped));
  FIRN_WORKS(unmapped.result);
}

FIRN_CONTRACT(sync, lazy_loss_of_access_under_queued_work_loses_the_device,
              Strict(FIRN_AT_ONCE), kLazy | kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kNone));
  gate.Open();
  FIRN_GIVES(kIllegal, device.StreamSynchronize(stream));
}

FIRN_CONTRACT(sync, lazy_unmap_under_a_running_kernel_loses_the_device,
              Strict("TensorRT-LLM issue 11641: a missing wait before "
                     "cuMemUnmap"),
              kLazy | kOwnProcess | kKernels) {
  static std::atomic<bool> started;
  static std::atomic<bool> go_on;
  started = false;
  go_on = false;
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchKernel(
      stream, {KernelRange{address, device.granule_bytes(), true}}, [] {
        started = true;
        while (!go_on) absl::SleepFor(absl::Milliseconds(1));
      }));
  while (!started) absl::SleepFor(absl::Milliseconds(1));
  const DriverResult unmapped = device.Unmap(address);
  go_on = true;
  FIRN_WORKS(unmapped);
  FIRN_GIVES(kIllegal, device.StreamSynchronize(stream));
}

// --- draining ---

FIRN_CONTRACT(sync, draining_unmap_waits, Strict(FIRN_WAITS), kDraining) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(stream, &Sleep, nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.Unmap(address));
  FIRN_GIVES(kDone, device.StreamQuery(stream));
}

FIRN_CONTRACT(sync, draining_set_access_waits, Strict(FIRN_WAITS), kDraining) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(stream, &Sleep, nullptr));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kNone));
  FIRN_GIVES(kDone, device.StreamQuery(stream));
}

FIRN_CONTRACT(sync, draining_waits_for_destroyed_streams_too,
              Strict(FIRN_WAITS), kDraining) {
  static std::atomic<bool> done;
  done = false;
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.LaunchHostFunc(stream, &Sleep, nullptr));
  FIRN_WORKS(device.LaunchHostFunc(
      stream, [](void*) { done = true; }, nullptr));
  FIRN_WORKS(device.StreamDestroy(stream));
  FIRN_WORKS(device.Unmap(address));
  FIRN_HOLDS(done.load());
}

FIRN_CONTRACT(sync, draining_remap_behind_a_flag_is_a_deadlock,
              Strict("cuda.h, cuStreamWaitValue32: improper use may deadlock"),
              kDraining | kOwnProcess) {
  Unmapped unmapped;
  (void)RemapBehindAFlag(device, &unmapped);
  FIRN_GIVES(DriverResult::kLaunchTimeout, unmapped.result);
  FIRN_HOLDS(unmapped.took < absl::Seconds(1));
  FIRN_GIVES(DriverResult::kLaunchTimeout, device.CtxSynchronize());
}

FIRN_CONTRACT(sync, draining_deadlock_names_the_stream_and_its_wait,
              Strict("who waits for what is reported"),
              kDraining | kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  uint64_t id = 0;
  FIRN_WORKS(device.StreamGetId(stream, &id));
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_GIVES(DriverResult::kLaunchTimeout, device.Unmap(address));
  const std::string report = device.LastReport();
  FIRN_HOLDS(absl::StrContains(report, absl::StrCat("stream ", id)));
  FIRN_HOLDS(
      absl::StrContains(report, absl::StrCat(absl::Hex(gate.address()))));
}

FIRN_CONTRACT(sync, draining_deadlock_is_found_through_events,
              Strict("work that waits for work that waits for a value"),
              kDraining | kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle parked = device.NewStream();
  const StreamHandle behind = device.NewStream();
  const EventHandle event = device.NewEvent();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.EventRecord(event, parked));
  FIRN_WORKS(device.StreamWaitEvent(behind, event, 0));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, behind));
  FIRN_GIVES(DriverResult::kLaunchTimeout, device.Unmap(address));
}

FIRN_CONTRACT(sync, draining_wait_that_another_thread_ends_is_none,
              Strict("only the thread inside the call cannot write"),
              kDraining) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.MemsetD8Async(address, 1, 64, stream));
  std::thread opener([&gate] {
    absl::SleepFor(absl::Milliseconds(60));
    gate.Open();
  });
  const DriverResult unmapped = device.Unmap(address);
  opener.join();
  FIRN_WORKS(unmapped);
  FIRN_GIVES(kDone, device.StreamQuery(stream));
}

FIRN_CONTRACT(sync, draining_wait_that_other_work_ends_is_none,
              Strict("a value that queued work will write is no deadlock"),
              kDraining) {
  const DevicePtr address = device.MapRow();
  const StreamHandle parked = device.NewStream();
  const StreamHandle opener = device.NewStream();
  Gate gate(&device);
  FIRN_WORKS(gate.Park(parked));
  FIRN_WORKS(device.LaunchHostFunc(opener, &Sleep, nullptr));
  FIRN_WORKS(gate.OpenOn(opener));
  FIRN_WORKS(device.Unmap(address));
  FIRN_GIVES(kDone, device.StreamQuery(parked));
}

}  // namespace
}  // namespace firn::contract
