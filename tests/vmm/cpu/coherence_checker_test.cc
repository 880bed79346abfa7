// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/coherence_checker.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/access_range.h"
#include "firn/vmm/cpu/cpu_defect.h"
#include "firn/vmm/cpu/work_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::cpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
// Where memory 1 is mapped, in these tests.
constexpr DevicePtr kUserAlias = 0x7f0000000000;
constexpr DevicePtr kStagingAlias = 0x7e0000000000;
constexpr DevicePtr kThirdAlias = 0x7d0000000000;

WorkOrder Order(uint64_t stream_id, uint64_t position, SeenWork seen = {}) {
  WorkOrder order;
  order.stream_id = stream_id;
  order.position = position;
  if (!seen.empty()) {
    order.seen = std::make_shared<const SeenWork>(std::move(seen));
  }
  return order;
}

PhysicalRange Range(DevicePtr alias, bool writes, uint64_t offset_bytes = 0,
                    uint64_t bytes = kGranuleBytes, uint64_t memory_id = 1) {
  PhysicalRange range;
  range.memory_id = memory_id;
  range.offset_bytes = offset_bytes;
  range.bytes = bytes;
  range.address = alias + offset_bytes;
  range.writes = writes;
  return range;
}
PhysicalRange Read(DevicePtr alias, uint64_t offset_bytes = 0,
                   uint64_t bytes = kGranuleBytes) {
  return Range(alias, false, offset_bytes, bytes);
}
PhysicalRange Write(DevicePtr alias, uint64_t offset_bytes = 0,
                    uint64_t bytes = kGranuleBytes) {
  return Range(alias, true, offset_bytes, bytes);
}

class CoherenceCheckerTest : public ::testing::Test {
 protected:
  std::string Begin(const WorkOrder& order,
                    const std::vector<PhysicalRange>& ranges) {
    return checker_.Begin(order, "kernel", ranges);
  }

  CoherenceChecker checker_;
};

TEST_F(CoherenceCheckerTest, AnUnorderedReadThroughAnotherAliasIsReported) {
  EXPECT_THAT(
      checker_.Begin(Order(1, 7), "copy", {Write(kStagingAlias, 0x1000, 64)}),
      IsEmpty());
  EXPECT_EQ(
      checker_.Begin(Order(2, 3), "kernel", {Read(kUserAlias, 0x1010, 16)}),
      "kernel (stream 2, position 3) reads through 0x7f0000001010 what copy "
      "(stream 1, position 7) writes through 0x7e0000001010, and is not "
      "ordered after it: 16 bytes at offset 4112 of memory 1");
}

// The kernel was resident before the write began: that it has ended by then is
// luck.
TEST_F(CoherenceCheckerTest, AnUnorderedWriteAfterTheReadBeganIsReported) {
  EXPECT_THAT(checker_.Begin(Order(2, 3), "kernel", {Read(kUserAlias)}),
              IsEmpty());
  EXPECT_EQ(
      checker_.Begin(Order(1, 7), "copy", {Write(kStagingAlias)}),
      "kernel (stream 2, position 3) reads through 0x7f0000000000 what copy "
      "(stream 1, position 7) writes through 0x7e0000000000, and is not "
      "ordered before it: 2097152 bytes at offset 0 of memory 1");
}

TEST_F(CoherenceCheckerTest, WorkOfOneStreamIsOrdered) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(1, 2), {Read(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(1, 3), {Write(kStagingAlias)}), IsEmpty());
}

// An event, or a wait of the host: the work had seen that stream up to there.
TEST_F(CoherenceCheckerTest, WorkThatHasSeenTheOtherIsOrdered) {
  EXPECT_THAT(Begin(Order(1, 4), {Write(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1, {{1, 4}}), {Read(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(3, 1, {{1, 9}}), {Read(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(1, 5, {{2, 1}, {3, 1}}), {Write(kStagingAlias)}),
              IsEmpty());
}

TEST_F(CoherenceCheckerTest, WorkThatHasSeenLessThanTheOtherIsNotOrdered) {
  EXPECT_THAT(Begin(Order(1, 4), {Write(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1, {{1, 3}, {3, 4}}), {Read(kUserAlias)}),
              HasSubstr("not ordered after"));
}

TEST_F(CoherenceCheckerTest, OneAliasNeverConflicts) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(3, 1), {Write(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(4, 1), {Read(kUserAlias), Write(kUserAlias)}),
              IsEmpty());
}

TEST_F(CoherenceCheckerTest, DisjointBytesNeverConflict) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kStagingAlias, 0, 4096)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias, 4096, 4096)}), IsEmpty());
  EXPECT_THAT(Begin(Order(3, 1), {Write(kStagingAlias, 8192, 4096)}),
              IsEmpty());
  EXPECT_THAT(Begin(Order(4, 1), {Read(kUserAlias, 4095, 1)}), Not(IsEmpty()));
}

TEST_F(CoherenceCheckerTest, OtherMemoryNeverConflicts) {
  EXPECT_THAT(Begin(Order(1, 1), {Range(kStagingAlias, true, 0, 64, 1)}),
              IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Range(kUserAlias, false, 0, 64, 2)}),
              IsEmpty());
}

TEST_F(CoherenceCheckerTest, ReadsDoNotConflictAndNeitherDoWrites) {
  EXPECT_THAT(Begin(Order(1, 1), {Read(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias)}), IsEmpty());
  checker_.Forget(1);
  EXPECT_THAT(Begin(Order(1, 2), {Write(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 2), {Write(kUserAlias)}), IsEmpty());
}

// Within one kernel nothing but a fence orders them, which no range declares.
TEST_F(CoherenceCheckerTest, WorkConflictsWithItself) {
  EXPECT_THAT(Begin(Order(1, 1), {Read(kUserAlias), Write(kStagingAlias)}),
              AllOf(HasSubstr("kernel (stream 1, position 1) reads"),
                    HasSubstr("kernel (stream 1, position 1) writes")));
}

TEST_F(CoherenceCheckerTest, RangesWithoutBytesAccessNothing) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kStagingAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias, 64, 0)}), IsEmpty());
}

TEST_F(CoherenceCheckerTest, AConflictOverSeveralEarlierRangesIsReportedWhole) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kStagingAlias, 0, 4096)}), IsEmpty());
  EXPECT_THAT(Begin(Order(1, 2), {Write(kStagingAlias, 8192, 4096),
                                  Read(kStagingAlias, 10000, 10)}),
              IsEmpty());
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias, 8192, 8192)}),
              HasSubstr("position 2) writes through 0x7e0000002000, and is not "
                        "ordered after it: 4096 bytes at offset 8192 of"));
}

// A granule is filled through a staging address, which is then unmapped; a
// kernel that was resident all along reads it at the user's address, where it
// is mapped meanwhile.
TEST_F(CoherenceCheckerTest, WhatWasWrittenThroughAnAddressThatIsGoneCounts) {
  constexpr uint64_t kCopyStream = 9;
  EXPECT_THAT(Begin(Order(kCopyStream, 1), {Write(kStagingAlias)}), IsEmpty());
  // Queued when the copy was not known to be complete.
  EXPECT_THAT(Begin(Order(2, 5), {Read(kUserAlias)}), Not(IsEmpty()));
  // Launched after the host waited for the copy.
  EXPECT_THAT(Begin(Order(3, 1, {{kCopyStream, 1}}), {Read(kUserAlias)}),
              IsEmpty());
}

TEST_F(CoherenceCheckerTest, ForgottenMemoryHasNoPast) {
  EXPECT_THAT(Begin(Order(1, 1), {Write(kStagingAlias),
                                  Range(kStagingAlias, true, 0, 64, 2)}),
              IsEmpty());
  checker_.Forget(1);
  checker_.Forget(77);
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias)}), IsEmpty());
  EXPECT_THAT(Begin(Order(2, 2), {Range(kUserAlias, false, 0, 64, 2)}),
              HasSubstr("memory 2"));
}

TEST_F(CoherenceCheckerTest, AStreamThatIsGoneIsBeforeAllWorkToCome) {
  Begin(Order(1, 1), {Write(kStagingAlias)});
  Begin(Order(5, 1), {Write(kStagingAlias)});
  checker_.ForgetStream(1);
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias)}),
              AllOf(HasSubstr("stream 5"), Not(HasSubstr("stream 1"))));
  EXPECT_THAT(Begin(Order(2, 2, {{5, 1}}), {Read(kUserAlias)}), IsEmpty());
}

TEST_F(CoherenceCheckerTest, StreamsThatComeAndGoLeaveFewRecords) {
  for (uint64_t stream = 1; stream <= 5000; ++stream) {
    ASSERT_THAT(Begin(Order(stream, 1), {Write(kUserAlias), Write(kUserAlias),
                                         Range(kUserAlias, false, 0, 64,
                                               /*memory_id=*/stream + 1)}),
                IsEmpty());
    checker_.ForgetStream(stream);
  }
  EXPECT_LT(checker_.record_count(), 1500u);
}

TEST_F(CoherenceCheckerTest, WithoutTheCheckNothingIsReported) {
  CoherenceChecker checker(CpuDefect::kCoherenceCheckOff);
  EXPECT_THAT(checker.Begin(Order(1, 1), "copy", {Write(kStagingAlias)}),
              IsEmpty());
  EXPECT_THAT(checker.Begin(Order(2, 1), "kernel", {Read(kUserAlias)}),
              IsEmpty());
}

TEST_F(CoherenceCheckerTest, OrderedWorkReplacesWhatWasBefore) {
  for (uint64_t i = 1; i <= 1000; ++i) {
    ASSERT_THAT(Begin(Order(1, i), {Read(kUserAlias), Write(kUserAlias)}),
                IsEmpty());
  }
  EXPECT_EQ(checker_.record_count(), 2u);
  // Another stream, after the first.
  ASSERT_THAT(Begin(Order(2, 1, {{1, 1000}}), {Write(kUserAlias)}), IsEmpty());
  EXPECT_EQ(checker_.record_count(), 2u);
}

// A pool maps memory at ever new addresses.
TEST_F(CoherenceCheckerTest, OrderedWorkThroughManyAliasesLeavesFewRecords) {
  for (uint64_t i = 1; i <= 1000; ++i) {
    const DevicePtr alias = kUserAlias + i * kGranuleBytes;
    ASSERT_THAT(Begin(Order(1, 2 * i), {Write(alias)}), IsEmpty());
    ASSERT_THAT(Begin(Order(1, 2 * i + 1), {Read(alias)}), IsEmpty());
  }
  EXPECT_LE(checker_.record_count(), 4u);
}

TEST_F(CoherenceCheckerTest, PartsThatWereAccessedAlikeAreRememberedAsOne) {
  for (uint64_t i = 0; i < 64; ++i) {
    Begin(Order(1, i + 1), {Write(kUserAlias, i * 4096, 4096)});
  }
  EXPECT_EQ(checker_.record_count(), 64u);
  Begin(Order(1, 65), {Write(kUserAlias)});
  // The bytes behind the parts, too.
  EXPECT_EQ(checker_.record_count(), 1u);
}

// The second write through the user's alias must not hide the first from a
// reader that is after the second, but not after the first, and so on.
TEST_F(CoherenceCheckerTest, WhatNothingLaterStandsForIsKept) {
  // In order, through two aliases: the read through the second one is not
  // ordered after either, but only the first write is through another.
  Begin(Order(1, 1), {Write(kStagingAlias)});
  Begin(Order(1, 2), {Write(kUserAlias)});
  EXPECT_THAT(Begin(Order(2, 1), {Read(kUserAlias)}),
              HasSubstr("position 1) writes through 0x7e"));
  checker_.Forget(1);
  // Unordered writes through one alias: after one is not after the other.
  Begin(Order(1, 3), {Write(kStagingAlias)});
  Begin(Order(3, 1), {Write(kStagingAlias)});
  EXPECT_THAT(Begin(Order(2, 2, {{3, 1}}), {Read(kUserAlias)}),
              HasSubstr("stream 1, position 3"));
  EXPECT_THAT(Begin(Order(4, 1, {{1, 3}}), {Read(kUserAlias)}),
              HasSubstr("stream 3, position 1"));
}

TEST_F(CoherenceCheckerTest, AWriteBetweenReadsThroughOtherAliasesIsKept) {
  Begin(Order(1, 1), {Write(kStagingAlias)});
  Begin(Order(1, 2), {Write(kUserAlias)});
  Begin(Order(1, 3), {Write(kThirdAlias)});
  EXPECT_THAT(Begin(Order(2, 1), {Read(kThirdAlias)}),
              HasSubstr("writes through 0x7f"));
  EXPECT_THAT(Begin(Order(3, 1), {Read(kUserAlias)}),
              HasSubstr("writes through 0x7d"));
  EXPECT_THAT(Begin(Order(4, 1), {Read(kStagingAlias)}), Not(IsEmpty()));
}

TEST_F(CoherenceCheckerTest, SeveralThreadsMayBeginWorkAtOnce) {
  std::vector<std::thread> threads;
  for (uint64_t stream = 1; stream <= 4; ++stream) {
    threads.emplace_back([this, stream] {
      for (uint64_t i = 1; i <= 2000; ++i) {
        EXPECT_THAT(
            Begin(Order(stream, i),
                  {Range(kUserAlias, i % 2 == 0, 0, kGranuleBytes, stream),
                   Range(kUserAlias, false, 0, kGranuleBytes, 10)}),
            IsEmpty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(checker_.record_count(), 4u * 2 + 4);
}

}  // namespace
}  // namespace firn::cpu
