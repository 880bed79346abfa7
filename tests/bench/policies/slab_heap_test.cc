// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/slab_heap.h"

#include <vector>

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGranule = 2048 * kKiB;

const SlabClass kQuarter = SlabClassOf(kGranule / 4);

TEST(SlabHeapTest, FillsTheLowestSlabAndTheLowestSlotFirst) {
  SlabHeap heap(kGranule, CompactionMode::kOff);
  EXPECT_FALSE(heap.HasFreeSlot(kQuarter));
  heap.AddSlab(kQuarter, {5 * kGranule, 1});
  heap.AddSlab(kQuarter, {3 * kGranule, 1});
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(heap.Place(kQuarter, 1), 3 * kGranule + i * kGranule / 4);
  }
  EXPECT_EQ(heap.Place(kQuarter, 1), 5 * kGranule);
  EXPECT_EQ(heap.Free(3 * kGranule + kGranule / 2).tag, 1u);
  EXPECT_EQ(heap.Free(3 * kGranule + kGranule / 4).tag, 1u);
  EXPECT_EQ(heap.Place(kQuarter, 1), 3 * kGranule + kGranule / 4);
}

TEST(SlabHeapTest, FillsTheFullestSlabFirstWhenBlocksMoveAllTheTime) {
  SlabHeap heap(kGranule, CompactionMode::kBackground);
  heap.AddSlab(kQuarter, {0, 1});
  for (int i = 0; i < 4; ++i) heap.Place(kQuarter, 1);
  heap.AddSlab(kQuarter, {kGranule, 1});
  for (int i = 0; i < 4; ++i) heap.Place(kQuarter, 1);
  heap.Free(0);
  heap.Free(kGranule / 4);
  heap.Free(kGranule + kGranule / 4);
  EXPECT_EQ(heap.Place(kQuarter, 1), kGranule + kGranule / 4);
  EXPECT_EQ(heap.Place(kQuarter, 1), 0u);
}

TEST(SlabHeapTest, HandsAnEmptySlabBackWithItsLastBlock) {
  SlabHeap heap(kGranule, CompactionMode::kOnDemand);
  heap.AddSlab(kQuarter, {7 * kGranule, 1});
  const uint64_t a = heap.Place(kQuarter, 11);
  const uint64_t b = heap.Place(kQuarter, 12);
  const SlabHeap::FreedBlock first = heap.Free(a);
  EXPECT_EQ(first.tag, 11u);
  EXPECT_EQ(first.emptied.granules, 0u);
  const SlabHeap::FreedBlock second = heap.Free(b);
  EXPECT_EQ(second.tag, 12u);
  EXPECT_EQ(second.emptied.address, 7 * kGranule);
  EXPECT_EQ(second.emptied.granules, 1u);
  EXPECT_FALSE(heap.HasFreeSlot(kQuarter));
  EXPECT_EQ(heap.Free(b).tag, 0u);
}

TEST(SlabHeapTest, ASlabMaySpanSeveralGranules) {
  const SlabClass size_class = SlabClassOf(576 * kKiB);  // 7 in 4 MiB
  SlabHeap heap(kGranule, CompactionMode::kOff);
  heap.AddSlab(size_class, {2 * kGranule, 2});
  for (uint64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(heap.Place(size_class, i + 1), 2 * kGranule + i * 576 * kKiB);
  }
  EXPECT_FALSE(heap.HasFreeSlot(size_class));
  // It begins in the second granule.
  EXPECT_EQ(heap.Free(2 * kGranule + 4 * 576 * kKiB).tag, 5u);
}

TEST(SlabHeapTest, KnowsNoOtherAddresses) {
  SlabHeap heap(kGranule, CompactionMode::kOff);
  heap.AddSlab(kQuarter, {kGranule, 1});
  heap.Place(kQuarter, 1);
  for (const uint64_t address :
       {uint64_t{0}, kGranule + 512, kGranule + kGranule / 4, 2 * kGranule,
        ~uint64_t{0}}) {
    EXPECT_EQ(heap.Free(address).tag, 0u) << address;
  }
}

TEST(SlabHeapTest, EmptiesTheSparsestSlabIntoTheFullestOthers) {
  SlabHeap heap(kGranule, CompactionMode::kOnDemand);
  for (uint64_t slab = 0; slab < 3; ++slab) {
    heap.AddSlab(kQuarter, {slab * kGranule, 1});
    for (uint64_t i = 0; i < 4; ++i) heap.Place(kQuarter, slab * 10 + i + 1);
  }
  // 1, 2 and 3 live blocks.
  for (const uint64_t slot : {0u, 1u, 2u}) heap.Free(slot * kGranule / 4);
  EXPECT_FALSE(heap.GetOccupancy(kQuarter.index).CanEmptyASlab());
  for (const uint64_t slot : {2u, 3u})
    heap.Free(kGranule + slot * kGranule / 4);
  heap.Free(2 * kGranule + kGranule / 4);
  const SlabHeap::Occupancy before = heap.GetOccupancy(kQuarter.index);
  EXPECT_EQ(before.free_slots, 6u);
  EXPECT_EQ(before.least_live_slots, 1u);
  ASSERT_TRUE(before.CanEmptyASlab());

  std::vector<SlabHeap::MovedBlock> moved;
  const SlabRun emptied = heap.EmptySparsestSlab(kQuarter.index, &moved);
  EXPECT_EQ(emptied.address, 0u);
  EXPECT_EQ(emptied.granules, 1u);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].tag, 4u);
  EXPECT_EQ(moved[0].address, 2 * kGranule + kGranule / 4);
  // 5 live blocks in 2 slabs.
  const SlabHeap::Occupancy after = heap.GetOccupancy(kQuarter.index);
  EXPECT_EQ(after.free_slots, 2u);
  EXPECT_EQ(after.least_live_slots, 2u);
  EXPECT_FALSE(after.CanEmptyASlab());
  EXPECT_EQ(heap.Free(moved[0].address).tag, 4u);
  EXPECT_EQ(heap.Free(3 * kGranule / 4).tag, 0u);
}

}  // namespace
}  // namespace firn::bench
