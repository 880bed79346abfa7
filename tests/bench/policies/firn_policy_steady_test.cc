// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A training step that repeats has nothing left to ask of the driver.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/policies/firn_policy.h"
#include "bench/traces/trace.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

// The driver calls of so many steps, those that create and release among them.
void CountDriverCalls(int steps, uint64_t* calls) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<TraceSource> trace,
      OpenTrace(absl::StrCat("gen:steady,steps=", steps)));
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                            FirnPolicy::Create(Options(16384 * kMiB)));
  std::vector<uint64_t> addresses;
  TraceEvent event;
  while (true) {
    FIRN_ASSERT_OK_AND_ASSIGN(const bool more, trace->Next(&event));
    if (!more) break;
    if (event.kind == TraceEventKind::kAllocate) {
      if (event.id >= addresses.size()) addresses.resize(event.id + 1);
      FIRN_ASSERT_OK_AND_ASSIGN(addresses[event.id],
                                policy->Allocate(event.bytes, event.stream));
    } else if (event.kind == TraceEventKind::kFree) {
      FIRN_ASSERT_OK(policy->Free(addresses[event.id], event.stream));
    }
  }
  const DriverCallCounts counts = policy->Report().driver_calls;
  *calls = counts.create + counts.map + counts.unmap + counts.set_access +
           counts.release;
}

TEST(FirnPolicySteadyTest, StepsAfterTheSecondMakeNoDriverCall) {
  uint64_t of_one_step = 0;
  uint64_t of_two_steps = 0;
  uint64_t of_twelve_steps = 0;
  CountDriverCalls(1, &of_one_step);
  CountDriverCalls(2, &of_two_steps);
  CountDriverCalls(12, &of_twelve_steps);
  EXPECT_GT(of_one_step, 0u);
  EXPECT_EQ(of_twelve_steps, of_two_steps);
}

}  // namespace
}  // namespace firn::bench
