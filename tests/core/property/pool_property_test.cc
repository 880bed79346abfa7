// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whatever is done to a pool, in whatever order: its books are right, contents
// stay, and nothing is left in the end.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/core/property/sequence.h"
#include "tests/support/sanitizers.h"

namespace firn::testing::property {
namespace {

constexpr const char* kStepsVariable = "FIRN_PROPERTY_STEPS";
constexpr uint64_t kMostSteps = uint64_t{10'000'000'000};

// Mapping tables are compared with the driver's own after so many operations:
// that takes longer than all the rest.
constexpr uint64_t kCheckEvery = 16;

// Steps for each case; FIRN_PROPERTY_STEPS decides by hand. 0: it is no number
// that makes sense, and the test has failed.
uint64_t Steps(uint64_t by_default) {
  const char* const text = std::getenv(kStepsVariable);
  if (text == nullptr) return by_default;
  uint64_t steps = 0;
  if (absl::SimpleAtoi(text, &steps) && steps > 0 && steps <= kMostSteps) {
    return steps;
  }
  ADD_FAILURE() << kStepsVariable << ": \"" << text
                << "\"; must be a number from 1 to " << kMostSteps;
  return 0;
}

using Extreme = std::tuple<CpuStorage, CpuSync, uint64_t>;

std::string ExtremeName(const ::testing::TestParamInfo<Extreme>& info) {
  const auto [storage, sync, seed] = info.param;
  return absl::StrCat(storage == CpuStorage::kReal ? "Real" : "Ghost",
                      sync == CpuSync::kLazy ? "Lazy" : "Draining", seed);
}

class PoolPropertyTest : public ::testing::TestWithParam<Extreme> {};

TEST_P(PoolPropertyTest, HoldsAfterEveryOperation) {
  const auto [storage, sync, seed] = GetParam();
  const uint64_t steps =
      Steps(kUnderAddressSanitizer || kUnderThreadSanitizer ? 1000 : 3000);
  StepCounts counts;
  const std::string failure =
      RunDrawn(storage, sync, seed, steps, kCheckEvery, &counts);
  EXPECT_TRUE(failure.empty()) << failure;
}

INSTANTIATE_TEST_SUITE_P(
    Extremes, PoolPropertyTest,
    ::testing::Combine(::testing::Values(CpuStorage::kReal, CpuStorage::kGhost),
                       ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                       ::testing::Range<uint64_t>(1, 6)),
    ExtremeName);

// What the drawn sequences are for does happen in them.
TEST(PoolPropertyReachTest, SequencesGetEverywhere) {
  StepCounts counts;
  const std::pair<CpuStorage, uint64_t> parts[] = {{CpuStorage::kReal, 3000},
                                                   {CpuStorage::kGhost, 24000}};
  for (const auto& [storage, steps] : parts) {
    const std::string failure = RunDrawn(storage, CpuSync::kLazy, /*seed=*/100,
                                         steps, kCheckEvery, &counts);
    ASSERT_TRUE(failure.empty()) << failure;
  }
  EXPECT_GE(counts.operations, 27000u);
  EXPECT_GT(counts.allocations, counts.operations / 8);
  EXPECT_GT(counts.failed_allocations, counts.operations / 100);
  EXPECT_LT(counts.failed_allocations, counts.operations / 2);
  EXPECT_GT(counts.refused_frees, counts.operations / 200);
  EXPECT_GT(counts.passes, 50u);
  EXPECT_GT(counts.granules_moved, 50u);
  EXPECT_GT(counts.granules_spilled, 20u);
  EXPECT_GT(counts.granules_returned, 3u);
  EXPECT_GT(counts.handles_released, 50u);
  EXPECT_GT(counts.scope_tokens, 50u);
  EXPECT_GT(counts.uses_recorded, counts.operations / 100);
  EXPECT_GT(counts.pinned_frees, 8u);
  EXPECT_GT(counts.tagged_allocations, counts.operations / 70);
  EXPECT_GT(counts.domain_allocations, counts.operations / 40);
  EXPECT_GT(counts.class_allocations, counts.operations / 100);
  EXPECT_GT(counts.exports, 5u);
  EXPECT_GT(counts.limited, counts.operations / 100);
  EXPECT_GT(counts.graph_pool_bytes, counts.operations * 1024);
  EXPECT_GT(counts.graph_reuses, 8u);
  EXPECT_GT(counts.moves_told, 8u);
  EXPECT_GT(counts.vetoes, 3u);
  EXPECT_GT(counts.meddled_passes, 1u);
  EXPECT_GT(counts.idle_marks, counts.operations / 10);
  EXPECT_GT(counts.idle_passes, 8u);
  EXPECT_GT(counts.gated_idle_passes, 1u);
  EXPECT_GT(counts.idle_moves, 20u);
  EXPECT_GT(counts.idle_rescued, 1u);
  EXPECT_GT(counts.faults, 20u);
  EXPECT_GT(counts.pending_seen, counts.operations / 100);
  EXPECT_GT(counts.exhausted_seen, counts.operations / 100);
}

}  // namespace
}  // namespace firn::testing::property
