// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/segment_heap.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

constexpr DevicePtr kBase = DevicePtr{1} << 40;
constexpr uint64_t kSegment = 64 * kQuantumBytes;

TEST(SegmentHeapTest, ABlockGoesWhereItFitsBest) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  std::vector<SegmentHeap::BlockNumber> blocks;
  for (const uint64_t quanta : {10u, 1u, 4u, 1u, 20u, 1u}) {
    const auto block = heap.Allocate(QuantaToBytes(quanta), 1);
    ASSERT_TRUE(block.has_value());
    blocks.push_back(*block);
  }
  // Holes of 10, 4 and 20 quanta, and 27 at the end.
  for (const size_t hole : {0u, 2u, 4u}) heap.Free(blocks[hole]);
  EXPECT_EQ(heap.longest_free_bytes(), 27 * kQuantumBytes);
  EXPECT_EQ(heap.Allocate(QuantaToBytes(3), 1), blocks[2]);
  EXPECT_EQ(heap.Allocate(QuantaToBytes(11), 1), blocks[4]);
  EXPECT_EQ(heap.Allocate(QuantaToBytes(10), 1), blocks[0]);
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, FreedNeighboursCoalesce) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  std::vector<SegmentHeap::BlockNumber> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(*heap.Allocate(1, 1));
  EXPECT_FALSE(heap.Allocate(1, 1).has_value());
  for (int i = 0; i < 64; i += 2) heap.Free(blocks[static_cast<size_t>(i)]);
  EXPECT_FALSE(heap.Allocate(kQuantumBytes + 1, 1).has_value());
  for (int i = 1; i < 64; i += 2) heap.Free(blocks[static_cast<size_t>(i)]);
  EXPECT_EQ(heap.Allocate(kSegment, 1), blocks[0]);
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, NoBlockLiesInTwoSegmentsEvenIfTheyMeet) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  ASSERT_TRUE(heap.AddSegment(kBase + kSegment, kSegment));
  EXPECT_FALSE(heap.Allocate(kSegment + 1, 1).has_value());
  const auto first = heap.Allocate(kSegment, 1);
  const auto second = heap.Allocate(kSegment, 1);
  ASSERT_TRUE(first.has_value() && second.has_value());
  heap.Free(*first);
  heap.Free(*second);
  EXPECT_EQ(heap.longest_free_bytes(), kSegment);
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, AlignmentsAreThoseOfAddresses) {
  SegmentHeap heap;
  // Its first quantum is an odd one.
  ASSERT_TRUE(heap.AddSegment(kBase + 256, kSegment));
  for (const uint64_t alignment : {1u, 2u, 4u, 8u, 16u}) {
    const auto block = heap.Allocate(kQuantumBytes, alignment);
    ASSERT_TRUE(block.has_value()) << alignment;
    EXPECT_EQ(heap.AddressOf(*block) % QuantaToBytes(alignment), 0u);
    EXPECT_GE(heap.AddressOf(*block), kBase + 256);
  }
  EXPECT_FALSE(heap.Allocate(kQuantumBytes, 64).has_value());
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, AnAlignedBlockIsFoundBehindManyRangesThatAreTooShort) {
  SegmentHeap heap;
  constexpr uint64_t kMany = 4096;
  ASSERT_TRUE(heap.AddSegment(kBase, QuantaToBytes(kMany)));
  // Every other quantum is free, and none of these is even; so is the end.
  std::vector<SegmentHeap::BlockNumber> blocks;
  for (uint64_t i = 0; i + 64 < kMany; ++i) {
    blocks.push_back(*heap.Allocate(1, 1));
  }
  for (size_t i = 1; i < blocks.size(); i += 2) heap.Free(blocks[i]);
  const auto block = heap.Allocate(1, 2);
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(heap.AddressOf(*block) % QuantaToBytes(2), 0u);
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, WhatIsNoWholeQuantumStaysUnused) {
  SegmentHeap heap;
  EXPECT_FALSE(heap.AddSegment(kBase + 1, kQuantumBytes));
  EXPECT_FALSE(heap.AddSegment(kBase, kQuantumBytes - 1));
  EXPECT_EQ(heap.held_bytes(), 0u);
  ASSERT_TRUE(heap.AddSegment(kBase + 256, 2 * kQuantumBytes));
  EXPECT_EQ(heap.longest_free_bytes(), kQuantumBytes);
  EXPECT_EQ(heap.held_bytes(), 2 * kQuantumBytes);
  EXPECT_FALSE(heap.Contains(kBase + 256));
  EXPECT_TRUE(heap.Contains(kBase + 512));
  EXPECT_FALSE(heap.Contains(kBase + 1024));
  EXPECT_EQ(heap.EmptySegment(), kBase + 256);
  heap.RemoveSegment(kBase + 256);
  EXPECT_EQ(heap.held_bytes(), 0u);
  FIRN_EXPECT_OK(heap.CheckInvariants());
}

TEST(SegmentHeapTest, OnlyTheStartOfABlockNamesIt) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  const auto block = heap.Allocate(3 * kQuantumBytes - 1, 1);
  ASSERT_TRUE(block.has_value());
  const DevicePtr address = heap.AddressOf(*block);
  EXPECT_EQ(heap.FindBlock(address), block);
  EXPECT_EQ(heap.RequestedBytes(*block), 3 * kQuantumBytes - 1);
  for (const DevicePtr other :
       {address + 1, address + kQuantumBytes, address + 3 * kQuantumBytes,
        address - 1, DevicePtr{0}, kBase + kSegment}) {
    EXPECT_FALSE(heap.FindBlock(other).has_value()) << other;
  }
  heap.Free(*block);
  EXPECT_FALSE(heap.FindBlock(address).has_value());
}

TEST(SegmentHeapTest, UsedIsWhatSegmentsWithBlocksHave) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  ASSERT_TRUE(heap.AddSegment(kBase + 10 * kSegment, 2 * kSegment));
  EXPECT_EQ(heap.used_bytes(), 0u);
  const auto block = heap.Allocate(1, 1);
  EXPECT_EQ(heap.used_bytes(), kSegment);
  EXPECT_EQ(heap.EmptySegment(), kBase + 10 * kSegment);
  heap.RemoveSegment(kBase + 10 * kSegment);
  EXPECT_FALSE(heap.EmptySegment().has_value());
  EXPECT_EQ(heap.held_bytes(), kSegment);
  heap.Free(*block);
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_EQ(heap.EmptySegment(), kBase);
}

TEST(SegmentHeapTest, HolesAreWhatIsFreeBesideBlocks) {
  SegmentHeap heap;
  ASSERT_TRUE(heap.AddSegment(kBase, kSegment));
  ASSERT_TRUE(heap.AddSegment(kBase + kSegment, kSegment));
  std::vector<uint64_t> holes;
  const auto look = [&] {
    holes.clear();
    heap.ForEachHole([&](uint64_t bytes) { holes.push_back(bytes); });
    return holes;
  };
  EXPECT_THAT(look(), ::testing::IsEmpty());
  std::vector<SegmentHeap::BlockNumber> blocks;
  for (const uint64_t quanta : {10u, 1u, 4u, 1u}) {
    blocks.push_back(*heap.Allocate(QuantaToBytes(quanta) - 1, 1));
  }
  heap.Free(blocks[0]);
  heap.Free(blocks[2]);
  EXPECT_THAT(look(),
              ::testing::UnorderedElementsAre(
                  10 * kQuantumBytes, 4 * kQuantumBytes, 48 * kQuantumBytes));
  std::map<SegmentHeap::BlockNumber, std::pair<uint64_t, uint64_t>> seen;
  heap.ForEachBlock(
      [&](SegmentHeap::BlockNumber block, uint64_t requested, uint64_t extent) {
        seen[block] = {requested, extent};
      });
  EXPECT_THAT(seen, ::testing::ElementsAre(
                        ::testing::Pair(blocks[1], ::testing::Pair(511, 512)),
                        ::testing::Pair(blocks[3], ::testing::Pair(511, 512))));
}

TEST(SegmentHeapTest, RandomWorkKeepsTheBooks) {
  std::mt19937_64 random(5);
  SegmentHeap heap;
  std::map<DevicePtr, uint64_t> blocks;  // by address, what was asked for
  std::vector<DevicePtr> segments;
  DevicePtr next = kBase + 256;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t dice = random() % 100;
    if (dice < 2 && segments.size() < 20) {
      const uint64_t bytes = 1024 + random() % (200 * kQuantumBytes);
      if (heap.AddSegment(next, bytes)) segments.push_back(next);
      next += (bytes + 255) & ~uint64_t{255};
    } else if (dice < 4) {
      const std::optional<DevicePtr> empty = heap.EmptySegment();
      if (empty.has_value()) {
        heap.RemoveSegment(*empty);
        segments.erase(std::find(segments.begin(), segments.end(), *empty));
      }
    } else if (dice < 55) {
      const uint64_t bytes = 1 + random() % (20 * kQuantumBytes);
      const uint64_t alignment = uint64_t{1} << random() % 5;
      const auto block = heap.Allocate(bytes, alignment);
      if (!block.has_value()) continue;
      const DevicePtr address = heap.AddressOf(*block);
      ASSERT_EQ(address % QuantaToBytes(alignment), 0u);
      const auto after = blocks.lower_bound(address);
      if (after != blocks.end()) {
        ASSERT_LE(address + bytes, after->first);
      }
      if (after != blocks.begin()) {
        const auto& [before, before_bytes] = *std::prev(after);
        ASSERT_LE(before + before_bytes, address);
      }
      blocks[address] = bytes;
    } else if (!blocks.empty()) {
      auto block = blocks.begin();
      std::advance(block, random() % blocks.size());
      const auto number = heap.FindBlock(block->first);
      ASSERT_TRUE(number.has_value());
      ASSERT_EQ(heap.RequestedBytes(*number), block->second);
      heap.Free(*number);
      blocks.erase(block);
    }
    if (step % 64 == 0) {
      FIRN_ASSERT_OK(heap.CheckInvariants());
    }
  }
  uint64_t requested_bytes = 0;
  for (const auto& [address, bytes] : blocks) requested_bytes += bytes;
  EXPECT_EQ(heap.requested_bytes(), requested_bytes);
  uint64_t visited = 0;
  heap.ForEachSegment([&](DevicePtr) { ++visited; });
  EXPECT_EQ(visited, segments.size());
}

}  // namespace
}  // namespace firn
