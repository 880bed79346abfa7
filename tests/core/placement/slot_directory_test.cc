// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/slot_directory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "firn/core/placement/size_classes.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

constexpr VgIndex kVg(1);

SlotGrid MakeGrid(uint32_t size_class, uint32_t lo_quanta, uint32_t slots) {
  SlotGrid grid;
  grid.size_class = size_class;
  grid.lo_quanta = lo_quanta;
  grid.slots = slots;
  return grid;
}

// Offsets of [begin, end) for which Find does not say what the grid does: the
// right cell and class at the start of each slot, nothing elsewhere.
uint32_t CountWrong(const SlotDirectory& directory, const SlotGrid& grid,
                    uint32_t slot_quanta, const SlotCell* cells, uint32_t begin,
                    uint32_t end) {
  uint32_t wrong = 0;
  for (uint32_t offset = begin; offset < end; ++offset) {
    const SlotDirectory::Slot found = directory.Find(kVg, offset);
    const SlotCell* expected = nullptr;
    if (offset >= grid.lo_quanta &&
        (offset - grid.lo_quanta) % slot_quanta == 0 &&
        (offset - grid.lo_quanta) / slot_quanta < grid.slots) {
      expected = cells + (offset - grid.lo_quanta) / slot_quanta;
    }
    if (found.cell != expected ||
        (expected != nullptr && found.size_class != grid.size_class)) {
      ++wrong;
    }
  }
  return wrong;
}

class SlotDirectoryTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(SlotDirectoryTest, FindsEverySlotOfEveryClassAndNothingBetween) {
  const uint32_t granule_quanta =
      static_cast<uint32_t>(GetParam() / kQuantumBytes);
  const SizeClasses classes(granule_quanta);
  SlotDirectory directory(2, classes.all_slot_quanta());
  for (uint32_t size_class = 0; size_class < classes.count(); ++size_class) {
    const uint32_t slot_quanta = classes.slot_quanta(size_class);
    for (const bool grown : {false, true}) {
      const uint32_t slots = classes.slots_per_window(size_class, grown);
      const uint32_t top = granule_quanta - slots * slot_quanta;
      for (const uint32_t lo : {0u, top / 3, top}) {
        const SlotGrid grid = MakeGrid(size_class, lo, slots);
        const SlotCell* const cells = directory.Open(kVg, grid).first;
        // The window and what is around it, and the ends of the granule.
        constexpr uint32_t kAround = 64;
        const uint32_t end =
            std::min(granule_quanta, lo + slots * slot_quanta + kAround);
        EXPECT_EQ(CountWrong(directory, grid, slot_quanta, cells,
                             lo - std::min(lo, kAround), end),
                  0u)
            << "class " << size_class << ", lo " << lo;
        for (const uint32_t offset : {0u, granule_quanta - 1}) {
          EXPECT_EQ(CountWrong(directory, grid, slot_quanta, cells, offset,
                               offset + 1),
                    0u)
              << "class " << size_class << ", lo " << lo;
        }
        directory.Close(kVg);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Granules, SlotDirectoryTest,
                         ::testing::Values(uint64_t{64} << 10,
                                           uint64_t{2} << 20,
                                           uint64_t{64} << 20));

TEST(SlotDirectoryTest, DividesRightUpToTheLargestGranule) {
  constexpr uint32_t kGranuleQuanta = 1u << 17;
  std::vector<uint32_t> slot_quanta;
  for (uint32_t quanta = 1; quanta < kGranuleQuanta / 2; quanta += quanta / 3) {
    slot_quanta.push_back(quanta);
    if (quanta < 3) ++quanta;
  }
  slot_quanta.push_back(kGranuleQuanta / 2 - 1);
  SlotDirectory directory(2, slot_quanta);
  for (uint32_t i = 0; i < slot_quanta.size(); ++i) {
    constexpr uint32_t kMostSlots = 1u << 15;
    const uint32_t slots =
        std::min(kMostSlots, kGranuleQuanta / slot_quanta[i]);
    const SlotGrid grid = MakeGrid(i, 0, slots);
    const SlotCell* const cells = directory.Open(kVg, grid).first;
    for (uint32_t slot = 1; slot < slots;
         slot = std::max(slot * 2, slots - 3)) {
      const uint32_t at = slot * slot_quanta[i];
      EXPECT_EQ(
          CountWrong(directory, grid, slot_quanta[i], cells, at - 1, at + 2),
          0u)
          << "slots of " << slot_quanta[i] << ", at " << at;
    }
    EXPECT_EQ(CountWrong(directory, grid, slot_quanta[i], cells,
                         kGranuleQuanta - 2, kGranuleQuanta),
              0u);
    directory.Close(kVg);
  }
}

TEST(SlotDirectoryTest, ABlockAloneInItsWindowIsFoundAtItsStartOnly) {
  SlotDirectory directory(2, {1, 2, 4});
  const SlotGrid grid = MakeGrid(3, 100, 1);
  SlotCell* const cells = directory.Open(kVg, grid).first;
  for (uint32_t offset = 0; offset < 4096; ++offset) {
    EXPECT_EQ(directory.Find(kVg, offset).cell,
              offset == 100 ? cells : nullptr);
  }
  EXPECT_EQ(directory.Find(kVg, 100).size_class, 3u);
}

TEST(SlotDirectoryTest, NothingIsFoundWhereThereIsNoWindow) {
  SlotDirectory directory(3, {1, 2, 4});
  EXPECT_EQ(directory.Find(VgIndex(0), 0).cell, nullptr);
  directory.Open(kVg, MakeGrid(1, 0, 8));
  EXPECT_NE(directory.Find(kVg, 0).cell, nullptr);
  EXPECT_EQ(directory.Find(VgIndex(0), 0).cell, nullptr);
  EXPECT_EQ(directory.Find(VgIndex(2), 0).cell, nullptr);
  directory.Close(kVg);
  EXPECT_EQ(directory.Find(kVg, 0).cell, nullptr);
}

TEST(SlotDirectoryTest, AddressesBeforeTheWindowAreNotFound) {
  // A distance below 0 that would be a slot's if it were taken modulo 2^32.
  SlotDirectory directory(2, {1, 2, 4});
  for (uint32_t size_class = 0; size_class < 3; ++size_class) {
    const SlotGrid grid = MakeGrid(size_class, 2048, 512);
    const SlotCell* const cells = directory.Open(kVg, grid).first;
    EXPECT_EQ(CountWrong(directory, grid, 1u << size_class, cells, 0, 2048 + 1),
              0u);
    directory.Close(kVg);
  }
}

TEST(SlotDirectoryTest, ATableIsUsedAgainWithAnotherGrid) {
  SlotDirectory directory(4, {1, 2, 4});
  SlotCell* const first = directory.Open(VgIndex(3), MakeGrid(0, 0, 16)).first;
  directory.Close(VgIndex(3));
  // As many slots, rounded up to a power of two.
  const SlotGrid grid = MakeGrid(2, 64, 13);
  SlotCell* const second = directory.Open(kVg, grid).first;
  EXPECT_EQ(second, first);
  EXPECT_EQ(directory.Find(VgIndex(3), 0).cell, nullptr);
  EXPECT_EQ(CountWrong(directory, grid, 4, second, 0, 256), 0u);
  // One slot more than the table has, and a second window at a time.
  EXPECT_NE(directory.Open(VgIndex(2), MakeGrid(0, 0, 17)).first, first);
  EXPECT_NE(directory.Open(VgIndex(3), MakeGrid(0, 0, 16)).first, first);
  EXPECT_EQ(CountWrong(directory, grid, 4, second, 0, 256), 0u);
}

TEST(SlotDirectoryTest, ASlotsWordKeepsStateBytesAndEpoch) {
  SlotContents contents;
  contents.requested_bytes = (uint64_t{64} << 20) - 1;
  contents.epoch = (1u << kEpochBits) - 1;
  for (const BlockState state :
       {BlockState::kNone, BlockState::kLive, BlockState::kMarked,
        BlockState::kParked, BlockState::kPending}) {
    contents.state = state;
    const SlotContents found = UnpackSlot(PackSlot(contents));
    EXPECT_EQ(found.state, state);
    EXPECT_EQ(found.requested_bytes, contents.requested_bytes);
    EXPECT_EQ(found.epoch, contents.epoch);
  }
  // What new cells hold.
  EXPECT_EQ(UnpackSlot(0).state, BlockState::kNone);
}

TEST(SlotDirectoryTest, AStateChangesInTheRightWindowOnly) {
  SlotContents contents;
  contents.state = BlockState::kLive;
  contents.requested_bytes = 77;
  contents.epoch = 5;
  SlotCell cell(PackSlot(contents));
  EXPECT_FALSE(ChangeState(&cell, BlockState::kLive, BlockState::kParked, 6)
                   .has_value());
  EXPECT_FALSE(ChangeState(&cell, BlockState::kParked, BlockState::kLive, 5)
                   .has_value());
  EXPECT_EQ(cell.load(), PackSlot(contents));
  const auto changed =
      ChangeState(&cell, BlockState::kLive, BlockState::kParked, 5);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->requested_bytes, 77u);
  EXPECT_EQ(UnpackSlot(cell.load()).state, BlockState::kParked);
}

TEST(SlotDirectoryTest, WhatIsFoundWhileWindowsComeAndGoFitsOneOfThem) {
  // Two grids by turns in the same table: all of one, or all of the other.
  SlotDirectory directory(2, {1, 2, 4});
  const SlotGrid low = MakeGrid(0, 0, 16);
  const SlotGrid high = MakeGrid(2, 64, 16);
  std::atomic<bool> is_over{false};
  uint64_t wrong = 0;
  uint64_t found = 0;
  std::thread finding([&] {
    for (uint32_t offset = 0; !is_over.load() || found == 0;
         offset = (offset + 1) % 160) {
      const SlotDirectory::Slot slot = directory.Find(kVg, offset);
      if (slot.cell == nullptr) continue;
      ++found;
      // The epochs of the two take turns as well.
      if (slot.epoch % 2 != (slot.size_class == 0 ? 1 : 0)) ++wrong;
      const bool fits = slot.size_class == 0
                            ? offset < 16
                            : slot.size_class == 2 && offset >= 64 &&
                                  offset < 128 && offset % 4 == 0;
      if (!fits) ++wrong;
    }
  });
  for (int round = 0; round < 20'000; ++round) {
    directory.Open(kVg, round % 2 == 0 ? low : high);
    directory.Close(kVg);
  }
  directory.Open(kVg, low);
  is_over.store(true);
  finding.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace firn
