// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One allocation at several addresses.

#include <atomic>

#include "absl/time/clock.h"
#include "tests/contract/contract_device.h"

namespace firn::contract {
namespace {

#define FIRN_PROXIES \
  "CUDA programming guide, virtual memory management: proxies of memory"

struct Aliases {
  DevicePtr a = 0;
  DevicePtr b = 0;
};

Aliases MakeAliases(ContractDevice& device) {
  const PhysicalHandle handle = device.Create();
  Aliases aliases;
  aliases.a = device.MapAnywhere(handle);
  aliases.b = device.MapAnywhere(handle);
  (void)device.FillGranule(aliases.a, 0);
  return aliases;
}

FIRN_CONTRACT(alias, shows_the_same_bytes, Documented(FIRN_PROXIES)) {
  const Aliases at = MakeAliases(device);
  FIRN_WORKS(device.FillGranule(at.a, 0x81));
  FIRN_HOLDS(device.GranuleIs(at.b, 0x81));
  FIRN_WORKS(device.FillGranule(at.b, 0x82));
  FIRN_HOLDS(device.GranuleIs(at.a, 0x82));
}

FIRN_CONTRACT(alias, order_of_a_stream_is_enough, Documented(FIRN_PROXIES)) {
  const Aliases at = MakeAliases(device);
  const DevicePtr target = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.MemsetD8Async(at.a, 0x83, device.granule_bytes(), stream));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(target, at.b, device.granule_bytes(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.GranuleIs(target, 0x83));
}

FIRN_CONTRACT(alias, order_by_an_event_is_enough, Documented(FIRN_PROXIES)) {
  const Aliases at = MakeAliases(device);
  const DevicePtr target = device.MapRow();
  const StreamHandle writer = device.NewStream();
  const StreamHandle reader = device.NewStream();
  const EventHandle event = device.NewEvent();
  FIRN_WORKS(device.MemsetD8Async(at.a, 0x84, device.granule_bytes(), writer));
  FIRN_WORKS(device.EventRecord(event, writer));
  FIRN_WORKS(device.StreamWaitEvent(reader, event, 0));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(target, at.b, device.granule_bytes(), reader));
  FIRN_WORKS(device.StreamSynchronize(reader));
  FIRN_HOLDS(device.GranuleIs(target, 0x84));
}

FIRN_CONTRACT(alias, order_by_the_legacy_stream_is_enough,
              Documented(FIRN_PROXIES)) {
  const Aliases at = MakeAliases(device);
  const DevicePtr target = device.MapRow();
  const StreamHandle reader = device.NewStream(kStreamDefault);
  FIRN_WORKS(device.MemsetD8Async(at.a, 0x85, device.granule_bytes(), nullptr));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(target, at.b, device.granule_bytes(), reader));
  FIRN_WORKS(device.StreamSynchronize(reader));
  FIRN_HOLDS(device.GranuleIs(target, 0x85));
}

FIRN_CONTRACT(alias, rights_belong_to_the_address,
              Documented("cuda.h, cuMemSetAccess: of an address range")) {
  const Aliases at = MakeAliases(device);
  FIRN_WORKS(device.SetAccess(at.b, 1, AccessFlags::kRead));
  FIRN_WORKS(device.FillGranule(at.a, 0x86));
  FIRN_REFUSES(device.FillGranule(at.b, 0x87));
  FIRN_HOLDS(device.GranuleIs(at.b, 0x86));
}

FIRN_CONTRACT(alias, outlives_the_other_address,
              Documented("cuda.h, cuMemUnmap: of the given range")) {
  const Aliases at = MakeAliases(device);
  FIRN_WORKS(device.FillGranule(at.a, 0x88));
  FIRN_WORKS(device.Unmap(at.a));
  FIRN_HOLDS(device.GranuleIs(at.b, 0x88));
}

FIRN_CONTRACT(alias, serves_as_a_staging_address_of_a_move,
              Inferred(FIRN_PROXIES)) {
  // New memory is filled through one address and read through another.
  const DevicePtr user = device.MapRow();
  const PhysicalHandle fresh = device.Create();
  const DevicePtr staging = device.MapAnywhere(fresh);
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(user, 0x89));
  FIRN_WORKS(
      device.MemcpyDtoDAsync(staging, user, device.granule_bytes(), stream));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_WORKS(device.Unmap(user));
  FIRN_WORKS(device.Map(user, fresh));
  FIRN_WORKS(device.SetAccess(user, 1));
  FIRN_WORKS(device.Unmap(staging));
  FIRN_HOLDS(device.GranuleIs(user, 0x89));
}

// --- what the CPU driver reports ---

FIRN_CONTRACT(alias, unordered_read_through_another_address_is_an_error,
              Strict("inconsistent and incoherent until the write completes, "
                     "says the CUDA programming guide"),
              kOwnProcess) {
  const Aliases at = MakeAliases(device);
  const DevicePtr target = device.MapRow();
  const StreamHandle writer = device.NewStream();
  const StreamHandle reader = device.NewStream();
  FIRN_WORKS(device.MemsetD8Async(at.a, 1, device.granule_bytes(), writer));
  (void)device.MemcpyDtoDAsync(target, at.b, device.granule_bytes(), reader);
  FIRN_GIVES(DriverResult::kLaunchFailed, device.CtxSynchronize());
}

FIRN_CONTRACT(alias, kernel_resident_during_a_write_is_an_error,
              Strict("grids present before a writing operation are incoherent "
                     "with it, says the CUDA programming guide"),
              kOwnProcess | kKernels) {
  const Aliases at = MakeAliases(device);
  const StreamHandle writer = device.NewStream();
  const StreamHandle reader = device.NewStream();
  std::atomic<bool> resident{false};
  std::atomic<bool> go_on{false};
  FIRN_WORKS(device.LaunchKernel(
      reader, {KernelRange{at.b, device.granule_bytes(), false}},
      [&resident, &go_on] {
        resident = true;
        while (!go_on) absl::SleepFor(absl::Milliseconds(1));
      }));
  while (!resident) absl::SleepFor(absl::Milliseconds(1));
  FIRN_WORKS(device.MemsetD8Async(at.a, 1, device.granule_bytes(), writer));
  // It may be found when the write begins, or when the kernel ends.
  (void)device.StreamSynchronize(writer);
  go_on = true;
  FIRN_GIVES(DriverResult::kLaunchFailed, device.CtxSynchronize());
}

FIRN_CONTRACT(alias, unordered_accesses_of_other_bytes_are_fine,
              Inferred("CUDA programming guide, virtual memory management: "
                       "proxies of the same memory")) {
  const Aliases at = MakeAliases(device);
  const DevicePtr target = device.MapRow();
  const StreamHandle writer = device.NewStream();
  const StreamHandle reader = device.NewStream();
  const uint64_t half = device.granule_bytes() / 2;
  FIRN_WORKS(device.MemsetD8Async(at.a, 1, half, writer));
  FIRN_WORKS(device.MemcpyDtoDAsync(target, at.b + half, half, reader));
  FIRN_WORKS(device.CtxSynchronize());
}

FIRN_CONTRACT(alias, unordered_reads_are_fine,
              Inferred("CUDA programming guide, virtual memory management: "
                       "only writes make proxies incoherent")) {
  const Aliases at = MakeAliases(device);
  const DevicePtr c = device.MapRow();
  const DevicePtr d = device.MapRow();
  const StreamHandle one = device.NewStream();
  const StreamHandle two = device.NewStream();
  const uint64_t bytes = device.granule_bytes();
  FIRN_WORKS(device.MemcpyDtoDAsync(c, at.a, bytes, one));
  FIRN_WORKS(device.MemcpyDtoDAsync(d, at.b, bytes, two));
  FIRN_WORKS(device.CtxSynchronize());
}

// The kernels only say what they access: a real race would be one for tools
// that watch memory, too.
FIRN_CONTRACT(alias, unordered_work_through_one_address_is_no_alias,
              Strict("a race through one address is not what is reported"),
              kKernels) {
  const DevicePtr address = device.MapRow();
  const uint64_t bytes = device.granule_bytes();
  for (const bool writes : {true, false}) {
    FIRN_WORKS(device.LaunchKernel(
        device.NewStream(), {KernelRange{address, bytes, writes}}, [] {}));
  }
  FIRN_WORKS(device.CtxSynchronize());
}

}  // namespace
}  // namespace firn::contract
