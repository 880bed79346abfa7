// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// That the accounts of the property test would notice: what is theirs to
// notice, done to them by hand.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/property/graph_account.h"
#include "tests/core/property/idle_account.h"
#include "tests/core/property/limit_account.h"
#include "tests/core/property/operation.h"
#include "tests/core/property/pattern_owners.h"
#include "tests/core/property/state.h"
#include "tests/core/property/use_account.h"

namespace firn::testing::property {
namespace {

using ::testing::HasSubstr;

// --- PatternOwners ---

constexpr uint64_t kMostBytes = 1 << 20;

class PatternOwnersTest : public ::testing::Test {
 protected:
  PatternOwnersTest() : bytes_(8192), owners_(kMostBytes) {
    owners_.Set(11, 1);
    owners_.Set(12, 2);
    owners_.Set(13, PatternOwners::kNobody);
  }

  // A block of `owner`'s that starts where another one's pattern goes on.
  std::string LookAt(uint64_t seed, uint32_t owner) {
    FilledBlock former;
    former.ptr = bytes_.data();
    former.bytes = bytes_.size();
    former.seed = seed;
    Fill(former);
    FilledBlock fresh;
    fresh.ptr = bytes_.data() + 2560;
    fresh.bytes = 1000;
    owners_.CheckFresh(fresh, owner, /*must_be_zero=*/false);
    return owners_.text();
  }

  std::vector<char> bytes_;
  PatternOwners owners_;
};

TEST_F(PatternOwnersTest, ItsOwnAndUnknownContentsAreAllowed) {
  EXPECT_EQ(LookAt(11, 1), "");
  EXPECT_EQ(LookAt(12, 2), "");
  EXPECT_EQ(LookAt(9000, 1), "");
}

TEST_F(PatternOwnersTest, ContentsOfAnotherDomainAreNoticed) {
  EXPECT_THAT(LookAt(12, 1), HasSubstr("domain 1 shows contents of domain 2"));
}

TEST_F(PatternOwnersTest, ExportedContentsAreNoticed) {
  EXPECT_THAT(LookAt(13, 1), HasSubstr("shows contents of an exported block"));
}

TEST_F(PatternOwnersTest, AnythingIsNoticedWhereZerosMustBe) {
  FilledBlock fresh;
  fresh.ptr = bytes_.data();
  fresh.bytes = bytes_.size();
  owners_.CheckFresh(fresh, 1, /*must_be_zero=*/true);
  EXPECT_EQ(owners_.text(), "");
  bytes_[512] = 1;
  owners_.CheckFresh(fresh, 1, /*must_be_zero=*/true);
  EXPECT_THAT(owners_.text(), HasSubstr("is not zero at byte 512"));
}

// --- LimitedBytes ---

TEST(LimitedBytesTest, WhatIsBeyondALoweredLimitMayShrinkOnly) {
  LimitedBytes bytes;
  EXPECT_TRUE(bytes.Check(1000));
  bytes.Limit(100, 1000);
  EXPECT_TRUE(bytes.Check(1000));
  EXPECT_FALSE(bytes.Check(1001));
  EXPECT_TRUE(bytes.Check(500));
  EXPECT_FALSE(bytes.Check(501));
  EXPECT_TRUE(bytes.Check(50));
  EXPECT_TRUE(bytes.Check(100));
  EXPECT_FALSE(bytes.Check(101));
}

// --- GraphAccount ---

class GraphAccountTest : public ::testing::Test {
 protected:
  GraphAccountTest() : state_(Setting()), graphs_(&uses_) {}

  LiveBlock Block(uintptr_t begin, uint64_t bytes) {
    LiveBlock block;
    block.content.ptr = reinterpret_cast<void*>(begin);
    block.content.bytes = bytes;
    return block;
  }
  // A block of pool 1, of the thread, that was freed.
  void KeepOne() {
    graphs_.Begin(&state_.pool(), GraphPoolId{1}, {});
    const LiveBlock block = Block(4096, 1024);
    graphs_.Added(block);
    graphs_.Removed(block);
  }
  std::string FailureNow(uint64_t pools, uint64_t bytes) {
    PoolStats stats;
    stats.graph_pools = pools;
    stats.graph_pool_bytes = bytes;
    return graphs_.AfterOperation(state_.pool(), stats, /*was_faulted=*/false)
        .ToString();
  }

  State state_;
  UseAccount uses_;
  GraphAccount graphs_;
};

TEST_F(GraphAccountTest, ItsPoolMayHaveAKeptBlockAgain) {
  KeepOne();
  graphs_.Added(Block(4096, 1000));
  EXPECT_EQ(FailureNow(1, 1000), "OK");
  EXPECT_EQ(graphs_.reuses(), 1u);
  EXPECT_THAT(FailureNow(1, 1024), HasSubstr("graph_pools"));
}

TEST_F(GraphAccountTest, NobodyElseMayHaveAKeptBlock) {
  KeepOne();
  graphs_.End(GraphPoolId{1});
  graphs_.Added(Block(4096, 1000));
  EXPECT_THAT(FailureNow(1, 0), HasSubstr("kept for another pool"));
}

TEST_F(GraphAccountTest, NothingMayOverlapAKeptBlock) {
  KeepOne();
  graphs_.Added(Block(4608, 512));
  EXPECT_THAT(FailureNow(1, 1536), HasSubstr("keeps its place"));
}

TEST_F(GraphAccountTest, ABlockOfSeveralStreamsMayNotBeUsedAgain) {
  const LiveBlock block = Block(4096, 1024);
  graphs_.Begin(&state_.pool(), GraphPoolId{1}, {});
  graphs_.Added(block);
  int stream = 0;
  uses_.Add(block.content.ptr, reinterpret_cast<StreamHandle>(&stream),
            /*writes=*/false);
  graphs_.Removed(block);
  graphs_.Added(block);
  EXPECT_THAT(FailureNow(1, 1024), HasSubstr("several streams"));
}

TEST_F(GraphAccountTest, AReleasedPoolKeepsNothing) {
  KeepOne();
  graphs_.End(GraphPoolId{1});
  graphs_.Release(GraphPoolId{1});
  graphs_.Added(Block(4096, 1000));
  EXPECT_EQ(FailureNow(0, 0), "OK");
}

// --- IdleAccount ---

class IdleAccountTest : public ::testing::Test {
 protected:
  // A few blocks on each of many granules; a pass has something to do.
  IdleAccountTest() : state_(Setting()) {
    for (int i = 0; i < 2000; ++i) {
      Perform(Allocate{.bytes = 512}, state_);
    }
    Perform(FreeMost{.first = 0, .count = 2000, .stride = 6}, state_);
  }

  const std::vector<LiveBlock>& blocks() { return state_.shadow().blocks(); }
  // What the account says of a pass that moves all that it can.
  std::string FailureOfPass() {
    idle_.BeginPass(state_.pool(), blocks());
    return Pass();
  }
  std::string Pass() {
    const absl::StatusOr<CompactionReport> report = state_.pool().Compact();
    EXPECT_TRUE(report.ok() && report->moves > 0);
    return idle_.EndPass(state_.pool(), report->moves).ToString();
  }

  State state_;
  IdleAccount idle_;
};

TEST_F(IdleAccountTest, WhatIsIdleMayMove) {
  for (const LiveBlock& block : blocks()) idle_.Declare(block);
  EXPECT_EQ(FailureOfPass(), "OK");
  EXPECT_EQ(idle_.passes(), 1u);
}

TEST_F(IdleAccountTest, ABlockInUseThatMovesIsNoticed) {
  EXPECT_THAT(FailureOfPass(), HasSubstr("which is in use"));
}

TEST_F(IdleAccountTest, ANeighbourOfABlockInUseThatMovesIsNoticed) {
  // Where there are several on a virtual granule, the last one is in use.
  std::map<uintptr_t, std::vector<LiveBlock>> blocks_of;
  for (const LiveBlock& block : blocks()) {
    blocks_of[reinterpret_cast<uintptr_t>(block.content.ptr) /
              state_.setting().granule_bytes]
        .push_back(block);
    idle_.Declare(block);
  }
  for (const auto& [vg, neighbours] : blocks_of) {
    if (neighbours.size() == 1) continue;
    idle_.Activate(
        *std::max_element(neighbours.begin(), neighbours.end(),
                          [](const LiveBlock& a, const LiveBlock& b) {
                            return a.content.ptr < b.content.ptr;
                          }));
  }
  EXPECT_THAT(FailureOfPass(), HasSubstr("shares its virtual granule"));
}

TEST_F(IdleAccountTest, WhatIsActiveAgainDuringAPassMustStay) {
  for (const LiveBlock& block : blocks()) idle_.Declare(block);
  idle_.BeginPass(state_.pool(), blocks());
  for (const LiveBlock& block : blocks()) idle_.Activate(block);
  EXPECT_THAT(Pass(), HasSubstr("which is in use"));
  EXPECT_EQ(idle_.rescued(), blocks().size());
}

TEST_F(IdleAccountTest, FiguresThatAreNotItsOwnAreNoticed) {
  idle_.Declare(blocks()[0]);
  idle_.Declare(blocks()[0]);
  idle_.Declare(blocks()[1]);
  idle_.Removed(blocks()[1]);
  PoolStats stats;
  stats.idle_blocks = 1;
  stats.idle_bytes = 512;
  EXPECT_TRUE(idle_.AfterOperation(state_.pool(), stats, false).ok());
  stats.idle_bytes = 1024;
  EXPECT_THAT(idle_.AfterOperation(state_.pool(), stats, false).ToString(),
              HasSubstr("idle_blocks: 1 of 1024 bytes instead of 1 of 512"));
}

}  // namespace
}  // namespace firn::testing::property
