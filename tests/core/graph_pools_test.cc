// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/graph_pools.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr GraphPoolId kFirst{7};
constexpr GraphPoolId kSecond{8};
constexpr uint64_t kThread = 100;

FreedBlock BlockAt(uint32_t place, uint64_t bytes, uint64_t quanta) {
  FreedBlock block;
  block.start.vg = VgIndex(place);
  block.bytes = bytes;
  block.quanta = quanta;
  return block;
}

GraphOwner OwnerOn(GraphPoolId pool, uint64_t stream_id) {
  GraphOwner owner;
  owner.pool = pool;
  owner.stream_id = stream_id;
  return owner;
}

class GraphPoolsTest : public ::testing::Test {
 protected:
  void ExpectSound() {
    FIRN_EXPECT_OK(
        pools_.CheckInvariants([](const FreedBlock&) { return true; }));
  }
  // A block of `place` that was allocated and freed, at address place * 512.
  void AddAndKeep(GraphPoolId pool, uint32_t place, uint64_t quanta,
                  uint64_t stream_id) {
    const uint64_t bytes = quanta * 512 - 1;
    pools_.Add(pool, place, bytes);
    pools_.Keep(place, BlockAt(place, bytes, quanta), place * uint64_t{512},
                stream_id);
  }
  // The place of the block that is taken; 0 if there is none.
  uint32_t Take(GraphPoolId pool, uint64_t stream_id, uint64_t quanta,
                uint64_t alignment_bytes = 512) {
    const std::optional<BlockStart> start =
        pools_.Take(OwnerOn(pool, stream_id), /*arena=*/0, quanta,
                    alignment_bytes, quanta * 512);
    return start.has_value() ? start->vg.value() : 0;
  }

  GraphPools pools_;
};

TEST_F(GraphPoolsTest, APoolIsOpenForItsStreamsElseForItsThread) {
  EXPECT_FALSE(pools_.any_open());
  EXPECT_FALSE(pools_.OwnerFor(1, kThread).has_value());
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1, 2, 2}, kThread));
  EXPECT_TRUE(pools_.any_open());
  EXPECT_EQ(pools_.OwnerFor(1, kThread)->pool, kFirst);
  EXPECT_EQ(pools_.OwnerFor(2, kThread + 1)->stream_id, 2u);
  // Not for the thread as well.
  EXPECT_FALSE(pools_.OwnerFor(3, kThread).has_value());
  FIRN_ASSERT_OK(pools_.Begin(kSecond, {}, kThread));
  EXPECT_EQ(pools_.OwnerFor(3, kThread)->pool, kSecond);
  EXPECT_EQ(pools_.OwnerFor(1, kThread)->pool, kFirst);
  EXPECT_FALSE(pools_.OwnerFor(3, kThread + 1).has_value());
  // A thread is no stream of the same number.
  EXPECT_FALSE(pools_.OwnerFor(kThread, kThread + 1).has_value());
  EXPECT_THAT(pools_.OpenPools(),
              AllOf(HasSubstr("pool 7"), HasSubstr("1 more")));
  FIRN_ASSERT_OK(pools_.End(kFirst));
  EXPECT_FALSE(pools_.OwnerFor(1, kThread + 1).has_value());
  EXPECT_EQ(pools_.OpenPools(), "graph-private pool 8");
  FIRN_ASSERT_OK(pools_.End(kSecond));
  EXPECT_FALSE(pools_.any_open());
  EXPECT_EQ(pools_.pools(), 2u);
  ExpectSound();
}

TEST_F(GraphPoolsTest, WhatIsWrongIsNamedAndChangesNothing) {
  EXPECT_THAT(
      pools_.End(kFirst),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("pool 7 is not open"), HasSubstr("BeginPool"))));
  EXPECT_THAT(pools_.Release(kFirst),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there is no graph-private pool 7")));
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1}, kThread));
  EXPECT_THAT(pools_.Begin(kFirst, {2}, kThread),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("pool 7 is open already"),
                             HasSubstr("EndPool"))));
  EXPECT_THAT(pools_.Begin(kSecond, {2, 1}, kThread),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("streams: "), HasSubstr("pool 7 open"),
                             HasSubstr("not graph-private pool 8"))));
  EXPECT_FALSE(pools_.OwnerFor(2, kThread).has_value());
  EXPECT_EQ(pools_.pools(), 1u);
  EXPECT_THAT(
      pools_.Release(kFirst),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("pool 7 is open"), HasSubstr("last use"))));
  FIRN_ASSERT_OK(pools_.Begin(kSecond, {}, kThread));
  EXPECT_THAT(pools_.Begin(GraphPoolId{9}, {}, kThread),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("thread"), HasSubstr("pool 8 open"))));
  FIRN_ASSERT_OK(pools_.End(kFirst));
  EXPECT_THAT(pools_.End(kFirst),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("pool 7 is not open")));
  ExpectSound();
}

TEST_F(GraphPoolsTest, AFreedBlockIsTakenByItsPoolStreamAndExtentAlone) {
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1, 2}, kThread));
  FIRN_ASSERT_OK(pools_.Begin(kSecond, {3}, kThread));
  AddAndKeep(kFirst, 41, 8, 1);
  AddAndKeep(kFirst, 48, 8, 1);
  EXPECT_EQ(pools_.bytes(), 2 * (8 * 512 - 1));
  EXPECT_EQ(pools_.kept_bytes(), pools_.bytes());
  EXPECT_EQ(Take(kFirst, 2, 8), 0u);
  EXPECT_EQ(Take(kSecond, 1, 8), 0u);
  EXPECT_EQ(Take(kFirst, 1, 9), 0u);
  EXPECT_EQ(Take(kFirst, 1, 7), 0u);
  EXPECT_EQ(Take(kFirst, 1, 8, 32 * 512), 0u);
  ExpectSound();
  // The latest first, unless it is not aligned.
  AddAndKeep(kFirst, 49, 8, 1);
  EXPECT_EQ(Take(kFirst, 1, 8, 16 * 512), 48u);
  EXPECT_EQ(Take(kFirst, 1, 8), 49u);
  EXPECT_EQ(Take(kFirst, 1, 8), 41u);
  EXPECT_EQ(Take(kFirst, 1, 8), 0u);
  EXPECT_EQ(pools_.bytes(), uint64_t{3 * 8 * 512});
  EXPECT_EQ(pools_.kept_bytes(), 0u);
  EXPECT_TRUE(pools_.Owns(41));
  EXPECT_FALSE(pools_.Owns(42));
  ExpectSound();
}

TEST_F(GraphPoolsTest, ABlockThatAnotherStreamUsesIsNotTakenAgain) {
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1, 2}, kThread));
  pools_.Add(kFirst, 41, 512);
  pools_.NoteUse(41, 2);
  pools_.Keep(41, BlockAt(41, 512, 1), 512, /*stream_id=*/1);
  EXPECT_EQ(Take(kFirst, 1, 1), 0u);
  EXPECT_EQ(Take(kFirst, 2, 1), 0u);
  // It may be if that is the stream that it is freed on.
  pools_.Add(kFirst, 42, 512);
  pools_.NoteUse(42, 1);
  pools_.NoteUse(42, 1);
  pools_.Keep(42, BlockAt(42, 512, 1), 512, /*stream_id=*/1);
  EXPECT_EQ(Take(kFirst, 1, 1), 42u);
  // Two are too many, whichever comes last.
  pools_.NoteUse(42, 2);
  pools_.NoteUse(42, 1);
  pools_.Keep(42, BlockAt(42, 512, 1), 512, /*stream_id=*/1);
  EXPECT_EQ(Take(kFirst, 1, 1), 0u);
  ExpectSound();
  FIRN_ASSERT_OK(pools_.End(kFirst));
  FIRN_ASSERT_OK(pools_.Release(kFirst));
  EXPECT_EQ(pools_.TakeRetired().size(), 2u);
}

TEST_F(GraphPoolsTest, TheLastReleaseRetiresWhatWasFreedInOrder) {
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1}, kThread));
  for (const uint32_t place : {9u, 3u, 6u, 12u, 1u}) {
    AddAndKeep(kFirst, place, place, 1);
  }
  pools_.Add(kFirst, 20, 4096);
  FIRN_ASSERT_OK(pools_.End(kFirst));
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1}, kThread));
  // Gives up one of two uses, though it is open.
  FIRN_ASSERT_OK(pools_.Release(kFirst));
  EXPECT_FALSE(pools_.has_retired());
  FIRN_ASSERT_OK(pools_.End(kFirst));
  const uint64_t kept_bytes = pools_.kept_bytes();
  FIRN_ASSERT_OK(pools_.Release(kFirst));
  EXPECT_EQ(pools_.pools(), 0u);
  EXPECT_EQ(pools_.bytes(), 0u);
  EXPECT_FALSE(pools_.Owns(20));
  EXPECT_TRUE(pools_.has_retired());
  EXPECT_EQ(pools_.retired_bytes(), kept_bytes);
  EXPECT_EQ(pools_.retired_total(), 5u);
  ExpectSound();
  std::vector<uint32_t> places;
  for (const BlockStart start : pools_.TakeRetired()) {
    places.push_back(start.vg.value());
  }
  EXPECT_THAT(places, ::testing::ElementsAre(1, 3, 6, 9, 12));
  EXPECT_FALSE(pools_.has_retired());
  EXPECT_EQ(pools_.retired_bytes(), 0u);
  // The id is free again.
  FIRN_EXPECT_OK(pools_.Begin(kFirst, {1}, kThread));
  EXPECT_EQ(Take(kFirst, 1, 9), 0u);
  ExpectSound();
}

TEST_F(GraphPoolsTest, AFreedBlockWithoutAPlaceBreaksI12) {
  FIRN_ASSERT_OK(pools_.Begin(kFirst, {1}, kThread));
  AddAndKeep(kFirst, 41, 8, 1);
  const auto never = [](const FreedBlock&) { return false; };
  EXPECT_THAT(pools_.CheckInvariants(never),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("I12"), HasSubstr("granule 41"))));
  FIRN_ASSERT_OK(pools_.End(kFirst));
  FIRN_ASSERT_OK(pools_.Release(kFirst));
  EXPECT_THAT(pools_.CheckInvariants(never),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("I12")));
  pools_.TakeRetired();
  FIRN_EXPECT_OK(pools_.CheckInvariants(never));
}

}  // namespace
}  // namespace firn
