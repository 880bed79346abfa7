// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests of granule stores start from: a store on a device of the test's
// way, whose memory is as large and whose calls fail as the test wants; at the
// end the invariants are checked and the device is expected to be empty.

#ifndef FIRN_TESTS_VMM_GRANULE_STORE_SCENE_H_
#define FIRN_TESTS_VMM_GRANULE_STORE_SCENE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "firn/vmm/allocation_props.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/capped_driver.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"
#include "tests/support/way.h"

namespace firn::testing {

// Of device memory, unless a test sets another figure.
inline constexpr uint32_t kDeviceGranules = 8;

class GranuleStoreScene : public ::testing::Test {
 protected:
  void TearDown() override {
    if (store_.has_value()) {
      FIRN_EXPECT_OK(store_->CheckInvariants());
    }
    store_.reset();
    EXPECT_TRUE(ledger_.empty()) << "left: " << ledger_.Describe();
    (void)ledger_.CleanUp();
  }

  // Of movable and of exportable memory.
  GranuleStoreOptions Options(uint32_t budget_granules) const {
    GranuleStoreOptions options;
    options.granule_bytes = granule_bytes();
    options.budget_granules = budget_granules;
    options.movable = MovableProp(0);
    options.exportable =
        ExportableProp(0, ShareableHandleType::kPosixFileDescriptor,
                       /*rdma_capable=*/false);
    return options;
  }
  GranuleStore& MakeStore(const GranuleStoreOptions& options) {
    return MakeStoreOn(&driver_, options);
  }
  GranuleStore& MakeStore(uint32_t budget_granules) {
    return MakeStore(Options(budget_granules));
  }
  GranuleStore& MakeStoreOn(Driver* driver,
                            const GranuleStoreOptions& options) {
    store_.emplace(driver, options);
    return *store_;
  }

  Acquisition Acquire(uint32_t count,
                      GranuleKind kind = GranuleKind::kMovable) {
    Acquisition acquisition;
    FIRN_EXPECT_OK(store_->AcquireAtMost(count, &acquisition, kind));
    FIRN_EXPECT_OK(store_->CheckInvariants());
    return acquisition;
  }
  // Puts `count` new granules into the cache, and returns them in this order:
  // the last one is the next to be given out.
  std::vector<GranuleId> FillCache(uint32_t count,
                                   GranuleKind kind = GranuleKind::kMovable) {
    const std::vector<GranuleId> granules = Acquire(count, kind).granules;
    EXPECT_EQ(granules.size(), count);
    for (const GranuleId granule : granules) store_->Put(granule);
    return granules;
  }
  // The cached movable granules, the newest first.
  std::vector<GranuleId> CacheContents() {
    Acquisition acquisition;
    FIRN_EXPECT_OK(
        store_->AcquireAtMost(store_->cached_granules(), &acquisition));
    store_->GiveBack(acquisition);
    return acquisition.granules;
  }

  static std::vector<GranuleId> Reversed(std::vector<GranuleId> granules) {
    std::reverse(granules.begin(), granules.end());
    return granules;
  }

  uint64_t granule_bytes() const { return devices_->granule_bytes; }
  uint64_t device_granules_held() const { return capped_.handles(); }

  const std::unique_ptr<DeviceSet> devices_ = TestDevices();
  LedgerDriver ledger_{devices_->drivers[0].get()};
  CappedDriver capped_{&ledger_, kDeviceGranules};
  FaultingDriver driver_{&capped_};
  std::optional<GranuleStore> store_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_GRANULE_STORE_SCENE_H_
