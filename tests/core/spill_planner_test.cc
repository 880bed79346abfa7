// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/spill_planner.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SpillCandidate Candidate(uint32_t granule, uint64_t live_quanta) {
  SpillCandidate candidate;
  candidate.granule = GranuleId(granule);
  candidate.live_quanta = live_quanta;
  return candidate;
}

SpillNeed Need(uint32_t missing, uint32_t least, uint32_t host) {
  SpillNeed need;
  need.missing_granules = missing;
  need.least_granules = least;
  need.host_granules = host;
  return need;
}

std::vector<SpillCandidate> Four() {
  return {Candidate(3, 9), Candidate(1, 5), Candidate(7, 2), Candidate(0, 5)};
}

TEST(SpillPlannerTest, WhatHasTheFewestLiveBytesGoesFirst) {
  EXPECT_THAT(PlanSpill(Four(), Need(1, 1, 8)).granules,
              ElementsAre(GranuleId(7)));
  EXPECT_THAT(PlanSpill(Four(), Need(3, 1, 8)).granules,
              ElementsAre(GranuleId(7), GranuleId(0), GranuleId(1)));
}

TEST(SpillPlannerTest, LessThanIsMissingGoesWhereItMayStillDo) {
  EXPECT_EQ(PlanSpill(Four(), Need(6, 4, 8)).granules.size(), 4u);
  EXPECT_THAT(PlanSpill(Four(), Need(4, 2, 2)).granules,
              ElementsAre(GranuleId(7), GranuleId(0)));
}

TEST(SpillPlannerTest, NothingGoesInVain) {
  SpillPlan plan = PlanSpill({}, Need(1, 1, 8));
  EXPECT_THAT(plan.granules, IsEmpty());
  EXPECT_THAT(plan.why, HasSubstr("no granule holds nothing but"));
  plan = PlanSpill(Four(), Need(6, 5, 8));
  EXPECT_THAT(plan.granules, IsEmpty());
  EXPECT_THAT(plan.why, HasSubstr("less may be spilled than it takes"));
  plan = PlanSpill(Four(), Need(4, 3, 2));
  EXPECT_THAT(plan.granules, IsEmpty());
  EXPECT_THAT(plan.why, HasSubstr("host_spill_limit_bytes leaves too little"));
}

}  // namespace
}  // namespace firn
