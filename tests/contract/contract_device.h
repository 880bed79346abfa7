// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a check works on: a device of the driver under test, with short names
// for what checks set up over and over. What is set up needs no clean-up.

#ifndef FIRN_TESTS_CONTRACT_CONTRACT_DEVICE_H_
#define FIRN_TESTS_CONTRACT_CONTRACT_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "tests/contract/check.h"
#include "tests/contract/suite_devices.h"
#include "tests/support/ledger_driver.h"

namespace firn::contract {

// Methods that return what they set up note a failure of the check when they
// cannot, and return 0.
class ContractDevice : public testing::LedgerDriver {
 public:
  // None is owned; all must outlive this object.
  ContractDevice(Way way, DeviceSet* devices, size_t ordinal,
                 CheckResult* result);

  // --- What it is ---
  Way way() const { return way_; }
  int32_t ordinal() const { return static_cast<int32_t>(ordinal_); }
  uint64_t granule_bytes() const { return granule_bytes_; }
  bool Has(DeviceAttribute attribute);
  // The second device, for checks that ask for kTwoDevices.
  ContractDevice& other() { return *other_; }
  void set_other(ContractDevice* other) { other_ = other; }

  // --- Memory ---
  AllocationProp Prop() const;
  MemLocation Location() const { return {LocationType::kDevice, ordinal()}; }
  AccessDesc Desc(AccessFlags flags = AccessFlags::kReadWrite) const {
    return {Location(), flags};
  }
  DevicePtr Reserve(uint64_t granules);
  // One handle.
  PhysicalHandle Create(uint64_t granules = 1);
  DriverResult Map(DevicePtr address, PhysicalHandle handle,
                   uint64_t granules = 1) {
    return MemMap(address, granules * granule_bytes_, 0, handle, 0);
  }
  // What this device may do there.
  DriverResult SetAccess(DevicePtr address, uint64_t granules,
                         AccessFlags flags = AccessFlags::kReadWrite);
  // A reservation with `handle`, or with one new handle a granule, in it.
  DevicePtr MapAnywhere(PhysicalHandle handle, uint64_t granules = 1);
  DevicePtr MapRow(uint64_t granules = 1);
  DriverResult Unmap(DevicePtr address, uint64_t granules = 1) {
    return MemUnmap(address, granules * granule_bytes_);
  }
  DevicePtr At(DevicePtr base, uint64_t granule) const {
    return base + granule * granule_bytes_;
  }
  uint64_t FreeBytes();

  // --- Contents: these wait for what they do ---
  DriverResult Fill(DevicePtr address, uint8_t value, uint64_t bytes);
  DriverResult FillGranule(DevicePtr address, uint8_t value) {
    return Fill(address, value, granule_bytes_);
  }
  std::vector<uint8_t> Read(DevicePtr address, uint64_t bytes);
  bool AllBytesAre(DevicePtr address, uint8_t value, uint64_t bytes);
  bool GranuleIs(DevicePtr address, uint8_t value) {
    return AllBytesAre(address, value, granule_bytes_);
  }
  uint32_t Word(DevicePtr address);

  // --- Work ---
  StreamHandle NewStream(uint32_t flags = kStreamNonBlocking);
  EventHandle NewEvent();
  // A host function as a kernel: see CpuDriver::LaunchKernel. For checks that
  // ask for kKernels; not on the legacy stream.
  DriverResult LaunchKernel(StreamHandle stream,
                            const std::vector<KernelRange>& ranges,
                            std::function<void()> body);
  // Where the driver says nothing, empty.
  std::string LastReport() const;

 private:
  StreamHandle WorkStream();

  const Way way_;
  DeviceSet* const devices_;
  const size_t ordinal_;
  CheckResult* const result_;
  uint64_t granule_bytes_ = 0;
  ContractDevice* other_ = nullptr;
  StreamHandle work_stream_ = nullptr;
  // A deque: work holds on to the elements.
  std::deque<std::function<void()>> bodies_;
};

}  // namespace firn::contract

#endif  // FIRN_TESTS_CONTRACT_CONTRACT_DEVICE_H_
