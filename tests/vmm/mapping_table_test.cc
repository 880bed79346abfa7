// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/mapping_table.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls made since the object was made.
class CallsSince {
 public:
  explicit CallsSince(const CountingDriver& driver)
      : driver_(driver), before_(driver.calls()) {}
  uint64_t map() const { return driver_.calls().map - before_.map; }
  uint64_t unmap() const { return driver_.calls().unmap - before_.unmap; }
  uint64_t set_access() const {
    return driver_.calls().set_access - before_.set_access;
  }

 private:
  const CountingDriver& driver_;
  const DriverCalls before_;
};

class MappingTableTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(memory_.CloseLeavesNothing()); }

  MappingTable& table() { return memory_.table(); }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }
  // Maps `count` virtual granules from `first` on, each to a granule of its
  // own, and fills them.
  void MapAndFill(uint32_t first, uint32_t count) {
    std::vector<MappingChange> changes;
    for (uint32_t i = first; i < first + count; ++i) {
      changes.push_back(MapTo(i, granule(i)));
    }
    FIRN_ASSERT_OK(table().Apply(changes));
    for (uint32_t i = first; i < first + count; ++i) memory_.Write(i, i);
  }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/10,
                       /*vg_count=*/16};
};

TEST_F(MappingTableTest, NothingIsMappedAtFirst) {
  EXPECT_TRUE(table().granule(VgIndex(3)).is_none());
  EXPECT_EQ(table().generation(VgIndex(3)), 0u);
  EXPECT_EQ(table().mapped_vgs(), 0u);
  FIRN_EXPECT_OK(table().lost_status());
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, NoChangesMakeNoCalls) {
  const uint64_t calls = memory_.faults().calls();
  FIRN_EXPECT_OK(table().Apply({}));
  EXPECT_EQ(memory_.faults().calls(), calls);
}

TEST_F(MappingTableTest, MappedMemoryCanBeUsed) {
  MapAndFill(2, 3);
  EXPECT_EQ(table().granule(VgIndex(3)), granule(3));
  EXPECT_TRUE(table().granule(VgIndex(5)).is_none());
  EXPECT_EQ(table().mapped_vgs(), 3u);
  for (uint32_t i = 2; i < 5; ++i) {
    EXPECT_EQ(memory_.Read(i), memory_.Pattern(i));
  }
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, ARunIsGivenAccessAndUnmappedInOneCallEach) {
  const CallsSince map_calls(memory_.counts());
  // In any order.
  FIRN_ASSERT_OK(table().Apply({MapTo(4, granule(0)), MapTo(2, granule(1)),
                                MapTo(3, granule(2)), MapTo(5, granule(3))}));
  EXPECT_EQ(map_calls.map(), 4u);
  EXPECT_EQ(map_calls.set_access(), 1u);
  EXPECT_EQ(map_calls.unmap(), 0u);
  const CallsSince unmap_calls(memory_.counts());
  FIRN_ASSERT_OK(table().Apply({Unmap(5), Unmap(2), Unmap(4), Unmap(3)}));
  EXPECT_EQ(unmap_calls.unmap(), 1u);
  EXPECT_EQ(unmap_calls.set_access(), 0u);
  EXPECT_EQ(table().mapped_vgs(), 0u);
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, ARunOfRemapsTakesOneUnmapAndOneSetAccess) {
  MapAndFill(0, 4);
  const CallsSince calls(memory_.counts());
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(4)), MapTo(1, granule(5)),
                                MapTo(2, granule(6)), MapTo(3, granule(7))}));
  EXPECT_EQ(calls.unmap(), 1u);
  EXPECT_EQ(calls.map(), 4u);
  EXPECT_EQ(calls.set_access(), 1u);
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, RunsApartTakeACallEach) {
  const CallsSince calls(memory_.counts());
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(0)), MapTo(1, granule(1)),
                                MapTo(3, granule(2)), MapTo(4, granule(3))}));
  EXPECT_EQ(calls.set_access(), 2u);
  FIRN_ASSERT_OK(table().Apply({Unmap(0), Unmap(1), Unmap(3), Unmap(4)}));
  EXPECT_EQ(calls.unmap(), 2u);
}

// Unmapped neighbours are not part of a call: the driver would refuse it.
TEST_F(MappingTableTest, RunsEndWhereNothingWasOrWillBeMapped) {
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(0)), MapTo(2, granule(2))}));
  const CallsSince calls(memory_.counts());
  FIRN_ASSERT_OK(table().Apply({Unmap(0), MapTo(1, granule(1)), Unmap(2)}));
  EXPECT_EQ(calls.unmap(), 2u);
  EXPECT_EQ(calls.set_access(), 1u);
  EXPECT_EQ(table().mapped_vgs(), 1u);
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, GranulesMayHaveSeveralAddresses) {
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(0)), MapTo(1, granule(0))}));
  FIRN_ASSERT_OK(table().Apply({MapTo(7, granule(0))}));
  memory_.Write(0, 5);
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(5));
  EXPECT_EQ(memory_.Read(7), memory_.Pattern(5));
  FIRN_EXPECT_OK(table().CheckInvariants());
  FIRN_ASSERT_OK(table().Apply({Unmap(1)}));
  EXPECT_EQ(memory_.Read(7), memory_.Pattern(5));
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, ARemapChangesTheGranuleAndNoContents) {
  MapAndFill(0, 3);
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(1)), MapTo(1, granule(0))}));
  EXPECT_EQ(memory_.Read(0), memory_.Pattern(1));
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(0));
  EXPECT_EQ(memory_.Read(2), memory_.Pattern(2));
  EXPECT_EQ(table().mapped_vgs(), 3u);
  FIRN_EXPECT_OK(table().CheckInvariants());
}

TEST_F(MappingTableTest, EachChangeOfAVirtualGranuleRaisesItsGeneration) {
  MapAndFill(0, 2);
  const uint64_t mapped = table().generation(VgIndex(0));
  EXPECT_GT(mapped, 0u);
  FIRN_ASSERT_OK(table().Apply({MapTo(0, granule(5))}));
  const uint64_t remapped = table().generation(VgIndex(0));
  EXPECT_GT(remapped, mapped);
  FIRN_ASSERT_OK(table().Apply({Unmap(0)}));
  EXPECT_GT(table().generation(VgIndex(0)), remapped);
  EXPECT_EQ(table().generation(VgIndex(1)), mapped);
}

TEST_F(MappingTableTest, TwoChangesOfOneVirtualGranuleAreRefused) {
  MapAndFill(0, 2);
  EXPECT_THAT(
      table().Apply({MapTo(0, granule(5)), Unmap(1), MapTo(0, granule(6))}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("twice")));
  EXPECT_EQ(table().granule(VgIndex(0)), granule(0));
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(1));
  FIRN_EXPECT_OK(table().CheckInvariants());
}

// A driver that is not ready yet is the driver's own business.
TEST_F(MappingTableTest, SetAccessThatIsNotReadyFailsTheWhole) {
  MapAndFill(0, 1);
  memory_.faults().FailNthOf(DriverCall::kMemSetAccess, 0,
                             DriverResult::kNotReady);
  EXPECT_THAT(
      table().Apply({MapTo(0, granule(1)), MapTo(1, granule(2))}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cuMemSetAccess")));
  FIRN_EXPECT_OK(table().lost_status());
  FIRN_EXPECT_OK(table().CheckInvariants());
  EXPECT_EQ(memory_.Read(0), memory_.Pattern(0));
  FIRN_EXPECT_OK(table().Apply({MapTo(0, granule(1)), MapTo(1, granule(2))}));
}

TEST_F(MappingTableTest, NoMoreIsMappedThanTheBudgetAllows) {
  MappingTableOptions options;
  options.access = {ReadWriteAccess(0)};
  options.max_mapped_vgs = 3;
  MappingTable table(&memory_.faults(), &memory_.addresses(), &memory_.store(),
                     options);
  FIRN_ASSERT_OK(table.Apply({MapTo(0, granule(0)), MapTo(1, granule(1))}));
  const uint64_t calls = memory_.faults().calls();
  EXPECT_THAT(table.Apply({MapTo(2, granule(2)), MapTo(5, granule(3)),
                           MapTo(6, granule(4)), Unmap(0)}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("4 virtual granules"),
                             HasSubstr("at most 3"), HasSubstr("2 are now"))));
  EXPECT_EQ(memory_.faults().calls(), calls) << "a part was tried";
  EXPECT_EQ(table.mapped_vgs(), 2u);
  FIRN_EXPECT_OK(table.CheckInvariants());
  // Up to the last one; what goes makes room for what comes, and remapping
  // takes none.
  FIRN_EXPECT_OK(table.Apply({MapTo(2, granule(2))}));
  FIRN_EXPECT_OK(
      table.Apply({MapTo(5, granule(3)), Unmap(0), MapTo(1, granule(4))}));
  EXPECT_EQ(table.mapped_vgs(), 3u);
  FIRN_EXPECT_OK(table.CheckInvariants());
  EXPECT_THAT(table.Apply({MapTo(0, granule(0))}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

// Whether it is of the device or of the host, a granule is a granule.
TEST_F(MappingTableTest, HostMemoryIsMappedLikeAnyOther) {
  MapAndFill(0, 3);
  Acquisition host;
  FIRN_ASSERT_OK(memory_.store().AcquireAtMost(1, &host, GranuleKind::kHost));
  ASSERT_EQ(host.granules.size(), 1u);
  const CallsSince calls(memory_.counts());
  FIRN_ASSERT_OK(
      table().Apply({MapTo(1, host.granules[0]), MapTo(0, granule(5))}));
  EXPECT_EQ(calls.unmap(), 1u);
  EXPECT_EQ(calls.set_access(), 1u);
  FIRN_EXPECT_OK(table().CheckInvariants());
  memory_.Write(1, 30);
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(30));
  EXPECT_EQ(memory_.Read(2), memory_.Pattern(2));
  FIRN_ASSERT_OK(table().Apply({MapTo(1, granule(1))}));
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(1));
}

TEST_F(MappingTableTest, WhatIsAbandonedIsKeptFromEverybody) {
  MapAndFill(0, 3);
  table().Abandon(VgIndex(1), absl::InternalError("for a test"));
  EXPECT_THAT(table().lost_vgs(), ElementsAre(VgIndex(1)));
  EXPECT_THAT(table().stuck_granules(), ElementsAre(granule(1)));
  EXPECT_TRUE(memory_.store().is_quarantined(granule(1)));
  EXPECT_THAT(table().Apply({Unmap(1)}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("for a test")));
  // Once, and only what is mapped.
  table().Abandon(VgIndex(1), absl::InternalError("again"));
  table().Abandon(VgIndex(7), absl::InternalError("nothing there"));
  EXPECT_EQ(table().lost_vgs().size(), 1u);
  EXPECT_EQ(table().CheckInvariants(), table().lost_status());
  FIRN_EXPECT_OK(table().Apply({MapTo(0, granule(3)), Unmap(2)}));
}

TEST_F(MappingTableTest, InvariantsFailWhenTheDriverDisagrees) {
  MapAndFill(0, 2);
  // Behind the table's back.
  ASSERT_EQ(
      memory_.device()->MemUnmap(memory_.AddressOf(1), memory_.granule_bytes()),
      DriverResult::kSuccess);
  EXPECT_THAT(table().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("I3")));
  ASSERT_EQ(
      memory_.device()->MemMap(memory_.AddressOf(1), memory_.granule_bytes(), 0,
                               memory_.store().handle(granule(1)), 0),
      DriverResult::kSuccess);
  // Mapped again, but without access.
  EXPECT_THAT(table().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("access")));
  ASSERT_EQ(
      memory_.device()->MemUnmap(memory_.AddressOf(1), memory_.granule_bytes()),
      DriverResult::kSuccess);
  ASSERT_EQ(
      memory_.device()->MemMap(memory_.AddressOf(1), memory_.granule_bytes(), 0,
                               memory_.store().handle(granule(0)), 0),
      DriverResult::kSuccess);
  EXPECT_THAT(table().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("I3")));
}

// What TearDown checks after every test.
TEST_F(MappingTableTest, DestructionUnmapsEverything) {
  MapAndFill(0, 3);
  FIRN_ASSERT_OK(table().Apply({MapTo(9, granule(0)), Unmap(1)}));
}

}  // namespace
}  // namespace firn::testing
