// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/rmm_log.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHeader[] = "Thread,Time,Action,Pointer,Size,Stream\n";

TraceEvent ByThread(uint32_t thread, TraceEvent event) {
  event.thread = thread;
  return event;
}

// All events of a log with these rows; an error goes to `status`.
std::vector<TraceEvent> Replay(const std::string& rows, absl::Status* status) {
  const std::string path = WriteFile("log.csv", kHeader + rows);
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(path);
  *status = trace.status();
  if (!trace.ok()) return {};
  std::vector<TraceEvent> events = Gather(trace->get(), status);
  FIRN_EXPECT_OK((*trace)->Rewind());
  absl::Status again;
  EXPECT_EQ(Gather(trace->get(), &again), events);
  EXPECT_EQ(again, *status);
  return events;
}

std::vector<TraceEvent> Replay(const std::string& rows) {
  absl::Status status;
  std::vector<TraceEvent> events = Replay(rows, &status);
  EXPECT_TRUE(status.ok()) << status;
  return events;
}

TEST(RmmLogTest, ReplaysTimesStreamsThreadsAndSmallIds) {
  EXPECT_THAT(Replay("42,13:01:02.000010,allocate,0x7f0000000000,1024,0\n"
                     "42,13:01:02.000020,allocate,0x7f0000000400,512,0x55aa\n"
                     "43,13:01:03.000010,free,0x7f0000000000,1024,0x2\n"
                     "43,13:01:03.000011,allocate,0x7f0000000000,7,0x55aa\n"),
              ElementsAre(ByThread(1, Allocated(0, 0, 1024)),
                          ByThread(1, Allocated(10, 1, 512, 1)),
                          ByThread(2, Freed(1'000'000, 0, 1024, 2)),
                          ByThread(2, Allocated(1'000'001, 0, 7, 1))));
}

TEST(RmmLogTest, PassesOverFailuresAndWhatHoldsNoMemory) {
  EXPECT_THAT(
      Replay("0,00:00:01.0,allocate failure,(nil),999999999999,0\n"
             "0,00:00:02.0,allocate,(nil),0,0\n"
             "0,00:00:02.5,allocate,0x10,64,0\n"
             "0,00:00:03.0,free,(nil),0,0\n"
             "0,00:00:03.0,free,0x10,64,0\n"),
      ElementsAre(Allocated(1'500'000, 0, 64), Freed(2'000'000, 0, 64)));
}

TEST(RmmLogTest, TimeGoesOnOverMidnightAndBeyond24Hours) {
  EXPECT_THAT(Replay("0,23:59:59.0,allocate,0x10,1,0\n"
                     "0,00:00:01.0,allocate,0x20,1,0\n"
                     "0,23:00:00.0,allocate,0x30,1,0\n"
                     "0,01:00:00.0,allocate,0x40,1,0\n"),
              ElementsAre(Allocated(0, 0, 1), Allocated(2'000'000, 1, 1),
                          Allocated(82801'000'000, 2, 1),
                          Allocated(90001'000'000, 3, 1)));
  EXPECT_THAT(Replay("0,23:00:00.0,allocate,0x10,1,0\n"
                     "0,47:00:00.0,allocate,0x20,1,0\n"),
              ElementsAre(Allocated(0, 0, 1), Allocated(86400'000'000, 1, 1)));
}

TEST(RmmLogTest, TimeThatFallsALittleStandsStill) {
  EXPECT_THAT(
      Replay("0,12:00:05:000000,allocate,0x10,1,0\n"
             "0,12:00:04:999990,allocate,0x20,1,0\n"
             "0,12:00:05:000002,allocate,0x30,1,0\n"),
      ElementsAre(Allocated(0, 0, 1), Allocated(0, 1, 1), Allocated(2, 2, 1)));
}

TEST(RmmLogTest, ALateRowAroundMidnightAddsNoDay) {
  EXPECT_THAT(Replay("0,23:59:59.90,allocate,0x10,1,0\n"
                     "0,00:00:00.10,allocate,0x20,1,0\n"
                     "0,23:59:59.95,allocate,0x30,1,0\n"
                     "0,00:00:00.20,allocate,0x40,1,0\n"
                     "0,23:59:59.99,allocate,0x50,1,0\n"
                     "0,00:00:00.30,allocate,0x60,1,0\n"),
              ElementsAre(Allocated(0, 0, 1), Allocated(200'000, 1, 1),
                          Allocated(200'000, 2, 1), Allocated(300'000, 3, 1),
                          Allocated(300'000, 4, 1), Allocated(400'000, 5, 1)));
}

TEST(RmmLogTest, TimesBeyond64BitsAreRefused) {
  absl::Status status;
  Replay(
      "0,0:0:0.0,allocate,0x10,1,0\n"
      "0,2562047788:00:00.0,allocate,0x20,1,0\n"
      "0,2562047774:00:00.0,allocate,0x30,1,0\n",
      &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("log.csv:4: Time: beyond 64 bits")));
}

TEST(RmmLogTest, RowsThatArePassedOverTakeNoNumbers) {
  EXPECT_THAT(Replay("7,0:0:1.0,allocate,(nil),0,0x77\n"
                     "8,0:0:1.0,allocate failure,(nil),64,0x88\n"
                     "9,0:0:1.0,free,(nil),0,0x99\n"
                     "5,0:0:1.0,allocate,0x10,64,0x55\n"
                     "7,0:0:1.0,free,0x10,64,0x77\n"),
              ElementsAre(ByThread(1, Allocated(0, 0, 64, 1)),
                          ByThread(2, Freed(0, 0, 64, 2))));
}

TEST(RmmLogTest, ALogWithoutRowsHasNoEvents) {
  EXPECT_THAT(Replay(""), IsEmpty());
}

TEST(RmmLogTest, AFailureOfNothingIsAProbeAndANullFreeIsUnknown) {
  TraceEvent probe;
  probe.kind = TraceEventKind::kProbe;
  probe.time_us = 1'000'000;
  EXPECT_THAT(
      Replay("0,00:00:01.0,allocate,0x10,64,0\n"
             "0,00:00:02.0,allocate failure,(nil),0,0\n"
             "0,00:00:03.0,free,(nil),32,0\n"),
      ElementsAre(Allocated(0, 0, 64), probe, FreedUnknown(2'000'000, 32)));
}

TEST(RmmLogTest, AFreeOfAnUnknownPointerCannotBeReplayed) {
  absl::Status status;
  EXPECT_THAT(Replay("0,0:0:1.0,allocate,0x10,64,0\n"
                     "0,0:0:2.0,free,0xdead,64,0\n",
                     &status),
              ElementsAre(Allocated(0, 0, 64)));
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("log.csv:3: free of 0xdead, which is not")));
}

TEST(RmmLogTest, AnAllocationAtALivePointerCannotBeReplayed) {
  absl::Status status;
  Replay(
      "1,0:0:1.0,allocate,0x10,64,0\n"
      "1,0:0:2.0,allocate,0x10,128,0\n",
      &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("log.csv:3: allocation at 0x10, which "
                                         "is live already")));
}

TEST(RmmLogTest, NamesLineColumnAndReasonOfABadRow) {
  struct Case {
    const char* row;
    const char* message;
  };
  for (const Case& c : {
           Case{"1,0:0:1.0,allocate,0x10,-64,0", ":3: Size: '-64' is negative"},
           Case{"1,0:0:1.0,allocate,0x10,18446744073709551616,0",
                ":3: Size: '18446744073709551616' is beyond 64 bits"},
           Case{"1,0:0:1.0,allocate,0x10,18446744073709551615,0",
                ":3: Size: 18446744073709551615 bytes take live memory beyond"},
           Case{"main,0:0:1.0,allocate,0x10,64,0",
                ":3: Thread: 'main' is not a whole number"},
           Case{"1,0:0:1.0,allocate,0x10,many,0",
                ":3: Size: 'many' is not a whole number"},
           Case{"1,0:0:1.0,allocate,ptr,64,0", ":3: Pointer: 'ptr' is not"},
           Case{"1,0:0:1.0,allocate,(nil),64,0",
                ":3: Pointer: null for an allocation of 64 bytes"},
           Case{"1,0:0:1.0,allocate,0x10,64,s", ":3: Stream: 's' is not"},
           Case{"1,noon,allocate,0x10,64,0", ":3: Time: 'noon' is not a time"},
           Case{"1,0:0:1.0,resize,0x10,64,0",
                ":3: Action: 'resize' is none of allocate"},
           Case{"1,0:0:1.0,allocate,0x10", ":3: 4 fields where the header has"},
       }) {
    absl::Status status;
    Replay(std::string("1,0:0:0.0,allocate,0x1,64,0\n") + c.row, &status);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr(std::string("log.csv") + c.message)))
        << c.row;
  }
}

TEST(RmmLogTest, TakesNoKeys) {
  const std::string path = WriteFile("log.csv", kHeader);
  EXPECT_THAT(OpenTrace(path + ",days=3"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq(path + ": unknown key 'days'; an RMM log has no "
                                 "keys")));
}

}  // namespace
}  // namespace firn::bench
