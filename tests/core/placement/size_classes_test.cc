// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/size_classes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;

// Every class of a granule of 2 MiB, in quanta.
std::vector<uint32_t> SlotsOf(const SizeClasses& classes) {
  std::vector<uint32_t> slots;
  for (uint32_t i = 0; i < classes.count(); ++i) {
    slots.push_back(classes.slot_quanta(i));
  }
  return slots;
}

// What holds for granules of any size; the parameter is quanta a granule.
class SizeClassesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t quanta() const { return GetParam(); }
  SizeClasses classes_{GetParam()};
};

TEST_P(SizeClassesTest, TheLimitIsAnEighthOfAGranule) {
  EXPECT_EQ(classes_.limit_quanta(), quanta() / 8);
}

TEST_P(SizeClassesTest, SlotsGrowAndStayBelowTheLimit) {
  const std::vector<uint32_t> slots = SlotsOf(classes_);
  ASSERT_FALSE(slots.empty());
  EXPECT_EQ(slots.front(), 1u);
  EXPECT_TRUE(std::is_sorted(slots.begin(), slots.end()));
  EXPECT_EQ(std::adjacent_find(slots.begin(), slots.end()), slots.end());
  EXPECT_LT(slots.back(), classes_.limit_quanta());
}

TEST_P(SizeClassesTest, AClassHasTheSmallestSlotThatHoldsAndAligns) {
  const std::vector<uint32_t> slots = SlotsOf(classes_);
  for (uint32_t alignment = 1; alignment < classes_.limit_quanta();
       alignment *= 2) {
    // The smallest slot, from the largest request down.
    uint32_t expected = classes_.count();
    for (uint32_t request = classes_.limit_quanta() - 1; request >= 1;
         --request) {
      for (uint32_t i = expected; i-- > 0 && slots[i] >= request;) {
        if (slots[i] % alignment == 0) expected = i;
      }
      ASSERT_EQ(classes_.ClassOf(request, alignment), expected)
          << request << " aligned to " << alignment;
    }
  }
}

TEST_P(SizeClassesTest, AtMostAnEighthOfASlotIsLost) {
  for (uint32_t request = 1; request < classes_.limit_quanta(); ++request) {
    const uint32_t size_class = classes_.ClassOf(request, 1);
    if (size_class == classes_.count()) continue;
    const uint32_t slot = classes_.slot_quanta(size_class);
    ASSERT_GE(slot, request);
    ASSERT_LE((slot - request) * 8, slot) << request;
    if (request <= 16) {
      ASSERT_EQ(slot, request);
    }
  }
}

TEST_P(SizeClassesTest, RequestsWithoutASlotAreNearlyAtTheLimit) {
  for (uint32_t request = 1; request < classes_.limit_quanta(); ++request) {
    if (classes_.ClassOf(request, 1) < classes_.count()) continue;
    ASSERT_GT(request * 9, classes_.limit_quanta() * 8) << request;
  }
}

TEST_P(SizeClassesTest, WindowsHoldAsManySlotsAsTheirShareOfTheGranule) {
  const uint32_t small_quanta = quanta() / 32;
  const uint32_t grown_quanta = quanta() / 4;
  for (uint32_t i = 0; i < classes_.count(); ++i) {
    const uint32_t slot = classes_.slot_quanta(i);
    const uint32_t small_slots = classes_.slots_per_window(i, false);
    const uint32_t grown_slots = classes_.slots_per_window(i, true);
    ASSERT_LE(grown_slots * slot, quanta());
    if (slot > small_quanta) {
      ASSERT_EQ(small_slots, 4u);
      ASSERT_GE(grown_slots, 4u);
      ASSERT_LE(grown_slots, 8u);
      // No other number leaves a smaller part of the last quarter free.
      const auto lost = [&](uint32_t slots) {
        const uint32_t quarter = quanta() / 4;
        const uint32_t window = slots * slot;
        const uint32_t quarters = (window + quarter - 1) / quarter;
        return static_cast<double>(quarters * quarter - window) / window;
      };
      for (uint32_t slots = 4; slots <= 8; ++slots) {
        ASSERT_LE(lost(grown_slots), lost(slots)) << slot;
      }
      continue;
    }
    ASSERT_EQ(small_slots, small_quanta / slot);
    ASSERT_EQ(grown_slots, grown_quanta / slot);
  }
}

TEST_P(SizeClassesTest, WindowsAreAlignedSoThatEverySlotIs) {
  for (uint32_t i = 0; i < classes_.count(); ++i) {
    const uint32_t slot = classes_.slot_quanta(i);
    const uint32_t alignment = classes_.alignment_quanta(i);
    ASSERT_EQ(alignment & (alignment - 1), 0u);
    ASSERT_EQ(slot % alignment, 0u);
    ASSERT_LE(alignment, quanta() / 32);
    // The largest such: no larger one divides the slot and is allowed.
    ASSERT_TRUE(slot % (2 * alignment) != 0 || 2 * alignment > quanta() / 32)
        << slot;
  }
}

// From 64 KiB to 64 MiB.
INSTANTIATE_TEST_SUITE_P(QuantaPerGranule, SizeClassesTest,
                         ::testing::Values(128u, 256u, 4096u, 16384u, 131072u));

TEST(SizeClassesOf2MiBTest, SlotsAreExactThenEightAnOctave) {
  const std::vector<uint32_t> slots = SlotsOf(SizeClasses(4096));
  const std::vector<uint32_t> small(slots.begin(), slots.begin() + 33);
  EXPECT_THAT(small, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40,
                                 44, 48, 52, 56, 60, 64, 72));
  EXPECT_EQ(slots.back(), 480u);
}

TEST(SizeClassesOf2MiBTest, WindowsAre64KiBAndGrowTo512KiB) {
  const SizeClasses classes(4096);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(1, 1), false), 128u);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(1, 1), true), 1024u);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(3, 1), false), 42u);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(128, 1), false), 1u);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(128, 1), true), 8u);
  EXPECT_EQ(classes.slots_per_window(classes.ClassOf(129, 1), false), 4u);
}

TEST(SizeClassesOf2MiBTest, GrownMiddleWindowsFillQuarters) {
  const SizeClasses classes(4096);
  const auto grown_slots = [&classes](uint32_t quanta) {
    return classes.slots_per_window(classes.ClassOf(quanta, 1), true);
  };
  EXPECT_EQ(grown_slots(144), 7u);  // 504 of 512 KiB
  EXPECT_EQ(grown_slots(256), 4u);  // 512 KiB
  EXPECT_EQ(grown_slots(384), 8u);  // 1.5 MiB
  EXPECT_EQ(grown_slots(480), 4u);  // 960 KiB of 1 MiB
}

TEST(SizeClassesOf2MiBTest, AlignedRequestsSkipSlotsThatDoNotAlign) {
  const SizeClasses classes(4096);
  EXPECT_EQ(classes.slot_quanta(classes.ClassOf(3, 4)), 4u);
  EXPECT_EQ(classes.slot_quanta(classes.ClassOf(33, 16)), 48u);
  EXPECT_EQ(classes.slot_quanta(classes.ClassOf(1, 256)), 256u);
  EXPECT_EQ(classes.ClassOf(257, 256), classes.count());
  EXPECT_EQ(classes.ClassOf(481, 1), classes.count());
}

}  // namespace
}  // namespace firn::testing
