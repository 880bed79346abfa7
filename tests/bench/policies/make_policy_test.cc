// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/make_policy.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/policies/policy_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = uint64_t{2} << 20;

TEST(MakePolicyTest, EveryNameMakesThePolicyOfThatName) {
  for (const absl::string_view name : PolicyNames()) {
    PolicyOptions options;
    options.policy = std::string(name);
    FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Policy> policy,
                              MakePolicy(options));
    EXPECT_EQ(policy->name(), name);
  }
}

TEST(MakePolicyTest, AnUnknownNameIsAnsweredWithThoseThereAre) {
  PolicyOptions options;
  options.policy = "worst_fit";
  EXPECT_THAT(
      MakePolicy(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr("worst_fit"), HasSubstr("free_list"),
                                HasSubstr("expandable"))));
}

TEST(MakePolicyTest, BadSizesAreRefused) {
  PolicyOptions options;
  options.policy = "ideal";
  options.capacity_bytes = 0;
  EXPECT_THAT(MakePolicy(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("capacity")));
  options.capacity_bytes = kGranule + 512;
  EXPECT_THAT(MakePolicy(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("capacity")));
  options.granule_bytes = 3 << 20;
  EXPECT_THAT(MakePolicy(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("granule")));
}

TEST(MakePolicyTest, ContentsOfGhostStorageCannotBeVerified) {
  PolicyOptions options;
  options.verify = true;
  EXPECT_THAT(MakePolicy(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// What every policy has in common.
class AnyPolicyTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Policy> Make(uint64_t capacity_granules) {
    PolicyOptions options;
    options.policy = GetParam();
    options.capacity_bytes = capacity_granules * kGranule;
    absl::StatusOr<std::unique_ptr<Policy>> policy = MakePolicy(options);
    EXPECT_THAT(policy, testing::IsOk());
    return policy.ok() ? *std::move(policy) : nullptr;
  }

  bool IsArena() const {
    return GetParam() == "free_list" || GetParam() == "best_fit" ||
           GetParam() == "size_hash" || GetParam() == "slab" ||
           GetParam() == "buddy";
  }
};

TEST_P(AnyPolicyTest, KeepsLiveBlocksApartAndItsBooksStraight) {
  constexpr uint64_t kCapacityGranules = 64;
  const std::unique_ptr<Policy> policy = Make(kCapacityGranules);
  ASSERT_NE(policy, nullptr);
  RandomBlocks run;
  run.seed = 3;
  run.allocate_percent = 55;
  run.most_bytes_log2 = 23;
  run.capacity_bytes = kCapacityGranules * kGranule;
  // The addresses of ideal, and of whole pages, are mere numbers.
  run.addresses_end = GetParam() == "ideal" ? 0 : uint64_t{1} << 62;
  ASSERT_NO_FATAL_FAILURE(RunRandomBlocks(run, policy.get()));
  if (!IsArena()) {
    EXPECT_EQ(policy->usage().used_bytes, 0u);
  }
  const DriverCallCounts calls = policy->Report().driver_calls;
  EXPECT_EQ((calls.create - calls.release) * kGranule,
            policy->usage().held_bytes);
  // Nothing that was done stands in the way of a block of all there is.
  FIRN_EXPECT_OK(policy->Allocate(kCapacityGranules * kGranule, 0));
}

TEST_P(AnyPolicyTest, ServesABlockAsLargeAsTheCapacityButNoLarger) {
  const std::unique_ptr<Policy> policy = Make(16);
  ASSERT_NE(policy, nullptr);
  for (const uint64_t bytes :
       {16 * kGranule + 1, uint64_t{1} << 50, ~uint64_t{0}}) {
    EXPECT_THAT(policy->Allocate(bytes, 0),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t block,
                            policy->Allocate(16 * kGranule, 0));
  EXPECT_EQ(policy->usage().held_bytes, 16 * kGranule);
  FIRN_ASSERT_OK(policy->Free(block, 0));
}

INSTANTIATE_TEST_SUITE_P(
    All, AnyPolicyTest,
    ::testing::Values("firn", "free_list", "best_fit", "size_hash", "slab",
                      "buddy", "tiered", "caching", "expandable", "paged",
                      "paged_migrating", "stitching", "ideal"),
    [](const ::testing::TestParamInfo<std::string>& param) {
      return param.param;
    });

}  // namespace
}  // namespace firn::bench
