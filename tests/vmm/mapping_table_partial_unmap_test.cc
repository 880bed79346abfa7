// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a mapping table does with a driver that unmaps some of a run, and then
// says that it failed: no driver promises to do all or nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Stops half-way in one unmap, when told to.
class HalfUnmapDriver : public DriverWrapper {
 public:
  HalfUnmapDriver(Driver* base, uint64_t granule_bytes)
      : DriverWrapper(base), granule_bytes_(granule_bytes) {}

  // The next unmap of at least `count` granules unmaps only so many, and fails.
  void StopNextAfter(uint32_t count) { stop_after_ = count; }
  bool stopped() const { return !stop_after_.has_value(); }

  DriverResult MemUnmap(DevicePtr address, size_t bytes) override {
    if (!stop_after_.has_value() || bytes < *stop_after_ * granule_bytes_) {
      return DriverWrapper::MemUnmap(address, bytes);
    }
    const size_t unmapped_bytes = *stop_after_ * granule_bytes_;
    stop_after_.reset();
    if (unmapped_bytes > 0) {
      EXPECT_EQ(DriverWrapper::MemUnmap(address, unmapped_bytes),
                DriverResult::kSuccess);
    }
    return DriverResult::kUnknown;
  }

 private:
  const uint64_t granule_bytes_;
  std::optional<uint32_t> stop_after_;
};

constexpr uint32_t kRun = 6;

// A run of mappings in use, with more on both sides; the run is remapped,
// unmapped, or both, as a whole.
class PartialUnmapTest : public ::testing::Test {
 protected:
  PartialUnmapTest() {
    MappingTableOptions options;
    options.access = {ReadWriteAccess(0)};
    table_.emplace(&driver_, &memory_.addresses(), &memory_.store(), options);
    std::vector<MappingChange> changes;
    for (uint32_t i = 0; i < kRun; ++i)
      changes.push_back(MapTo(1 + i, granule(i)));
    changes.push_back(MapTo(0, granule(kRun)));
    changes.push_back(MapTo(8, granule(kRun + 1)));
    FIRN_EXPECT_OK(table_->Apply(changes));
    for (const MappingChange& change : changes) {
      memory_.Write(change.vg.value(), change.vg.value());
    }
  }
  ~PartialUnmapTest() override {
    table_.reset();
    EXPECT_TRUE(memory_.CloseLeavesNothing());
  }

  GranuleId granule(uint32_t index) const { return memory_.granule(index); }

  // Remaps some of the run and unmaps others, and maps something new.
  std::vector<MappingChange> Change() const {
    return {MapTo(1, granule(3)),
            Unmap(2),
            MapTo(3, granule(8)),
            MapTo(4, granule(0)),
            Unmap(5),
            MapTo(6, granule(9)),
            Unmap(8),
            MapTo(10, granule(5))};
  }
  void ExpectIntact(const std::vector<uint32_t>& vgs) {
    for (const uint32_t vg : vgs) {
      EXPECT_EQ(memory_.Read(vg), memory_.Pattern(vg)) << vg;
      EXPECT_EQ(table_->generation(VgIndex(vg)), 1u);
    }
    EXPECT_EQ(table_->mapped_vgs(), kRun + 2);
    EXPECT_EQ(table_->generation(VgIndex(10)), 0u);
  }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/kRun + 4,
                       /*vg_count=*/12};
  HalfUnmapDriver driver_{&memory_.faults(), memory_.granule_bytes()};
  std::optional<MappingTable> table_;
};

TEST_F(PartialUnmapTest, WhatWasUnmappedIsRestoredHoweverMuchItWas) {
  for (uint32_t count = 0; count <= kRun; ++count) {
    SCOPED_TRACE(count);
    driver_.StopNextAfter(count);
    EXPECT_THAT(table_->Apply(Change()),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("cuMemUnmap: CUDA_ERROR_UNKNOWN")));
    EXPECT_TRUE(driver_.stopped());
    FIRN_EXPECT_OK(table_->lost_status());
    FIRN_EXPECT_OK(table_->CheckInvariants());
    ExpectIntact({0, 1, 2, 3, 4, 5, 6, 8});
  }
  FIRN_EXPECT_OK(table_->Apply(Change()));
  FIRN_EXPECT_OK(table_->CheckInvariants());
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(4));
  EXPECT_EQ(memory_.Read(4), memory_.Pattern(1));
}

TEST_F(PartialUnmapTest, AnUnmapOfOneThatWasDoneIsFoundToo) {
  driver_.StopNextAfter(1);
  EXPECT_FALSE(table_->Apply({MapTo(8, granule(9))}).ok());
  EXPECT_TRUE(driver_.stopped());
  FIRN_EXPECT_OK(table_->CheckInvariants());
  ExpectIntact({8});
}

// Runs that were unmapped before the one that failed come back as well.
TEST_F(PartialUnmapTest, EarlierRunsAreRestoredWithIt) {
  driver_.StopNextAfter(3);
  EXPECT_FALSE(table_
                   ->Apply({Unmap(0), Unmap(2), Unmap(3), Unmap(4), Unmap(5),
                            MapTo(6, granule(9))})
                   .ok());
  EXPECT_TRUE(driver_.stopped());
  FIRN_EXPECT_OK(table_->CheckInvariants());
  ExpectIntact({0, 1, 2, 3, 4, 5, 6, 8});
}

// To be told of each address whether it is mapped costs a reference, which
// must not stay: the store could never give the memory back. (The check that
// nothing is left sees it.)
TEST_F(PartialUnmapTest, QuestionsThatFailAreAskedAgain) {
  for (const DriverCall call :
       {DriverCall::kMemRetainAllocationHandle, DriverCall::kMemRelease,
        DriverCall::kMemMap, DriverCall::kMemSetAccess}) {
    for (uint64_t n = 0; n < 2; ++n) {
      memory_.faults().FailNthOf(call, n, DriverResult::kInvalidValue);
    }
    driver_.StopNextAfter(kRun / 2);
    EXPECT_FALSE(table_->Apply(Change()).ok());
    memory_.faults().Reset();
    FIRN_EXPECT_OK(table_->CheckInvariants());
    ExpectIntact({0, 1, 2, 3, 4, 5, 6, 8});
  }
}

TEST_F(PartialUnmapTest, WhatCannotBeRestoredIsLostAndNothingElse) {
  driver_.StopNextAfter(2);
  for (uint64_t n = 0; n < 20; ++n) {
    memory_.faults().FailNthOf(DriverCall::kMemMap, n,
                               DriverResult::kOutOfMemory);
  }
  const absl::Status status = table_->Apply(Change());
  memory_.faults().Reset();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemUnmap")));
  EXPECT_THAT(table_->lost_vgs(), UnorderedElementsAre(VgIndex(1), VgIndex(2)));
  EXPECT_THAT(table_->lost_status(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr(std::string(status.message()))));
  EXPECT_TRUE(table_->stuck_granules().empty());
  EXPECT_EQ(table_->CheckInvariants(), table_->lost_status());
  ExpectIntact({0, 3, 4, 5, 6, 8});
  EXPECT_THAT(table_->Apply({Unmap(1)}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("lost")));
  FIRN_EXPECT_OK(table_->Apply({MapTo(3, granule(4)), Unmap(8)}));
  EXPECT_EQ(memory_.Read(3), memory_.Pattern(5));
}

}  // namespace
}  // namespace firn::testing
