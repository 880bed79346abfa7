// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a mapping table does when driver calls fail, one by one, two at a time
// and for good.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Contains(const std::vector<GranuleId>& granules, GranuleId wanted) {
  return std::find(granules.begin(), granules.end(), wanted) != granules.end();
}

constexpr uint32_t kGranules = 12;
constexpr uint32_t kVgs = 16;

// Memory in use: a run of four, an alias of one of them, a run of two; and a
// change of many parts that unmaps, maps and remaps.
class Scene {
 public:
  explicit Scene(CpuStorage storage)
      : real_(storage == CpuStorage::kReal), memory_(storage, kGranules, kVgs) {
    FIRN_EXPECT_OK(memory_.table().Apply(
        {MapTo(0, granule(0)), MapTo(1, granule(1)), MapTo(2, granule(2)),
         MapTo(3, granule(3)), MapTo(5, granule(3)), MapTo(8, granule(4)),
         MapTo(9, granule(5))}));
    if (real_) {
      for (const uint32_t vg : {0u, 1u, 2u, 3u, 8u, 9u}) memory_.Write(vg, vg);
    }
    change_ = {
        MapTo(9, granule(8)),
        MapTo(0, granule(3)),
        Unmap(1),
        MapTo(2, granule(9)),
        MapTo(4, granule(6)),
        Unmap(5),
        MapTo(11, granule(1)),
        Unmap(8),
        MapTo(12, granule(2)),
    };
    memory_.faults().Reset();
  }

  MappedMemory& memory() { return memory_; }
  MappingTable& table() { return memory_.table(); }
  FaultingDriver& faults() { return memory_.faults(); }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }

  absl::Status MakeChange() { return table().Apply(change_); }
  bool Changes(uint32_t vg) const {
    for (const MappingChange& change : change_) {
      if (change.vg == VgIndex(vg)) return true;
    }
    return false;
  }

  Contents contents() const {
    return real_ ? Contents::kRead : Contents::kIgnore;
  }
  MemoryView Look() { return ViewOf(memory_, contents()); }

  void ExpectChangeWasMade() {
    FIRN_EXPECT_OK(table().lost_status());
    FIRN_EXPECT_OK(table().CheckInvariants());
    for (const MappingChange& change : change_) {
      EXPECT_EQ(table().granule(change.vg), change.to);
    }
    EXPECT_EQ(table().mapped_vgs(), 7u);
    if (!real_) return;
    EXPECT_EQ(memory_.Read(0), memory_.Pattern(3));
    EXPECT_EQ(memory_.Read(3), memory_.Pattern(3));
    EXPECT_EQ(memory_.Read(11), memory_.Pattern(1));
    EXPECT_EQ(memory_.Read(12), memory_.Pattern(2));
  }

 private:
  const bool real_;
  MappedMemory memory_;
  std::vector<MappingChange> change_;
};

// 3 runs to unmap, 6 granules to map, 5 runs to give access; where access is
// verified, that of 6 mappings.
uint64_t CallsOfTheChange() {
  return 14 + (MappingTableOptions().verify_access ? 6 : 0);
}

TEST(MappingTableRollbackTest, TheChangeTakesThePartsThatTheseTestsNeed) {
  Scene scene(CpuStorage::kReal);
  FIRN_ASSERT_OK(scene.MakeChange());
  EXPECT_EQ(scene.faults().calls(), CallsOfTheChange());
  scene.ExpectChangeWasMade();
}

TEST(MappingTableRollbackTest,
     WhicheverCallFailsEverythingIsAsItWasAndRetries) {
  for (uint64_t n = 0; n < CallsOfTheChange(); ++n) {
    SCOPED_TRACE(n);
    Scene scene(CpuStorage::kReal);
    const MemoryView before = scene.Look();
    scene.faults().FailNth(n, DriverResult::kUnknown);
    EXPECT_THAT(scene.MakeChange(), StatusIs(absl::StatusCode::kInternal,
                                             HasSubstr("CUDA_ERROR_UNKNOWN")));
    FIRN_EXPECT_OK(scene.table().lost_status());
    FIRN_EXPECT_OK(scene.table().CheckInvariants());
    ExpectSameView(scene.Look(), before);
    FIRN_EXPECT_OK(scene.MakeChange());
    scene.ExpectChangeWasMade();
    EXPECT_TRUE(scene.memory().CloseLeavesNothing());
  }
}

TEST(MappingTableRollbackTest, TheStatusTellsWhatFailed) {
  const struct {
    DriverCall call;
    DriverResult result;
    absl::StatusCode code;
    std::string message;
  } cases[] = {
      {DriverCall::kMemUnmap, DriverResult::kInvalidValue,
       absl::StatusCode::kInternal, "cuMemUnmap: CUDA_ERROR_INVALID_VALUE"},
      {DriverCall::kMemMap, DriverResult::kOutOfMemory,
       absl::StatusCode::kResourceExhausted,
       "cuMemMap: CUDA_ERROR_OUT_OF_MEMORY"},
      {DriverCall::kMemSetAccess, DriverResult::kNotPermitted,
       absl::StatusCode::kPermissionDenied,
       "cuMemSetAccess: CUDA_ERROR_NOT_PERMITTED"},
  };
  for (const auto& test_case : cases) {
    Scene scene(CpuStorage::kGhost);
    scene.faults().FailNthOf(test_case.call, 1, test_case.result);
    EXPECT_THAT(scene.MakeChange(),
                StatusIs(test_case.code, HasSubstr(test_case.message)));
  }
}

// The way back meets a failure as well.
TEST(MappingTableRollbackTest, TwoFailuresAreUndoneToo) {
  for (uint64_t n = 0; n < CallsOfTheChange(); ++n) {
    for (uint64_t m = n + 1; m < n + 25; ++m) {
      SCOPED_TRACE(n * 1000 + m);
      Scene scene(CpuStorage::kGhost);
      const MemoryView before = scene.Look();
      scene.faults().FailNth(n, DriverResult::kMapFailed);
      scene.faults().FailNth(m, DriverResult::kMapFailed);
      EXPECT_FALSE(scene.MakeChange().ok());
      scene.faults().Reset();
      FIRN_EXPECT_OK(scene.table().lost_status());
      FIRN_EXPECT_OK(scene.table().CheckInvariants());
      ExpectSameView(scene.Look(), before);
      FIRN_EXPECT_OK(scene.MakeChange());
      scene.ExpectChangeWasMade();
    }
  }
}

// From the n-th call on everything fails, the way back too.
class LostMappingTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  LostMappingTest() {
    scene_.faults().FailFrom(GetParam(), DriverResult::kUnknown);
    change_status_ = scene_.MakeChange();
    scene_.faults().Reset();
  }

  Scene scene_{CpuStorage::kReal};
  absl::Status change_status_;
};

TEST_P(LostMappingTest, TheFirstCauseIsKept) {
  ASSERT_FALSE(change_status_.ok());
  MappingTable& table = scene_.table();
  if (GetParam() == 0) {  // nothing had been done yet
    FIRN_EXPECT_OK(table.lost_status());
    return;
  }
  const absl::Status lost = table.lost_status();
  EXPECT_THAT(lost, StatusIs(absl::StatusCode::kInternal,
                             HasSubstr(std::string(change_status_.message()))));
  EXPECT_EQ(table.CheckInvariants(), lost);
  // A second loss, of another virtual granule, does not replace the first.
  scene_.faults().FailFrom(1, DriverResult::kOutOfMemory);
  EXPECT_FALSE(table.Apply({MapTo(3, scene_.granule(7))}).ok());
  scene_.faults().Reset();
  EXPECT_EQ(table.lost_status(), lost);
}

TEST_P(LostMappingTest, LaterChangesOfALostGranuleAreRefused) {
  if (GetParam() == 0) return;
  MappingTable& table = scene_.table();
  // The whole change contains what was lost.
  const uint64_t calls = scene_.faults().calls();
  EXPECT_THAT(scene_.MakeChange(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("lost")));
  EXPECT_EQ(scene_.faults().calls(), calls) << "a part was tried";
  EXPECT_EQ(table.granule(VgIndex(12)), GranuleId());
}

TEST_P(LostMappingTest, EverythingElseGoesOnWorking) {
  MappingTable& table = scene_.table();
  MappedMemory& memory = scene_.memory();
  EXPECT_EQ(memory.Read(3), memory.Pattern(3));
  FIRN_EXPECT_OK(table.Apply(
      {MapTo(14, scene_.granule(10)), MapTo(15, scene_.granule(11))}));
  memory.Write(14, 40);
  FIRN_EXPECT_OK(table.Apply(
      {MapTo(14, scene_.granule(11)), MapTo(15, scene_.granule(10))}));
  EXPECT_EQ(memory.Read(15), memory.Pattern(40));
  FIRN_EXPECT_OK(table.Apply({Unmap(14), MapTo(3, scene_.granule(10))}));
  EXPECT_EQ(memory.Read(3), memory.Pattern(40));
}

TEST_P(LostMappingTest, NoOtherMappingOrGenerationChanged) {
  const MemoryView before = Scene(CpuStorage::kGhost).Look();
  const MemoryView after = ViewOf(scene_.memory(), Contents::kIgnore);
  for (uint32_t vg = 0; vg < kVgs; ++vg) {
    if (scene_.Changes(vg)) continue;
    EXPECT_EQ(after.granules[vg], before.granules[vg]) << vg;
    EXPECT_EQ(after.generations[vg], before.generations[vg]) << vg;
  }
}

// What may still be reached is kept from everybody, and the store knows it.
TEST_P(LostMappingTest, StuckGranulesAreQuarantinedAndNothingElseIs) {
  GranuleStore& store = scene_.memory().store();
  for (uint32_t i = 0; i < kGranules; ++i) {
    const GranuleId granule = scene_.granule(i);
    EXPECT_EQ(store.is_quarantined(granule),
              Contains(scene_.table().stuck_granules(), granule));
  }
  FIRN_EXPECT_OK(store.CheckInvariants());
}

TEST_P(LostMappingTest, DestructionLeavesNothingBehind) {
  EXPECT_TRUE(scene_.memory().CloseLeavesNothing());
}

INSTANTIATE_TEST_SUITE_P(FromEveryCall, LostMappingTest,
                         ::testing::Range(uint64_t{0}, CallsOfTheChange()));

// With set-access and the first tries to undo it failing, what was to be
// mapped stays mapped: it is lost, and goes when the table does.
TEST(MappingTableRollbackTest, AMappingThatCannotBeUndoneIsLostNotForgotten) {
  Scene scene(CpuStorage::kGhost);
  scene.faults().FailNthOf(DriverCall::kMemSetAccess, 0,
                           DriverResult::kUnknown);
  for (uint64_t i = 0; i < 20; ++i) {
    scene.faults().FailNthOf(DriverCall::kMemUnmap, i, DriverResult::kUnknown);
  }
  EXPECT_FALSE(scene.table().Apply({MapTo(13, scene.granule(10))}).ok());
  scene.faults().Reset();
  EXPECT_FALSE(scene.table().lost_status().ok());
  EXPECT_FALSE(scene.table().Apply({MapTo(13, scene.granule(10))}).ok());
  EXPECT_TRUE(scene.memory().CloseLeavesNothing());
}

// The same on the way back: what was restored has no access and stays mapped.
TEST(MappingTableRollbackTest, ARestoredMappingThatStaysWithoutAccessIsStuck) {
  Scene scene(CpuStorage::kGhost);
  for (uint64_t i = 0; i < 4; ++i) {
    scene.faults().FailNthOf(DriverCall::kMemSetAccess, i,
                             DriverResult::kUnknown);
  }
  // The first unmap is of the change, the second undoes it.
  for (uint64_t i = 2; i < 5; ++i) {
    scene.faults().FailNthOf(DriverCall::kMemUnmap, i, DriverResult::kUnknown);
  }
  EXPECT_FALSE(scene.table().Apply({MapTo(9, scene.granule(10))}).ok());
  scene.faults().Reset();
  EXPECT_THAT(scene.table().lost_vgs(), ElementsAre(VgIndex(9)));
  EXPECT_THAT(scene.table().stuck_granules(), ElementsAre(scene.granule(5)));
  EXPECT_TRUE(scene.memory().store().is_quarantined(scene.granule(5)));
  EXPECT_FALSE(scene.memory().store().is_quarantined(scene.granule(10)));
  EXPECT_TRUE(scene.memory().CloseLeavesNothing());
}

}  // namespace
}  // namespace firn::testing
