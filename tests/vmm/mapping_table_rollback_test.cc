// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a mapping table does when driver calls fail, one by one, two at a time
// and for good.

#include <cstdint>
#include <optional>
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
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

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

  // All that Apply may change, as the table and as the device have it.
  struct View {
    std::vector<GranuleId> granules;
    std::vector<uint32_t> generations;
    std::vector<std::vector<uint32_t>> contents;  // of mapped VGs
    uint32_t mapped_vgs = 0;

    bool operator==(const View& other) const {
      return granules == other.granules && generations == other.generations &&
             contents == other.contents && mapped_vgs == other.mapped_vgs;
    }
  };
  View Look() {
    View view;
    for (uint32_t vg = 0; vg < kVgs; ++vg) {
      const GranuleId granule = table().granule(VgIndex(vg));
      view.granules.push_back(granule);
      view.generations.push_back(table().generation(VgIndex(vg)));
      if (real_ && !granule.is_none())
        view.contents.push_back(memory_.Read(vg));
    }
    view.mapped_vgs = table().mapped_vgs();
    return view;
  }

  void ExpectChangeWasMade() {
    FIRN_EXPECT_OK(table().lost_status());
    FIRN_EXPECT_OK(table().CheckInvariants());
    for (const MappingChange& change : change_) {
      EXPECT_EQ(table().granule(change.vg), change.to);
    }
    EXPECT_EQ(table().mapped_vgs(), 7u);
    if (!real_) return;
    const std::vector<std::vector<uint32_t>> contents = {
        memory_.Read(0), memory_.Read(3), memory_.Read(11), memory_.Read(12)};
    const uint32_t seeds[] = {3, 3, 1, 2};
    for (size_t i = 0; i < contents.size(); ++i) {
      EXPECT_EQ(contents[i], PatternOf(seeds[i], kTestGranuleBytes));
    }
  }

 private:
  const bool real_;
  MappedMemory memory_;
  std::vector<MappingChange> change_;
};

constexpr uint64_t kCallsOfTheChange = 14;

uint64_t CallsOfTheChange() {
  Scene scene(CpuStorage::kGhost);
  FIRN_EXPECT_OK(scene.MakeChange());
  return scene.faults().calls();
}

TEST(MappingTableRollbackTest, TheChangeTakesThePartsThatTheseTestsNeed) {
  Scene scene(CpuStorage::kReal);
  FIRN_ASSERT_OK(scene.MakeChange());
  scene.ExpectChangeWasMade();
  // 3 runs to unmap, 6 granules to map, 5 runs to give access.
  EXPECT_EQ(CallsOfTheChange(), kCallsOfTheChange);
}

TEST(MappingTableRollbackTest,
     WhicheverCallFailsEverythingIsAsItWasAndRetries) {
  for (uint64_t n = 0; n < kCallsOfTheChange; ++n) {
    SCOPED_TRACE(n);
    Scene scene(CpuStorage::kReal);
    const Scene::View before = scene.Look();
    scene.faults().FailNth(n, DriverResult::kUnknown);
    EXPECT_THAT(scene.MakeChange(), StatusIs(absl::StatusCode::kInternal,
                                             HasSubstr("CUDA_ERROR_UNKNOWN")));
    FIRN_EXPECT_OK(scene.table().lost_status());
    FIRN_EXPECT_OK(scene.table().CheckInvariants());
    EXPECT_TRUE(scene.Look() == before);
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
  for (uint64_t n = 0; n < kCallsOfTheChange; ++n) {
    for (uint64_t m = n + 1; m < n + 25; ++m) {
      SCOPED_TRACE(n * 1000 + m);
      Scene scene(CpuStorage::kGhost);
      const Scene::View before = scene.Look();
      scene.faults().FailNth(n, DriverResult::kMapFailed);
      scene.faults().FailNth(m, DriverResult::kMapFailed);
      EXPECT_FALSE(scene.MakeChange().ok());
      scene.faults().Reset();
      FIRN_EXPECT_OK(scene.table().lost_status());
      FIRN_EXPECT_OK(scene.table().CheckInvariants());
      EXPECT_TRUE(scene.Look() == before);
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
  EXPECT_EQ(memory.Read(3), PatternOf(3, kTestGranuleBytes));
  FIRN_EXPECT_OK(table.Apply(
      {MapTo(14, scene_.granule(10)), MapTo(15, scene_.granule(11))}));
  memory.Write(14, 40);
  FIRN_EXPECT_OK(table.Apply(
      {MapTo(14, scene_.granule(11)), MapTo(15, scene_.granule(10))}));
  EXPECT_EQ(memory.Read(15), PatternOf(40, kTestGranuleBytes));
  FIRN_EXPECT_OK(table.Apply({Unmap(14), MapTo(3, scene_.granule(10))}));
  EXPECT_EQ(memory.Read(3), PatternOf(40, kTestGranuleBytes));
}

TEST_P(LostMappingTest, NoOtherMappingOrGenerationChanged) {
  const Scene::View before = Scene(CpuStorage::kGhost).Look();
  const Scene::View after = [this] {
    Scene::View view;
    for (uint32_t vg = 0; vg < kVgs; ++vg) {
      view.granules.push_back(scene_.table().granule(VgIndex(vg)));
      view.generations.push_back(scene_.table().generation(VgIndex(vg)));
    }
    view.mapped_vgs = scene_.table().mapped_vgs();
    return view;
  }();
  for (uint32_t vg = 0; vg < kVgs; ++vg) {
    if (scene_.Changes(vg)) continue;
    EXPECT_EQ(after.granules[vg], before.granules[vg]) << vg;
    EXPECT_EQ(after.generations[vg], before.generations[vg]) << vg;
  }
}

TEST_P(LostMappingTest, DestructionLeavesNothingBehind) {
  EXPECT_TRUE(scene_.memory().CloseLeavesNothing());
}

INSTANTIATE_TEST_SUITE_P(FromEveryCall, LostMappingTest,
                         ::testing::Range(uint64_t{0}, kCallsOfTheChange));

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

}  // namespace
}  // namespace firn::testing
