// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/placement/placement_model.h"

#include <algorithm>
#include <cstddef>

#include "firn/core/placement/size_rounding.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"

namespace firn::testing {

PlacementModel::PlacementModel(uint64_t granule_bytes, uint64_t granules,
                               Placement* placement)
    : granule_bytes_(granule_bytes),
      granule_quanta_(granule_bytes / kQuantumBytes),
      placement_(placement),
      is_own_(granules, false),
      wanted_bytes_(granules, 0),
      is_taken_(granules * granule_quanta_, false) {}

bool PlacementModel::HoldsABlock(uint64_t granule) const {
  const auto first =
      is_taken_.begin() + static_cast<ptrdiff_t>(granule * granule_quanta_);
  const auto end = first + static_cast<ptrdiff_t>(granule_quanta_);
  return std::find(first, end, true) != end;
}

uint64_t PlacementModel::GivableFrom(uint64_t granule, uint64_t most) const {
  uint64_t count = 0;
  while (count < most && granule + count < granules() &&
         !is_own_[granule + count] && !HoldsABlock(granule + count)) {
    ++count;
  }
  return count;
}

uint64_t PlacementModel::OwnFrom(uint64_t granule, uint64_t most) const {
  uint64_t count = 0;
  while (count < most && granule + count < granules() &&
         is_own_[granule + count]) {
    ++count;
  }
  return count;
}

void PlacementModel::Give(uint64_t granule, uint64_t count,
                          uint64_t wanted_bytes) {
  placement_->Give({granule * granule_bytes_, count * granule_bytes_},
                   wanted_bytes);
  std::fill_n(is_own_.begin() + static_cast<ptrdiff_t>(granule), count, true);
  std::fill_n(wanted_bytes_.begin() + static_cast<ptrdiff_t>(granule), count,
              wanted_bytes);
}

void PlacementModel::Withdraw(uint64_t granule, uint64_t count) {
  placement_->Withdraw({granule * granule_bytes_, count * granule_bytes_});
  std::fill_n(is_own_.begin() + static_cast<ptrdiff_t>(granule), count, false);
}

void PlacementModel::CheckExtent(FreeRange extent, uint64_t bytes,
                                 uint64_t alignment_bytes) {
  ASSERT_GE(extent.bytes, bytes);
  ASSERT_EQ(extent.start % alignment_bytes, 0u);
  ASSERT_EQ(extent.start % kQuantumBytes, 0u);
  ASSERT_EQ(extent.bytes % kQuantumBytes, 0u);
  ASSERT_LE(extent.end(), granules() * granule_bytes_);
  for (uint64_t quantum = extent.start / kQuantumBytes;
       quantum < extent.end() / kQuantumBytes; ++quantum) {
    ASSERT_TRUE(is_own_[quantum / granule_quanta_]) << quantum;
    ASSERT_FALSE(is_taken_[quantum]) << quantum;
    is_taken_[quantum] = true;
  }
}

bool PlacementModel::Take(uint64_t bytes, uint64_t alignment_bytes) {
  const std::optional<FreeRange> extent =
      placement_->Take(bytes, alignment_bytes);
  if (!extent.has_value()) return false;
  CheckExtent(*extent, bytes, alignment_bytes);
  blocks_.push_back(*extent);
  return true;
}

bool PlacementModel::GrowAndTake(uint64_t bytes, uint64_t alignment_bytes) {
  const Placement::Growth growth =
      placement_->GrowthFor(bytes, alignment_bytes);
  EXPECT_GE(growth.bytes, granule_bytes_);
  EXPECT_EQ(growth.bytes % granule_bytes_, 0u);
  EXPECT_GE(growth.alignment_bytes, granule_bytes_);
  const uint64_t count = growth.bytes / granule_bytes_;
  const uint64_t step = growth.alignment_bytes / granule_bytes_;
  for (uint64_t granule = 0; granule < granules(); granule += step) {
    if (GivableFrom(granule, count) < count) continue;
    Give(granule, count, bytes);
    EXPECT_TRUE(Take(bytes, alignment_bytes))
        << bytes << " bytes at a multiple of " << alignment_bytes << " after "
        << count << " granules were given at " << granule;
    return true;
  }
  return false;
}

void PlacementModel::Free(uint64_t block) {
  const FreeRange extent = blocks_[block];
  blocks_[block] = blocks_.back();
  blocks_.pop_back();
  std::fill_n(
      is_taken_.begin() + static_cast<ptrdiff_t>(extent.start / kQuantumBytes),
      extent.bytes / kQuantumBytes, false);
  placement_->Free(extent);
}

void PlacementModel::FreeAll() {
  while (!blocks_.empty()) Free(blocks_.size() - 1);
}

uint64_t PlacementModel::OwnGranulesFor(uint64_t least, uint64_t most) const {
  uint64_t count = 0;
  for (uint64_t granule = 0; granule < granules(); ++granule) {
    if (is_own_[granule] && wanted_bytes_[granule] >= least &&
        wanted_bytes_[granule] <= most) {
      ++count;
    }
  }
  return count;
}

uint64_t PlacementModel::LongestFreeBytes(uint64_t alignment_bytes) const {
  uint64_t longest = 0;
  uint64_t start = 0;
  for (uint64_t quantum = 0; quantum <= is_taken_.size(); ++quantum) {
    if (quantum < is_taken_.size() && IsFree(quantum)) continue;
    const uint64_t aligned = RoundUp(start * kQuantumBytes, alignment_bytes);
    const uint64_t end = quantum * kQuantumBytes;
    if (aligned < end) longest = std::max(longest, end - aligned);
    start = quantum + 1;
  }
  return longest;
}

uint64_t PlacementModel::Drain(uint64_t bytes) {
  const uint64_t blocks_before = blocks_.size();
  while (Take(bytes, kQuantumBytes)) {
  }
  uint64_t drained_bytes = 0;
  for (uint64_t block = blocks_before; block < blocks_.size(); ++block) {
    drained_bytes += blocks_[block].bytes;
  }
  return drained_bytes;
}

}  // namespace firn::testing
