// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/guarded_region.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace firn::cpu_testing {
namespace {

int64_t CountGaps(const std::vector<bool>& accessible) {
  int64_t gaps = 0;
  for (size_t i = 0; i < accessible.size(); ++i) {
    if (!accessible[i] && (i == 0 || accessible[i - 1])) ++gaps;
  }
  return gaps;
}

TEST(GuardedRegionTest, GapsAreCountedRightForAnyChange) {
  std::mt19937 random(2);
  constexpr uint64_t kGranules = 12;
  cpu::GuardedRegion region(0, kGranules * 4096 - 1, 4096, nullptr);
  ASSERT_EQ(region.granules(), kGranules);
  std::vector<bool> accessible(kGranules, false);
  int64_t gaps = 1;
  for (int step = 0; step < 5000; ++step) {
    const uint64_t first = random() % kGranules;
    const uint64_t count = 1 + random() % (kGranules - first);
    const bool give = random() % 2 == 0;
    gaps += region.GapsAdded(first, count, give);
    region.SetAccess(first, count,
                     give ? AccessFlags::kReadWrite : AccessFlags::kNone);
    for (uint64_t i = first; i < first + count; ++i) accessible[i] = give;
    ASSERT_EQ(gaps, CountGaps(accessible));
  }
}

// A sanitizer ends the process where calloc would say that it is out of memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(GuardedRegionTest, ARegionThatHasNoRoomForItsNotesSaysSo) {
  const cpu::GuardedRegion small(0, uint64_t{1} << 20, 4096, nullptr);
  EXPECT_TRUE(small.valid());
  const cpu::GuardedRegion huge(0, ~uint64_t{0}, 1, nullptr);
  EXPECT_FALSE(huge.valid());
}
#endif

}  // namespace
}  // namespace firn::cpu_testing
