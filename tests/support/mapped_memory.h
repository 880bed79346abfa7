// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A small CPU device with an address space, a granule store and a mapping
// table on it, all called through a driver that can be made to fail.

#ifndef FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_
#define FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "firn/vmm/address_space.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/test_device.h"

namespace firn::testing {

inline MappingChange MapTo(uint32_t vg, GranuleId granule) {
  MappingChange change;
  change.vg = VgIndex(vg);
  change.to = granule;
  return change;
}
inline MappingChange Unmap(uint32_t vg) { return MapTo(vg, GranuleId()); }

class MappedMemory {
 public:
  MappedMemory(CpuStorage storage, uint32_t granule_count, uint32_t vg_count)
      : device_(MakeTestDevice(storage, granule_count)),
        counts_(device_.get(), CostModel(CostProfile::kNone),
                kTestGranuleBytes),
        faults_(&counts_) {
    auto reserved =
        AddressSpace::Reserve(&faults_, kTestGranuleBytes, vg_count, vg_count);
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    addresses_ = *std::move(reserved);
    base_ = addresses_->base();
    store_ = std::make_unique<GranuleStore>(&faults_, MovableProp(0),
                                            kTestGranuleBytes, granule_count);
    Acquisition acquisition;
    EXPECT_TRUE(store_->AcquireAtMost(granule_count, &acquisition).ok());
    granules_ = acquisition.granules;
    EXPECT_EQ(granules_.size(), granule_count);
    AccessDesc access;
    access.location.type = LocationType::kDevice;
    access.flags = AccessFlags::kReadWrite;
    table_ =
        std::make_unique<MappingTable>(&faults_, addresses_.get(), store_.get(),
                                       std::vector<AccessDesc>{access});
  }

  CpuDriver* device() { return device_.get(); }
  CountingDriver& counts() { return counts_; }
  FaultingDriver& faults() { return faults_; }
  AddressSpace& addresses() { return *addresses_; }
  GranuleStore& store() { return *store_; }
  MappingTable& table() { return *table_; }
  // The granules of the device, all of which have been taken from the store.
  GranuleId granule(uint32_t index) const { return granules_[index]; }

  DevicePtr AddressOf(uint32_t vg) const {
    return addresses_->AddressOf(VgIndex(vg));
  }
  void Write(uint32_t vg, uint32_t seed) {
    WriteWords(device(), AddressOf(vg), PatternOf(seed, kTestGranuleBytes));
  }
  std::vector<uint32_t> Read(uint32_t vg) {
    return ReadWords(device(), AddressOf(vg), kTestGranuleBytes);
  }

  // Destroys all but the drivers, and tells whether nothing of it is left on
  // the device: neither memory nor the reservation.
  ::testing::AssertionResult CloseLeavesNothing() {
    const uint64_t reserved_bytes = addresses_->vg_count() * kTestGranuleBytes;
    table_.reset();
    store_.reset();
    addresses_.reset();
    const uint64_t missing_bytes =
        granules_.size() * kTestGranuleBytes - FreeBytesOf(device());
    const bool was_reserved = device_->MemAddressFree(base_, reserved_bytes) ==
                              DriverResult::kSuccess;
    if (missing_bytes == 0 && !was_reserved) {
      // A reservation that is still mapped cannot be freed, but holds memory.
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << missing_bytes << " bytes were not released"
           << (was_reserved ? ", the addresses were still reserved" : "");
  }

 private:
  std::unique_ptr<CpuDriver> device_;
  CountingDriver counts_;
  FaultingDriver faults_;
  DevicePtr base_ = 0;
  std::vector<GranuleId> granules_;
  // Destroyed in reverse: mappings before handles before addresses.
  std::unique_ptr<AddressSpace> addresses_;
  std::unique_ptr<GranuleStore> store_;
  std::unique_ptr<MappingTable> table_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_
