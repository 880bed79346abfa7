// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole granules moved to the host and back beneath addresses that stay: moves
// without a host, through addresses that are taken for the time of the move.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/compaction/relocator.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compaction/spill_scene.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

TEST(SpillTest, EveryByteGoesToTheHostAndComesBack) {
  SpillScene scene;
  const GranuleId former = scene.table().granule(VgIndex(1));
  const uint32_t free_vgs = scene.memory().addresses().free().vg_count();
  FIRN_ASSERT_OK(scene.Spill({1}));
  EXPECT_EQ(scene.KindBeneath(1), GranuleKind::kHost);
  ExpectSound(scene.memory());
  scene.ExpectContents();
  // The device has a granule more for others.
  EXPECT_TRUE(scene.store().is_cached(former));
  EXPECT_EQ(scene.store().cached_granules(), 4u);
  EXPECT_EQ(scene.store().held_host_granules(), 1u);
  EXPECT_EQ(scene.memory().addresses().free().vg_count(), free_vgs);
  EXPECT_EQ(scene.table().mapped_vgs(), SpillScene::kUsedVgs);

  FIRN_ASSERT_OK(scene.BringBack({1}));
  EXPECT_EQ(scene.KindBeneath(1), GranuleKind::kMovable);
  ExpectSound(scene.memory());
  scene.ExpectContents();
  EXPECT_EQ(scene.store().cached_granules(), 3u);
  EXPECT_EQ(scene.memory().addresses().free().vg_count(), free_vgs);
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

TEST(SpillTest, WhatIsWrittenWhileOnTheHostComesBackToo) {
  SpillScene scene;
  FIRN_ASSERT_OK(scene.Spill({0, 3}));
  scene.memory().Write(3, 33);
  FIRN_ASSERT_OK(scene.BringBack({3, 0}));
  EXPECT_EQ(scene.memory().Read(3), scene.memory().Pattern(33));
  EXPECT_EQ(scene.memory().Read(0), scene.memory().Pattern(0));
  ExpectSound(scene.memory());
}

TEST(SpillTest, MemoryGoesOutAndBackManyTimes) {
  SpillScene scene;
  const uint64_t generation = scene.table().generation(VgIndex(2));
  for (int i = 0; i < 10; ++i) {
    FIRN_ASSERT_OK(scene.Spill({2, 4, 0}));
    FIRN_ASSERT_OK(scene.BringBack({4, 0}));
    FIRN_ASSERT_OK(scene.BringBack({2}));
  }
  scene.ExpectContents();
  ExpectSound(scene.memory());
  EXPECT_EQ(scene.table().generation(VgIndex(2)), generation + 20);
  EXPECT_EQ(scene.store().cached_granules(), 3u);
  // The host's granules are cached and used again.
  EXPECT_EQ(scene.store().held_host_granules(), 3u);
  EXPECT_TRUE(scene.CloseLeavesNothing());
}

// The device that is given access to device memory is given it to the host's.
TEST(SpillTest, TheAccessListAppliesToHostMemory) {
  MappedMemory memory(CpuStorage::kReal, /*granule_count=*/2, /*vg_count=*/6);
  std::vector<std::unique_ptr<Driver>>& drivers = memory.devices().drivers;
  int32_t can_access = 0;
  if (drivers.size() > 1) {
    ASSERT_EQ(drivers[1]->DeviceCanAccessPeer(&can_access, 0),
              DriverResult::kSuccess);
  }
  MappingTableOptions options;
  options.access = {ReadWriteAccess(0)};
  if (can_access != 0) options.access.push_back(ReadWriteAccess(1));
  options.verify_access = true;
  MappingTable table(&memory.faults(), &memory.addresses(), &memory.store(),
                     options);
  memory.addresses().Take(Vgs(0, 1));
  FIRN_ASSERT_OK(table.Apply({MapTo(0, memory.granule(0))}));
  memory.Write(0, 9);
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto relocator,
      Relocator::Create(&memory.faults(), &memory.addresses(), &table));
  Acquisition host;
  FIRN_ASSERT_OK(memory.store().AcquireAtMost(1, &host, GranuleKind::kHost));
  ASSERT_EQ(host.granules.size(), 1u);
  const std::vector<OffsetInterval> whole = {
      Extent(0, static_cast<uint32_t>(memory.granule_bytes() / kQuantumBytes))};
  Relocation move;
  move.vg = VgIndex(0);
  move.to = host.granules[0];
  move.extents = whole;
  FIRN_ASSERT_OK(relocator->Relocate({move}));
  FIRN_EXPECT_OK(table.CheckInvariants());
  EXPECT_EQ(memory.Read(0), memory.Pattern(9));
  if (can_access == 0) return;
  EXPECT_EQ(
      ReadWords(drivers[1].get(), memory.AddressOf(0), memory.granule_bytes()),
      memory.Pattern(9));
}

TEST(SpillTest, ARunIsMovedWithOneUnmapAndTwoSetAccesses) {
  SpillScene scene;
  const DriverCalls before = scene.memory().counts().calls();
  FIRN_ASSERT_OK(scene.Spill({1, 2, 3}));
  const DriverCalls after = scene.memory().counts().calls();
  // The aliases are mapped as a run, and unmapped as one.
  EXPECT_EQ(after.map - before.map, 6u);
  EXPECT_EQ(after.set_access - before.set_access, 2u);
  EXPECT_EQ(after.unmap - before.unmap, 2u);
  EXPECT_EQ(after.copy - before.copy, 3u);
}

// --- Aliases ---

// Parts of the granules beneath two virtual granules, to one granule together.
class SharedHost {
 public:
  explicit SharedHost(SpillScene* scene) {
    FIRN_EXPECT_OK(
        scene->store().AcquireAtMost(1, &acquisition_, GranuleKind::kHost));
    EXPECT_EQ(acquisition_.granules.size(), 1u);
  }
  GranuleId granule() const { return acquisition_.granules[0]; }
  std::vector<Relocation> Moves() const {
    std::vector<Relocation> moves(2);
    moves[0].vg = VgIndex(0);
    moves[0].extents = first_;
    moves[1].vg = VgIndex(2);
    moves[1].extents = second_;
    for (Relocation& move : moves) move.to = granule();
    return moves;
  }

 private:
  const std::vector<OffsetInterval> first_ = {Extent(0, 10), Extent(20, 30)};
  const std::vector<OffsetInterval> second_ = {Extent(10, 20)};
  Acquisition acquisition_;
};

TEST(SpillTest, MovesToOneGranuleShareAnAlias) {
  SpillScene scene;
  const SharedHost host(&scene);
  const uint32_t free_vgs = scene.memory().addresses().free().vg_count();
  const DriverCalls before = scene.memory().counts().calls();
  FIRN_ASSERT_OK(scene.relocator().Relocate(host.Moves()));
  EXPECT_EQ(scene.memory().counts().calls().map - before.map, 3u);
  EXPECT_EQ(scene.memory().addresses().free().vg_count(), free_vgs);
  EXPECT_EQ(scene.table().granule(VgIndex(0)), host.granule());
  EXPECT_EQ(scene.table().granule(VgIndex(2)), host.granule());
  ExpectSound(scene.memory());
  const std::vector<uint32_t> words = scene.memory().Read(0);
  EXPECT_EQ(words, scene.memory().Read(2));
  const size_t quantum_words = kQuantumBytes / sizeof(uint32_t);
  for (size_t i = 0; i < 30 * quantum_words; ++i) {
    const bool is_second = i / quantum_words / 10 == 1;
    ASSERT_EQ(words[i], scene.memory().Pattern(is_second ? 2 : 0)[i]) << i;
  }
}

TEST(SpillTest, OnlyMovesThatCopyTakeAnAlias) {
  SpillScene scene;
  const SharedHost host(&scene);
  std::vector<Relocation> moves = host.Moves();
  for (Relocation& move : moves) move.extents = {};
  const DriverCalls before = scene.memory().counts().calls();
  FIRN_ASSERT_OK(scene.relocator().Relocate(moves));
  EXPECT_EQ(scene.memory().counts().calls().map - before.map, 2u);
  EXPECT_EQ(scene.memory().counts().calls().copy, before.copy);
  EXPECT_EQ(scene.table().granule(VgIndex(2)), host.granule());
  ExpectSound(scene.memory());
}

// Virtual granule 1 goes onto the granule of virtual granule 0, which shows the
// way; 3 goes to the host, to which nothing does.
TEST(SpillTest, MovesWithAndWithoutAHostGoTogether) {
  SpillScene scene;
  Acquisition host;
  FIRN_ASSERT_OK(scene.store().AcquireAtMost(1, &host, GranuleKind::kHost));
  ASSERT_EQ(host.granules.size(), 1u);
  const std::vector<OffsetInterval> some = {Extent(5, 9)};
  Relocation merge;
  merge.vg = VgIndex(1);
  merge.to = scene.table().granule(VgIndex(0));
  merge.through = VgIndex(0);
  merge.extents = some;
  FIRN_ASSERT_OK(
      scene.relocator().Relocate({merge, scene.Whole(3, host.granules[0])}));
  ExpectSound(scene.memory());
  EXPECT_EQ(scene.memory().Read(3), scene.memory().Pattern(3));
  const size_t word = 6 * kQuantumBytes / sizeof(uint32_t);
  EXPECT_EQ(scene.memory().Read(0)[word], scene.memory().Pattern(1)[word]);
  EXPECT_EQ(scene.memory().Read(1)[0], scene.memory().Pattern(0)[0]);
}

TEST(SpillTest, WithoutAnAddressLeftNothingIsTried) {
  SpillScene scene;
  AddressSpace& addresses = scene.memory().addresses();
  // Room for one alias only.
  const uint32_t taken = addresses.free().vg_count() - 1;
  addresses.Take(Vgs(SpillScene::kUsedVgs, taken));
  Acquisition host;
  FIRN_ASSERT_OK(scene.store().AcquireAtMost(2, &host, GranuleKind::kHost));
  const uint64_t calls = scene.memory().faults().calls();
  EXPECT_THAT(scene.relocator().Relocate({scene.Whole(1, host.granules[0]),
                                          scene.Whole(2, host.granules[1])}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("no address is free")));
  EXPECT_EQ(scene.memory().faults().calls(), calls);
  EXPECT_EQ(addresses.free().vg_count(), 1u);
  FIRN_EXPECT_OK(
      scene.relocator().Relocate({scene.Whole(1, host.granules[0])}));
  EXPECT_EQ(addresses.free().vg_count(), 1u);
  scene.ExpectContents();
  ExpectSound(scene.memory());
}

TEST(SpillTest, AliasesCountForTheMappingBudget) {
  MappedMemory memory(CpuStorage::kReal, /*granule_count=*/2, /*vg_count=*/6);
  MappingTableOptions options;
  options.access = {ReadWriteAccess(0)};
  options.max_mapped_vgs = 1;
  MappingTable table(&memory.faults(), &memory.addresses(), &memory.store(),
                     options);
  memory.addresses().Take(Vgs(0, 1));
  FIRN_ASSERT_OK(table.Apply({MapTo(0, memory.granule(0))}));
  memory.Write(0, 9);
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto relocator,
      Relocator::Create(&memory.faults(), &memory.addresses(), &table));
  const std::vector<OffsetInterval> some = {Extent(0, 1)};
  Relocation move;
  move.vg = VgIndex(0);
  move.to = memory.granule(1);
  move.extents = some;
  const uint64_t calls = memory.faults().calls();
  EXPECT_THAT(relocator->Relocate({move}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(memory.faults().calls(), calls);
  EXPECT_EQ(memory.addresses().free().vg_count(), 5u);
  EXPECT_EQ(memory.Read(0), memory.Pattern(9));
  FIRN_EXPECT_OK(table.CheckInvariants());
}

}  // namespace
}  // namespace firn::testing
