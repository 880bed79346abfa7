// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_flags.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "bench/policies/make_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Args = std::vector<absl::string_view>;

TEST(ReplayFlagsTest, DefaultsAreThoseOfTheHelp) {
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFlags flags,
                            ParseReplayFlags(Args{"--trace=x.csv"}));
  EXPECT_EQ(flags.trace, "x.csv");
  EXPECT_EQ(flags.policy.policy, "firn");
  EXPECT_EQ(flags.policy.compaction, CompactionMode::kOnDemand);
  EXPECT_EQ(flags.policy.granule_bytes, uint64_t{2} << 20);
  EXPECT_EQ(flags.policy.storage, CpuStorage::kGhost);
  EXPECT_EQ(flags.policy.cost, CostProfile::kA100);
  EXPECT_FALSE(flags.policy.verify);
  EXPECT_FALSE(flags.policy.idle_share.has_value());
  EXPECT_FALSE(flags.policy.tolerated_waste_percent.has_value());
  EXPECT_EQ(flags.full_passes, 0u);
  EXPECT_EQ(flags.capacity.kind, Capacity::Kind::kBytes);
  EXPECT_EQ(flags.capacity.bytes, uint64_t{80} << 30);
  EXPECT_FALSE(flags.json);
  EXPECT_EQ(flags.export_rmm, "");
}

TEST(ReplayFlagsTest, SetsEveryFlag) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      ReplayFlags flags,
      ParseReplayFlags(Args{
          "--json", "--verify", "--storage=real", "--compaction=background",
          "--placement=buddy", "--capacity=min", "--granule=4MiB",
          "--cost=fast", "--export_rmm=out.csv", "--idle_share=0.35",
          "--tolerated_waste=1.5", "--trace=gen:kv,seed=2,days=0.5"}));
  EXPECT_EQ(flags.trace, "gen:kv,seed=2,days=0.5");
  EXPECT_EQ(flags.policy.compaction, CompactionMode::kBackground);
  EXPECT_EQ(flags.policy.placement, PlacementKind::kBuddy);
  EXPECT_EQ(flags.policy.granule_bytes, uint64_t{4} << 20);
  EXPECT_EQ(flags.policy.storage, CpuStorage::kReal);
  EXPECT_EQ(flags.policy.cost, CostProfile::kFast);
  EXPECT_TRUE(flags.policy.verify);
  EXPECT_EQ(flags.policy.idle_share, 0.35);
  EXPECT_EQ(flags.policy.tolerated_waste_percent, 1.5);
  EXPECT_EQ(flags.capacity.kind, Capacity::Kind::kMinimum);
  EXPECT_EQ(flags.export_rmm, "out.csv");
  EXPECT_TRUE(flags.json);
  FIRN_ASSERT_OK_AND_ASSIGN(
      flags, ParseReplayFlags(Args{"--trace=x", "--compaction=background",
                                   "--full_passes=20"}));
  EXPECT_EQ(flags.full_passes, 20u);
  FIRN_ASSERT_OK_AND_ASSIGN(
      flags, ParseReplayFlags(Args{"--trace=x", "--policy=buddy",
                                   "--compaction=off", "--cost=none"}));
  EXPECT_EQ(flags.policy.policy, "buddy");
  EXPECT_EQ(flags.policy.compaction, CompactionMode::kOff);
  EXPECT_EQ(flags.policy.cost, CostProfile::kNone);
}

struct BadFlag {
  Args args;
  std::vector<std::string> named;  // in the message
};

TEST(ReplayFlagsTest, EveryErrorIsOneLineThatNamesFlagValueAndRemedy) {
  const std::vector<BadFlag> cases = {
      {{"--frobnicate=1"}, {"--frobnicate", "--help"}},
      {{"trace.csv"}, {"trace.csv", "--name=value"}},
      {{"--trace="}, {"--trace", "file"}},
      {{"--trace"}, {"--trace", "--trace=VALUE"}},
      {{}, {"--trace is missing"}},
      {{"--trace=x", "--usage_series="}, {"--usage_series", "file"}},
      {{"--trace=x", "--usage_series=y", "--capacity=min"},
       {"--usage_series", "--capacity=min", "Nx"}},
      {{"--trace=x", "--policy=worst_fit"},
       {"--policy", "worst_fit", absl::StrJoin(PolicyNames(), ", ")}},
      {{"--trace=x", "--compaction=on"},
       {"--compaction", "'on'", "on_demand", "background"}},
      {{"--trace=x", "--compaction=controller", "--policy=slab"},
       {"--compaction", "'controller'", "slab", "only firn"}},
      {{"--trace=x", "--compaction=controller", "--idle_share=0.5"},
       {"--idle_share", "'0.5'", "--compaction=background"}},
      {{"--trace=x", "--placement=worst_fit"},
       {"--placement", "worst_fit",
        "firn, free_list, best_fit, size_hash, slab, buddy, tiered"}},
      {{"--trace=x", "--placement=slab", "--policy=buddy"},
       {"--placement", "slab", "buddy", "only firn"}},
      {{"--trace=x", "--capacity=0"}, {"--capacity", "'0'", "more than 0"}},
      {{"--trace=x", "--capacity=0GiB"}, {"--capacity", "'0GiB'"}},
      {{"--trace=x", "--capacity=lots"}, {"--capacity", "lots", "1.02x"}},
      {{"--trace=x", "--capacity=1MiB"}, {"--capacity", "1MiB", "2MiB"}},
      {{"--trace=x", "--granule=3MiB"}, {"--granule", "3MiB", "2MiB"}},
      {{"--trace=x", "--granule=6MiB"}, {"--granule", "6MiB", "2MiB"}},
      {{"--trace=x", "--granule=1MiB"}, {"--granule", "1MiB", "2MiB"}},
      {{"--trace=x", "--granule=0"}, {"--granule", "'0'", "2MiB"}},
      {{"--trace=x", "--granule=2GiB"}, {"--granule", "2GiB", "64MiB"}},
      {{"--trace=x", "--storage=tape"}, {"--storage", "tape", "ghost, real"}},
      {{"--trace=x", "--storage=real", "--policy=paged"},
       {"--storage", "real", "paged"}},
      {{"--trace=x", "--cost=h100"}, {"--cost", "h100", "a100, fast, none"}},
      {{"--trace=x", "--verify"}, {"--verify", "ghost", "--storage=real"}},
      {{"--trace=x", "--verify=yes"}, {"--verify", "no value"}},
      {{"--trace=x", "--export_rmm="}, {"--export_rmm", "file"}},
      {{"--trace=x", "--export_snapshot="}, {"--export_snapshot", "file"}},
      {{"--trace=x", "--export_snapshot=y", "--policy=buddy"},
       {"--export_snapshot", "buddy", "only firn"}},
      {{"--trace=x", "--export_snapshot=y", "--capacity=min"},
       {"--export_snapshot", "--capacity=min", "Nx"}},
      {{"--trace=x", "--compaction=background", "--idle_share=1.5"},
       {"--idle_share", "'1.5'", "from 0 to 1"}},
      {{"--trace=x", "--compaction=background", "--idle_share=-0.1"},
       {"--idle_share", "'-0.1'", "from 0 to 1"}},
      {{"--trace=x", "--compaction=background", "--idle_share=nan"},
       {"--idle_share", "'nan'", "from 0 to 1"}},
      {{"--trace=x", "--compaction=background", "--idle_share=5%"},
       {"--idle_share", "'5%'", "from 0 to 1"}},
      {{"--trace=x", "--compaction=background", "--idle_share="},
       {"--idle_share", "''", "from 0 to 1"}},
      {{"--trace=x", "--idle_share=0.05"},
       {"--idle_share", "0.05", "--compaction=background"}},
      {{"--trace=x", "--compaction=off", "--idle_share=0.05"},
       {"--idle_share", "0.05", "--compaction=background"}},
      {{"--trace=x", "--policy=paged_migrating", "--compaction=background",
        "--idle_share=0.05"},
       {"--idle_share", "0.05", "only firn"}},
      {{"--trace=x", "--compaction=background", "--tolerated_waste=100.5"},
       {"--tolerated_waste", "'100.5'", "from 0 to 100"}},
      {{"--trace=x", "--compaction=background", "--tolerated_waste=-1"},
       {"--tolerated_waste", "'-1'", "from 0 to 100"}},
      {{"--trace=x", "--compaction=background", "--tolerated_waste=3%"},
       {"--tolerated_waste", "'3%'", "from 0 to 100"}},
      {{"--trace=x", "--compaction=background", "--tolerated_waste=nan"},
       {"--tolerated_waste", "'nan'", "from 0 to 100"}},
      {{"--trace=x", "--compaction=background", "--tolerated_waste="},
       {"--tolerated_waste", "''", "from 0 to 100"}},
      {{"--trace=x", "--tolerated_waste=2"},
       {"--tolerated_waste", "'2'", "--compaction=background"}},
      {{"--trace=x", "--compaction=background", "--policy=buddy",
        "--tolerated_waste=2"},
       {"--tolerated_waste", "'2'", "only firn and paged_migrating"}},
      {{"--trace=x", "--full_passes=1001"},
       {"--full_passes", "'1001'", "from 0 to 1000"}},
      {{"--trace=x", "--full_passes=-1"},
       {"--full_passes", "'-1'", "from 0 to 1000"}},
      {{"--trace=x", "--full_passes=2.5"},
       {"--full_passes", "'2.5'", "a whole number"}},
      {{"--trace=x", "--full_passes="},
       {"--full_passes", "''", "from 0 to 1000"}},
      {{"--trace=x", "--compaction=off", "--full_passes=20"},
       {"--full_passes", "'20'",
        "--compaction=on_demand, background or controller"}},
      {{"--trace=x", "--compaction=background", "--policy=paged_migrating",
        "--full_passes=20"},
       {"--full_passes", "'20'", "only firn"}},
      {{"--trace=x", "--compaction=background", "--idle_share=0.5",
        "--full_passes=20"},
       {"--full_passes", "'20'", "without --idle_share"}},
      {{"--trace=x", "--json", "--json"}, {"--json", "twice"}},
  };
  for (const BadFlag& bad : cases) {
    const absl::Status status = ParseReplayFlags(bad.args).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 Not(HasSubstr("\n"))));
    for (const std::string& named : bad.named) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(named));
    }
  }
}

TEST(ReplayFlagsTest, HelpNeedsNothingElseAndNamesEveryFlag) {
  FIRN_ASSERT_OK_AND_ASSIGN(const ReplayFlags flags,
                            ParseReplayFlags(Args{"--help"}));
  EXPECT_TRUE(flags.help);
  for (const absl::string_view flag :
       {"--trace", "--policy", "--compaction", "--placement", "--capacity",
        "--granule", "--storage", "--cost", "--verify", "--export_rmm",
        "--export_snapshot", "--idle_share", "--tolerated_waste",
        "--full_passes", "--usage_series", "--json"}) {
    EXPECT_THAT(ReplayHelp(), HasSubstr(std::string(flag)));
  }
}

}  // namespace
}  // namespace firn::bench
