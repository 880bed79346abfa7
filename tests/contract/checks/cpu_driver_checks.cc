// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the CPU driver promises: poison, limits, and how processes end.

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_status.h"
#include "tests/contract/child_process.h"
#include "tests/contract/contract_device.h"
#include "tests/contract/exit_probe.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {
namespace {

constexpr DriverResult kGone = DriverResult::kDeinitialized;

bool HoldsPoison(ContractDevice& device, DevicePtr address) {
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{4}, device.granule_bytes() / 2,
        device.granule_bytes() - 4}) {
    if (device.Word(address + offset) != kCpuPoisonWord) return false;
  }
  return true;
}

// --- poison ---

FIRN_CONTRACT(poison, fresh_memory_holds_it,
              Strict("CUDA leaves new memory undefined")) {
  FIRN_HOLDS(HoldsPoison(device, device.MapRow()));
}

FIRN_CONTRACT(poison, memory_used_before_holds_it_again,
              Strict("CUDA leaves new memory undefined"), kOwnMemoryInfo) {
  // All of the memory, so that it is the same one.
  const uint64_t granules = device.FreeBytes() / device.granule_bytes();
  const PhysicalHandle first = device.Create(granules);
  const DevicePtr address = device.MapAnywhere(first, granules);
  FIRN_WORKS(device.Fill(address, 0x5a, granules * device.granule_bytes()));
  FIRN_WORKS(device.Unmap(address, granules));
  FIRN_WORKS(device.MemRelease(first));
  const DevicePtr again = device.MapAnywhere(device.Create(granules), granules);
  FIRN_HOLDS(HoldsPoison(device, again));
  FIRN_HOLDS(HoldsPoison(device, device.At(again, granules - 1)));
}

// --- limits ---

FIRN_CONTRACT(limits, one_handle_too_many_is_out_of_memory,
              Strict("handles are limited")) {
  const AllocationProp prop = device.Prop();
  PhysicalHandle handle = 0;
  for (uint64_t i = 0; i < kMaxHandles; ++i) {
    FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
  }
  const uint64_t free_bytes = device.FreeBytes();
  PhysicalHandle none = 0;
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.MemCreate(&none, device.granule_bytes(), &prop, 0));
  FIRN_EQUALS(free_bytes, device.FreeBytes());
  FIRN_WORKS(device.MemRelease(handle));
  FIRN_WORKS(device.MemCreate(&handle, device.granule_bytes(), &prop, 0));
}

FIRN_CONTRACT(limits, one_mapping_too_many_is_out_of_memory,
              Strict("forkedkv saw OUT_OF_MEMORY from cuMemSetAccess at half a "
                     "million mappings")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.Reserve(kMaxMappings + 1);
  for (uint64_t i = 0; i <= kMaxMappings; ++i) {
    FIRN_WORKS(device.Map(device.At(address, i), handle));
  }
  for (uint64_t i = 0; i < kMaxMappings; ++i) {
    FIRN_WORKS(device.SetAccess(device.At(address, i), 1));
  }
  const DevicePtr last = device.At(address, kMaxMappings);
  FIRN_GIVES(DriverResult::kOutOfMemory, device.SetAccess(last, 1));
  // Nothing was changed.
  FIRN_REFUSES(device.FillGranule(last, 1));
  FIRN_WORKS(device.FillGranule(address, 1));
  // One fewer makes room.
  FIRN_WORKS(device.Unmap(address));
  FIRN_WORKS(device.SetAccess(last, 1));
  FIRN_HOLDS(device.GranuleIs(last, 1));
}

FIRN_CONTRACT(limits, access_over_many_mappings_is_all_or_nothing,
              Strict("a call does all or nothing")) {
  const PhysicalHandle handle = device.Create();
  const DevicePtr address = device.Reserve(kMaxMappings + 1);
  for (uint64_t i = 0; i <= kMaxMappings; ++i) {
    FIRN_WORKS(device.Map(device.At(address, i), handle));
  }
  FIRN_GIVES(DriverResult::kOutOfMemory,
             device.SetAccess(address, kMaxMappings + 1));
  FIRN_REFUSES(device.FillGranule(address, 1));
  FIRN_WORKS(device.SetAccess(address, kMaxMappings));
  FIRN_WORKS(device.FillGranule(address, 1));
}

// --- process ---

FIRN_CONTRACT(process, forked_child_has_no_driver,
              Strict("cuda.h, CUDA_ERROR_DEINITIALIZED; CUDA does not support "
                     "use after a fork"),
              kOwnProcess) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 0x61));
  const StreamHandle stream = device.NewStream();
  const pid_t child = fork();
  if (child == 0) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const bool gone = device.MemGetInfo(&free_bytes, &total_bytes) == kGone &&
                      device.MemsetD8Async(address, 1, 64, stream) == kGone &&
                      device.StreamSynchronize(stream) == kGone &&
                      device.Unmap(address) == kGone;
    _exit(gone ? 0 : 1);
  }
  FIRN_HOLDS(child > 0);
  FIRN_EQUALS(0, WaitForChild(child));
  // It changed nothing here.
  FIRN_HOLDS(device.GranuleIs(address, 0x61));
  FIRN_WORKS(device.FillGranule(address, 0x62));
}

FIRN_CONTRACT(process, forked_child_has_no_device_memory,
              Strict("a child must not share device memory by accident"),
              kOwnProcess) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 0x63));
  const pid_t child = fork();
  if (child == 0) {
    // Ends the child, without words from whoever handles such faults.
    signal(SIGSEGV, SIG_DFL);
    *reinterpret_cast<volatile uint8_t*>(address) = 1;
    _exit(0);
  }
  FIRN_HOLDS(child > 0);
  FIRN_EQUALS(-SIGSEGV, WaitForChild(child));
  FIRN_HOLDS(device.GranuleIs(address, 0x63));
}

FIRN_CONTRACT(process, exit_handlers_are_answered,
              Strict("cuda.h, CUDA_ERROR_DEINITIALIZED: while shutting down; "
                     "a driver that is an object lives as long as that"),
              kOwnProcess) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.FillGranule(address, 1));
  const DriverResult expected =
      device.way() == Way::kLibcuda ? kGone : DriverResult::kSuccess;
  SetExitProbe([&device, address, expected]() -> std::string {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const DriverResult results[] = {
        device.MemGetInfo(&free_bytes, &total_bytes), device.CtxSynchronize(),
        device.Unmap(address)};
    for (const DriverResult result : results) {
      if (result != expected) {
        return absl::StrCat("expected calls to give ",
                            DriverResultName(expected), ", came ",
                            DriverResultName(result));
      }
    }
    return "";
  });
}

FIRN_CONTRACT(process, ends_while_work_is_queued,
              Strict("exit must not hang or crash"), kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(device.StreamWaitValue32(stream, address, 1, kWaitValueEq));
  FIRN_WORKS(device.MemsetD8Async(address + 64, 1, 64, stream));
}

FIRN_CONTRACT(process, ends_while_work_is_queued_on_devices_that_stay,
              Strict("exit must not hang or crash"), kOwnProcess) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 0));
  FIRN_WORKS(device.StreamWaitValue32(stream, address, 1, kWaitValueEq));
  FIRN_WORKS(device.MemsetD8Async(address + 64, 1, 64, stream));
  // The devices are never closed.
  SetExitProbe([] { return std::string(); });
}

}  // namespace
}  // namespace firn::contract
