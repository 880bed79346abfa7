// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Fails every driver call of moving whole granules to the host and back: one,
// two, and all from one on.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/compaction/relocator.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compaction/spill_scene.h"
#include "tests/support/failure_sweep.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- One failure ---

class SpillManyScene : public SpillScene {
 public:
  absl::Status Operate() { return Spill({1, 2, 4}); }
  void ExpectDone() {
    ExpectContents();
    for (const uint32_t vg : {1u, 2u, 4u}) {
      EXPECT_EQ(KindBeneath(vg), GranuleKind::kHost);
    }
    EXPECT_EQ(store().cached_granules(), 6u);
  }
};

class BringManyBackScene : public SpillScene {
 public:
  BringManyBackScene() { FIRN_EXPECT_OK(Spill({1, 2, 4})); }
  absl::Status Operate() { return BringBack({2, 1, 4}); }
  void ExpectDone() {
    ExpectContents();
    for (const uint32_t vg : {1u, 2u, 4u}) {
      EXPECT_EQ(KindBeneath(vg), GranuleKind::kMovable);
    }
    EXPECT_EQ(store().cached_granules(), 3u);
  }
};

TEST(SpillFailureSweepTest, SpillingOneCall) { FailEachCall<SpillManyScene>(); }
TEST(SpillFailureSweepTest, BringingBackOneCall) {
  FailEachCall<BringManyBackScene>();
}

// --- Two failures, of the relocator's calls alone ---

class SmallSpillScene : public SpillScene {
 public:
  SmallSpillScene() {
    FIRN_EXPECT_OK(store().AcquireAtMost(1, &host_, GranuleKind::kHost));
    EXPECT_EQ(host_.granules.size(), 1u);
  }
  GranuleId host() const { return host_.granules[0]; }
  absl::Status Operate() { return relocator().Relocate({Whole(1, host())}); }
  void ExpectDone() {
    ExpectContents();
    EXPECT_EQ(table().granule(VgIndex(1)), host());
  }

 private:
  Acquisition host_;
};

TEST(SpillFailureSweepTest, SpillingTwoCalls) {
  FailEachTwoCalls<SmallSpillScene>();
}

// --- Failures for good ---

// Whether anything in the store's cache can still be reached by an address.
void ExpectNoCachedGranuleIsMapped(SpillScene& scene) {
  MappedMemory& memory = scene.memory();
  for (uint32_t vg = 0; vg < memory.addresses().vg_count(); ++vg) {
    PhysicalHandle handle = 0;
    if (memory.device()->MemRetainAllocationHandle(
            &handle, memory.AddressOf(vg)) != DriverResult::kSuccess) {
      continue;
    }
    EXPECT_EQ(memory.device()->MemRelease(handle), DriverResult::kSuccess);
    for (uint32_t i = 0; i < scene.store().id_limit(); ++i) {
      const GranuleId granule(i);
      if (!scene.store().is_held(granule)) continue;
      EXPECT_FALSE(scene.store().is_cached(granule) &&
                   scene.store().handle(granule) == handle)
          << "virtual granule " << vg << " reaches granule " << i;
    }
  }
}

// From the n-th call of a spill on everything fails, the way back too.
void ExpectTheRestGoesOn(uint64_t n) {
  SmallSpillScene scene;
  MappedMemory& memory = scene.memory();
  const MemoryView before = scene.View();
  memory.faults().Reset();
  memory.faults().FailFrom(n, DriverResult::kUnknown);
  const absl::Status status = scene.Operate();
  memory.faults().Reset();
  ASSERT_EQ(memory.device()->CtxSynchronize(), DriverResult::kSuccess);
  EXPECT_FALSE(status.ok());

  const absl::Status lost = scene.table().lost_status();
  EXPECT_EQ(scene.table().CheckInvariants(), lost);
  if (lost.ok()) {
    ExpectSameView(scene.View(), before);
    FIRN_EXPECT_OK(scene.Operate());
    scene.ExpectDone();
    EXPECT_TRUE(scene.CloseLeavesNothing());
    return;
  }
  // The first cause is kept; what was lost is refused and nobody's.
  EXPECT_THAT(std::string(lost.message()),
              HasSubstr(std::string(status.message())));
  for (const VgIndex vg : scene.table().lost_vgs()) {
    EXPECT_FALSE(memory.addresses().free().Find(vg).has_value());
    EXPECT_THAT(scene.table().Apply({Unmap(vg.value())}),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr(std::string(lost.message()))));
  }
  // All else holds what it held.
  for (const uint32_t vg : {0u, 2u, 3u, 4u}) {
    EXPECT_EQ(memory.Read(vg), memory.Pattern(vg)) << vg;
  }
  if (scene.table().granule(VgIndex(1)) == before.granules[1] &&
      scene.table().lost_vgs().front() != VgIndex(1)) {
    EXPECT_EQ(memory.Read(1), memory.Pattern(1));
  }
  // The caller gives back what it had taken: what may be reached stays out.
  scene.store().Put(scene.host());
  FIRN_EXPECT_OK(scene.store().CheckInvariants());
  ExpectNoCachedGranuleIsMapped(scene);
  FIRN_EXPECT_OK(scene.Spill({2, 3}));
  FIRN_EXPECT_OK(scene.BringBack({3}));
  EXPECT_EQ(memory.Read(2), memory.Pattern(2));
  EXPECT_EQ(memory.Read(3), memory.Pattern(3));
  EXPECT_EQ(scene.table().CheckInvariants(), lost);
  FIRN_EXPECT_OK(scene.store().CheckInvariants());
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

TEST(SpillFailureSweepTest, WhateverIsLostTheRestGoesOn) {
  const uint64_t calls = CallsOf<SmallSpillScene>();
  for (uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(absl::StrCat("from call ", n, " of ", calls));
    ExpectTheRestGoesOn(n);
    if (HasFailure()) return;
  }
}

// The moved granule cannot be given back what it had: it is lost, with the
// contents; the alias is not.
TEST(SpillFailureSweepTest, AMoveThatCannotBeUndoneLosesOnlyWhatMoved) {
  SmallSpillScene scene;
  MappedMemory& memory = scene.memory();
  const uint32_t free_vgs = memory.addresses().free().vg_count();
  // The first map is the alias; the second, of the moved one, fails, and with
  // it all that would restore it.
  for (uint64_t i = 1; i < 5; ++i) {
    memory.faults().FailNthOf(DriverCall::kMemMap, i,
                              DriverResult::kOutOfMemory);
  }
  EXPECT_THAT(scene.Operate(), StatusIs(absl::StatusCode::kResourceExhausted,
                                        HasSubstr("cuMemMap")));
  memory.faults().Reset();
  EXPECT_THAT(scene.table().lost_vgs(), ElementsAre(VgIndex(1)));
  EXPECT_THAT(scene.table().lost_status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemMap")));
  EXPECT_TRUE(scene.table().stuck_granules().empty());
  EXPECT_EQ(memory.addresses().free().vg_count(), free_vgs);
  scene.store().Put(scene.host());
  ExpectNoCachedGranuleIsMapped(scene);
  FIRN_EXPECT_OK(scene.Spill({2}));
  EXPECT_EQ(memory.Read(2), memory.Pattern(2));
  FIRN_EXPECT_OK(scene.store().CheckInvariants());
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

// An alias that cannot be unmapped keeps its address and its granule.
TEST(SpillFailureSweepTest, AnAliasThatStaysIsKeptFromEverybody) {
  SmallSpillScene scene;
  MappedMemory& memory = scene.memory();
  const MemoryView before = scene.View();
  memory.faults().Reset();
  memory.faults().FailNthOf(DriverCall::kMemcpyDtoDAsync, 0,
                            DriverResult::kUnknown);
  for (uint64_t i = 0; i < 8; ++i) {
    memory.faults().FailNthOf(DriverCall::kMemUnmap, i, DriverResult::kUnknown);
  }
  EXPECT_THAT(scene.Operate(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("cuMemcpyDtoDAsync")));
  memory.faults().Reset();
  ASSERT_EQ(scene.table().lost_vgs().size(), 1u);
  const VgIndex alias = scene.table().lost_vgs()[0];
  EXPECT_FALSE(alias < VgIndex(SpillScene::kUsedVgs));
  EXPECT_FALSE(memory.addresses().free().Find(alias).has_value());
  EXPECT_EQ(memory.addresses().free().vg_count(), before.free_vgs - 1);
  EXPECT_THAT(scene.table().stuck_granules(), ElementsAre(scene.host()));
  EXPECT_TRUE(scene.store().is_quarantined(scene.host()));
  scene.ExpectContents();
  // It is never given out again.
  scene.store().Put(scene.host());
  EXPECT_TRUE(scene.store().is_quarantined(scene.host()));
  FIRN_EXPECT_OK(scene.Spill({1}));
  EXPECT_NE(scene.table().granule(VgIndex(1)), scene.host());
  scene.ExpectContents();
  FIRN_EXPECT_OK(scene.store().CheckInvariants());
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

// --- Copies in flight ---

// Copies that take their time.
class SlowCopies : public DriverWrapper {
 public:
  explicit SlowCopies(Driver* base) : DriverWrapper(base) {}
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    DriverWrapper::LaunchHostFunc(
        stream, [](void*) { absl::SleepFor(absl::Milliseconds(20)); }, nullptr);
    return DriverWrapper::MemcpyDtoDAsync(dst, src, bytes, stream);
  }
};

// A copy through an address that is unmapped beneath it is the end of a device.
TEST(SpillFailureSweepTest, NoAliasIsUnmappedUnderACopyInFlight) {
  for (const DriverCall call :
       {DriverCall::kMemcpyDtoDAsync, DriverCall::kEventRecord,
        DriverCall::kEventSynchronize}) {
    SpillManyScene scene;
    SlowCopies slow(&scene.memory().faults());
    scene.UseRelocatorOn(&slow);
    scene.memory().faults().FailNthOf(
        call, call == DriverCall::kMemcpyDtoDAsync ? 2 : 0,
        DriverResult::kUnknown);
    EXPECT_THAT(scene.Operate(), StatusIs(absl::StatusCode::kInternal));
    EXPECT_EQ(scene.memory().device()->CtxSynchronize(),
              DriverResult::kSuccess);
    ExpectSound(scene.memory());
    scene.ExpectContents();
    FIRN_EXPECT_OK(scene.Operate());
    scene.ExpectDone();
    EXPECT_TRUE(scene.CloseLeavesNothing());
  }
}

// When it cannot be told whether copies are done, they may not be.
TEST(SpillFailureSweepTest, WithoutAnEndOfTheCopiesAliasesStay) {
  SmallSpillScene scene;
  SlowCopies slow(&scene.memory().faults());
  scene.UseRelocatorOn(&slow);
  FaultingDriver& faults = scene.memory().faults();
  faults.FailNthOf(DriverCall::kEventSynchronize, 0, DriverResult::kUnknown);
  for (uint64_t i = 0; i < 3; ++i) {
    faults.FailNthOf(DriverCall::kStreamSynchronize, i, DriverResult::kUnknown);
  }
  EXPECT_THAT(scene.Operate(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("cuEventSynchronize")));
  EXPECT_EQ(faults.failures(), 4u);
  faults.Reset();
  EXPECT_EQ(scene.memory().device()->CtxSynchronize(), DriverResult::kSuccess);
  // The source, which copies may still be reading, and the alias.
  EXPECT_EQ(scene.table().lost_vgs().size(), 2u);
  EXPECT_TRUE(scene.store().is_quarantined(scene.host()));
  scene.ExpectContents();
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

}  // namespace
}  // namespace firn::testing
