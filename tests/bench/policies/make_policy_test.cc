// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/make_policy.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
  std::map<uint64_t, uint64_t> blocks;  // bytes by address
  uint64_t live_bytes = 0;
  uint64_t failed = 0;
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto stream = static_cast<uint32_t>(random() % 2);
    if (blocks.empty() || random() % 100 < 55) {
      const uint64_t bytes = 1 + random() % (uint64_t{1} << (random() % 24));
      absl::StatusOr<uint64_t> address = policy->Allocate(bytes, stream);
      if (!address.ok()) {
        ASSERT_THAT(address.status(),
                    StatusIs(absl::StatusCode::kResourceExhausted));
        ++failed;
        continue;
      }
      const auto [block, is_new] = blocks.emplace(*address, bytes);
      ASSERT_TRUE(is_new);
      // The addresses of ideal, and of whole pages, are mere numbers.
      if (GetParam() != "ideal" && *address < (uint64_t{1} << 62)) {
        if (const auto next = std::next(block); next != blocks.end()) {
          ASSERT_LE(*address + bytes, next->first);
        }
        if (block != blocks.begin()) {
          const auto previous = std::prev(block);
          ASSERT_LE(previous->first + previous->second, *address);
        }
      }
      live_bytes += bytes;
    } else {
      auto block = blocks.begin();
      std::advance(block, random() % blocks.size());
      FIRN_ASSERT_OK(policy->Free(block->first, stream));
      live_bytes -= block->second;
      blocks.erase(block);
    }
    const PolicyUsage usage = policy->usage();
    ASSERT_GE(usage.used_bytes, live_bytes);
    ASSERT_GE(usage.held_bytes, usage.used_bytes);
    ASSERT_LE(usage.held_bytes, kCapacityGranules * kGranule);
    ASSERT_EQ(usage.used_bytes % kGranule, 0u);
  }
  EXPECT_GT(failed, 0u);
  for (const auto& [address, bytes] : blocks) {
    FIRN_ASSERT_OK(policy->Free(address, 0));
  }
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
