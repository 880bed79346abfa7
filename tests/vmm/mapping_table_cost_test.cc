// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a remap costs by the cost model of an A100, beside the least that any
// sequence of calls could cost for it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "firn/vmm/cost_model.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

constexpr uint32_t kRemapped = 256;
// Of one remap after the other. The model makes a few calls slow, by draws of
// its own: both sides start with the same draws, and what is compared is the
// sum over many remaps, so that calls too many show, and one slow call too many
// does not.
constexpr int kRemaps = 20;

// The virtual granules of the test: `stride` 1 makes them one run, 2 puts a
// hole behind each.
class RemapCostTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t stride() const { return GetParam(); }
  // Between two granules, so that every one is remapped every time.
  GranuleId granule(uint32_t i, int round) const {
    return memory_.granule(i + (round % 2 == 0 ? 0 : kRemapped));
  }

  // What the mapping table's calls cost.
  double TableUs() {
    CountingDriver costs(memory_.device(), CostModel(CostProfile::kA100),
                         memory_.granule_bytes());
    MappingTableOptions options;
    options.access = {ReadWriteAccess(0)};
    options.verify_access = false;  // as released
    MappingTable table(&costs, &memory_.addresses(), &memory_.store(), options);
    double mapped_us = 0;
    SmallRandom random(7);
    for (int round = 0; round <= kRemaps; ++round) {
      std::vector<MappingChange> changes;
      for (uint32_t i = 0; i < kRemapped; ++i) {
        changes.push_back(MapTo(i * stride(), granule(i, round)));
      }
      // The order of the changes is to make no difference.
      for (uint32_t i = kRemapped - 1; i > 0; --i) {
        std::swap(changes[i], changes[random.Below(i + 1)]);
      }
      FIRN_EXPECT_OK(table.Apply(changes));
      if (round == 0) mapped_us = costs.driver_us();
    }
    return costs.driver_us() - mapped_us;
  }

  // What the least sequence costs: an unmap and a set-access for each run, a
  // map for each granule.
  double LeastUs() {
    CountingDriver costs(memory_.device(), CostModel(CostProfile::kA100),
                         memory_.granule_bytes());
    MapAll(&costs, 0);
    const double mapped_us = costs.driver_us();
    for (int round = 1; round <= kRemaps; ++round) {
      UnmapAll(&costs);
      MapAll(&costs, round);
    }
    const double remapped_us = costs.driver_us() - mapped_us;
    UnmapAll(&costs);
    return remapped_us;
  }

 private:
  uint32_t run() const { return stride() == 1 ? kRemapped : 1; }
  uint64_t run_bytes() const { return run() * memory_.granule_bytes(); }

  void UnmapAll(Driver* driver) {
    for (uint32_t i = 0; i < kRemapped; i += run()) {
      EXPECT_EQ(driver->MemUnmap(memory_.AddressOf(i * stride()), run_bytes()),
                DriverResult::kSuccess);
    }
  }
  void MapAll(Driver* driver, int round) {
    for (uint32_t i = 0; i < kRemapped; ++i) {
      EXPECT_EQ(driver->MemMap(memory_.AddressOf(i * stride()),
                               memory_.granule_bytes(), 0,
                               memory_.store().handle(granule(i, round)), 0),
                DriverResult::kSuccess);
    }
    const AccessDesc access = ReadWriteAccess(0);
    for (uint32_t i = 0; i < kRemapped; i += run()) {
      EXPECT_EQ(driver->MemSetAccess(memory_.AddressOf(i * stride()),
                                     run_bytes(), &access, 1),
                DriverResult::kSuccess);
    }
  }

  MappedMemory memory_{CpuStorage::kGhost, /*granule_count=*/2 * kRemapped,
                       /*vg_count=*/2 * kRemapped};
};

TEST_P(RemapCostTest, IsTheLeastForIt) {
  const double table_us = TableUs() / kRemaps;
  const double least_us = LeastUs() / kRemaps;
  RecordProperty("remap_us", std::to_string(table_us));
  RecordProperty("least_us", std::to_string(least_us));
  EXPECT_GT(least_us, 0.0);
  EXPECT_LE(table_us, 1.1 * least_us);
  // Nor less: then something was not done, or not charged.
  EXPECT_GE(table_us, least_us / 1.1);
}

INSTANTIATE_TEST_SUITE_P(ARunAndScattered, RemapCostTest,
                         ::testing::Values(1u, 2u),
                         [](const ::testing::TestParamInfo<uint32_t>& info) {
                           return std::string(info.param == 1 ? "Contiguous"
                                                              : "Scattered");
                         });

}  // namespace
}  // namespace firn::testing
