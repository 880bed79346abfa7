// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Granules mapped to addresses: an address space, a granule store and a mapping
// table on a device of the test's way, all called through a driver that can be
// made to fail.

#ifndef FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_
#define FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "firn/vmm/address_space.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/capped_driver.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

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
  // kReal: on the devices of the test's way; kGhost, for books and costs alone:
  // on a CPU device that has no contents. Either way there are just
  // `granule_count` granules of device memory, all of which are taken from the
  // store, and as many of host memory, none of which is.
  MappedMemory(CpuStorage storage, uint32_t granule_count, uint32_t vg_count)
      : devices_(storage == CpuStorage::kReal ? TestDevices()
                                              : GhostDevices(granule_count)),
        granule_bytes_(devices_->granule_bytes),
        ledger_(devices_->drivers[0].get()),
        capped_(&ledger_, granule_count),
        counts_(&capped_, CostModel(CostProfile::kNone), granule_bytes_),
        faults_(&counts_) {
    auto reserved =
        AddressSpace::Reserve(&faults_, granule_bytes_, vg_count, vg_count);
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    addresses_ = *std::move(reserved);
    store_ =
        std::make_unique<GranuleStore>(&faults_, StoreOptions(granule_count));
    Acquisition acquisition;
    EXPECT_TRUE(store_->AcquireAtMost(granule_count, &acquisition).ok());
    granules_ = acquisition.granules;
    EXPECT_EQ(granules_.size(), granule_count);
    MappingTableOptions options;
    options.access = {ReadWriteAccess(0)};
    table_ = std::make_unique<MappingTable>(&faults_, addresses_.get(),
                                            store_.get(), std::move(options));
  }
  // Leaves nothing for the next test, whatever became of this one.
  ~MappedMemory() {
    Close();
    (void)ledger_.CleanUp();
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // The device, without counts and failures; what is made on it is to be gone
  // again when this closes.
  Driver* device() { return &ledger_; }
  DeviceSet& devices() { return *devices_; }
  uint64_t granule_bytes() const { return granule_bytes_; }
  CappedDriver& capped() { return capped_; }
  CountingDriver& counts() { return counts_; }
  FaultingDriver& faults() { return faults_; }
  AddressSpace& addresses() { return *addresses_; }
  GranuleStore& store() { return *store_; }
  MappingTable& table() { return *table_; }
  GranuleId granule(uint32_t index) const { return granules_[index]; }

  DevicePtr AddressOf(uint32_t vg) const {
    return addresses_->AddressOf(VgIndex(vg));
  }
  // What a granule holds after Write with this seed.
  std::vector<uint32_t> Pattern(uint32_t seed) const {
    return PatternOf(seed, granule_bytes_);
  }
  void Write(uint32_t vg, uint32_t seed) {
    WriteWords(device(), AddressOf(vg), Pattern(seed));
  }
  std::vector<uint32_t> Read(uint32_t vg) {
    return ReadWords(device(), AddressOf(vg), granule_bytes_);
  }

  // Destroys all but the drivers, and tells whether anything that was made on
  // the device is left: memory, mappings, addresses, streams and so on.
  ::testing::AssertionResult CloseLeavesNothing() {
    Close();
    if (ledger_.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "left: " << ledger_.Describe();
  }

 private:
  static std::unique_ptr<DeviceSet> GhostDevices(uint32_t granule_count) {
    auto devices = std::make_unique<DeviceSet>();
    devices->drivers.push_back(
        MakeTestDevice(CpuStorage::kGhost, granule_count));
    devices->granule_bytes = kTestGranuleBytes;
    return devices;
  }

  GranuleStoreOptions StoreOptions(uint32_t granule_count) const {
    GranuleStoreOptions options;
    options.granule_bytes = granule_bytes_;
    options.budget_granules = granule_count;
    options.host_budget_granules = granule_count;
    options.movable = MovableProp(0);
    options.exportable =
        ExportableProp(0, ShareableHandleType::kPosixFileDescriptor,
                       /*rdma_capable=*/false);
    options.host = HostProp({LocationType::kHost, 0});
    return options;
  }

  void Close() {
    table_.reset();
    store_.reset();
    addresses_.reset();
  }

  const std::unique_ptr<DeviceSet> devices_;
  const uint64_t granule_bytes_;
  LedgerDriver ledger_;
  CappedDriver capped_;
  CountingDriver counts_;
  FaultingDriver faults_;
  std::vector<GranuleId> granules_;
  // Destroyed in reverse: mappings before handles before addresses.
  std::unique_ptr<AddressSpace> addresses_;
  std::unique_ptr<GranuleStore> store_;
  std::unique_ptr<MappingTable> table_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_MAPPED_MEMORY_H_
