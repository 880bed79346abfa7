// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Accesses to what is not accessible, and what becomes of the device.

#include <atomic>

#include "tests/contract/contract_device.h"
#include "tests/contract/gate.h"

namespace firn::contract {
namespace {

constexpr DriverResult kIllegal = DriverResult::kIllegalAddress;

#define FIRN_CRASH                                                         \
  "CUDA programming guide, virtual memory management: accesses without a " \
  "mapping or a right crash; cuda.h, CUDA_ERROR_ILLEGAL_ADDRESS"

// A kernel that says it accesses a range, and accesses nothing.
DriverResult Declare(ContractDevice& device, DevicePtr address, bool writes) {
  const StreamHandle stream = device.NewStream();
  const DriverResult launched = device.LaunchKernel(
      stream, {KernelRange{address, device.granule_bytes(), writes}}, [] {});
  if (launched != DriverResult::kSuccess) return launched;
  return device.StreamSynchronize(stream);
}

// A kernel that accesses what it does not say.
DriverResult Touch(ContractDevice& device, DevicePtr address, bool writes) {
  const StreamHandle stream = device.NewStream();
  const DriverResult launched =
      device.LaunchKernel(stream, {}, [address, writes] {
        auto* const byte = reinterpret_cast<volatile uint8_t*>(address);
        const uint8_t value = *byte;
        if (writes) *byte = value;
      });
  if (launched != DriverResult::kSuccess) return launched;
  return device.StreamSynchronize(stream);
}

FIRN_CONTRACT(fault, kernel_on_unmapped_memory_loses_the_device,
              Documented(FIRN_CRASH), kOwnProcess | kKernels) {
  const DevicePtr address = device.Reserve(1);
  FIRN_GIVES(kIllegal, Declare(device, address, false));
}

FIRN_CONTRACT(fault, kernel_on_memory_without_access_loses_the_device,
              Documented(FIRN_CRASH), kOwnProcess | kKernels) {
  const DevicePtr address = device.Reserve(1);
  FIRN_WORKS(device.Map(address, device.Create()));
  FIRN_GIVES(kIllegal, Declare(device, address, false));
}

FIRN_CONTRACT(fault, kernel_that_writes_read_only_memory_loses_the_device,
              Documented(FIRN_CRASH), kOwnProcess | kKernels) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kRead));
  FIRN_WORKS(Declare(device, address, false));
  FIRN_GIVES(kIllegal, Declare(device, address, true));
}

FIRN_CONTRACT(fault, undeclared_access_to_unmapped_memory_is_found,
              Strict("the memory management unit finds what no range tells"),
              kOwnProcess | kKernels) {
  const DevicePtr address = device.Reserve(1);
  FIRN_GIVES(kIllegal, Touch(device, address, false));
}

FIRN_CONTRACT(fault, undeclared_write_of_read_only_memory_is_found,
              Strict("the memory management unit finds what no range tells"),
              kOwnProcess | kKernels) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.SetAccess(address, 1, AccessFlags::kRead));
  FIRN_WORKS(Touch(device, address, false));
  FIRN_GIVES(kIllegal, Touch(device, address, true));
}

FIRN_CONTRACT(fault, kernel_on_ungranted_peer_memory_loses_its_device,
              Documented(FIRN_CRASH), kOwnProcess | kKernels | kTwoDevices) {
  const DevicePtr address = device.MapRow();
  FIRN_GIVES(kIllegal, Declare(device.other(), address, false));
  FIRN_WORKS(device.FillGranule(address, 1));
}

FIRN_CONTRACT(fault, kernel_on_granted_peer_memory_is_fine,
              Documented("CUDA programming guide, virtual memory management: "
                         "access is per device"),
              kKernels | kTwoDevices) {
  const DevicePtr address = device.MapRow();
  FIRN_WORKS(device.other().SetAccess(address, 1));
  FIRN_WORKS(Declare(device.other(), address, true));
}

FIRN_CONTRACT(fault, kernel_works_on_device_memory,
              Inferred("a kernel accesses what its device may"), kKernels) {
  const DevicePtr address = device.MapRow();
  const StreamHandle stream = device.NewStream();
  FIRN_WORKS(device.FillGranule(address, 3));
  FIRN_WORKS(device.LaunchKernel(
      stream, {KernelRange{address, device.granule_bytes(), true}},
      [address] { *reinterpret_cast<volatile uint8_t*>(address) = 4; }));
  FIRN_WORKS(device.StreamSynchronize(stream));
  FIRN_HOLDS(device.AllBytesAre(address, 4, 1));
  FIRN_HOLDS(device.AllBytesAre(address + 1, 3, 64));
}

FIRN_CONTRACT(fault, every_later_call_says_so,
              Documented("cuda.h, CUDA_ERROR_ILLEGAL_ADDRESS: any further work "
                         "will return the same error"),
              kOwnProcess | kKernels) {
  const DevicePtr address = device.MapRow();
  const DevicePtr bare = device.Reserve(1);
  const StreamHandle stream = device.NewStream();
  const PhysicalHandle handle = device.Create();
  FIRN_GIVES(kIllegal, Declare(device, bare, false));
  for (int again = 0; again < 2; ++again) {
    FIRN_GIVES(kIllegal, device.CtxSynchronize());
    FIRN_GIVES(kIllegal, device.StreamSynchronize(stream));
    FIRN_GIVES(kIllegal, device.MemsetD8Async(address, 1, 64, stream));
    FIRN_GIVES(kIllegal, device.Map(bare, handle));
    FIRN_GIVES(kIllegal, device.Unmap(address));
    FIRN_GIVES(kIllegal, device.StreamQuery(stream));
  }
}

FIRN_CONTRACT(fault, other_devices_live,
              Inferred("cuda.h: errors belong to a context"),
              kOwnProcess | kKernels | kTwoDevices) {
  const DevicePtr address = device.other().MapRow();
  FIRN_GIVES(kIllegal, Declare(device, device.Reserve(1), false));
  FIRN_WORKS(device.other().FillGranule(address, 6));
  FIRN_HOLDS(device.other().GranuleIs(address, 6));
  FIRN_WORKS(device.other().CtxSynchronize());
}

FIRN_CONTRACT(fault, host_functions_are_not_called_any_more,
              Documented("cuda.h, cuLaunchHostFunc: not called in the event of "
                         "an error in the context"),
              kOwnProcess | kKernels) {
  static std::atomic<bool> called;
  called = false;
  const StreamHandle stream = device.NewStream();
  const DevicePtr bare = device.Reserve(1);
  Gate gate(&device);
  FIRN_WORKS(gate.Park(stream));
  FIRN_WORKS(device.LaunchKernel(
      stream, {KernelRange{bare, device.granule_bytes(), false}}, [] {}));
  FIRN_WORKS(device.LaunchHostFunc(
      stream, [](void*) { called = true; }, nullptr));
  gate.Open();
  FIRN_GIVES(kIllegal, device.CtxSynchronize());
  FIRN_HOLDS(!called);
}

FIRN_CONTRACT(fault, refusals_lose_nothing,
              Inferred("cuda.h: only some errors leave the process in an "
                       "inconsistent state")) {
  const DevicePtr address = device.MapRow(2);
  const DevicePtr bare = device.Reserve(1);
  FIRN_REFUSES(device.FillGranule(bare, 1));
  FIRN_REFUSES(device.Unmap(bare));
  FIRN_REFUSES(device.Map(address, device.Create()));
  FIRN_REFUSES(device.SetAccess(bare, 1));
  FIRN_WORKS(device.CtxSynchronize());
  FIRN_WORKS(device.FillGranule(address, 1));
}

FIRN_CONTRACT(fault, report_names_what_was_done,
              Strict("misuse is reported with the call and its arguments")) {
  const DevicePtr bare = device.Reserve(1);
  FIRN_REFUSES(device.Unmap(bare));
  FIRN_HOLDS(device.LastReport().find("cuMemUnmap") != std::string::npos);
}

}  // namespace
}  // namespace firn::contract
