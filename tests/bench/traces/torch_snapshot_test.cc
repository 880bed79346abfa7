// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_snapshot.h"

#include <memory>
#include <string>
#include <vector>

#include "bench/traces/byte_source.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/whole_number.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/pickle_writer.h"
#include "tests/bench/traces/torch_snapshot_writer.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::IsOk;
using ::firn::testing::IsOkAndHolds;
using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<std::unique_ptr<TraceSource>> Open(const std::string& contents) {
  return OpenTrace(WriteFile("snapshot.pickle", contents));
}

TEST(TorchSnapshotTest, ReplaysAllocationsAndCompletedFrees) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      Open(Snapshot(
          {{Entry("segment_alloc", 4096, 2 << 20, 90),
            Entry("alloc", 4096, 512, 100), Entry("alloc", 8192, 1024, 105, 77),
            Entry("free_requested", 4096, 512, 110),
            Entry("free_completed", 4096, 512, 120),
            Entry("snapshot", 0, 0, 130), Entry("alloc", 4096, 300, 140)}})));
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Gather(trace.get()),
                ElementsAre(Allocated(0, 0, 512), Allocated(5, 1, 1024, 1),
                            Freed(20, 0, 512), Allocated(40, 0, 300)));
    FIRN_ASSERT_OK(trace->Rewind());
  }
}

TEST(TorchSnapshotTest, FreesOfUnknownAddressesAreEventsOfTheirOwn) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      Open(Snapshot(
          {{Entry("free_completed", 1, 512, 100), Entry("alloc", 2, 512, 101),
            Entry("free_completed", 1, 512, 102)}})));
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Gather(trace.get()),
                ElementsAre(FreedUnknown(0, 512), Allocated(1, 0, 512),
                            FreedUnknown(2, 512)));
    FIRN_ASSERT_OK(trace->Rewind());
  }
}

TEST(TorchSnapshotTest, AnAllocationAtALiveAddressFreesTheOldBlockFirst) {
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            Open(Snapshot({{Entry("alloc", 1, 512, 100),
                                            Entry("alloc", 1, 1024, 105)}})));
  EXPECT_THAT(Gather(trace.get()),
              ElementsAre(Allocated(0, 0, 512), Freed(5, 0, 512),
                          Allocated(5, 0, 1024)));
}

TEST(TorchSnapshotTest, TakesTheDeviceWithMostAllocationsAndFrees) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      Open(Snapshot(
          {{},
           {Entry("segment_alloc", 1, 1, 1), Entry("segment_alloc", 1, 1, 1),
            Entry("segment_alloc", 1, 1, 1), Entry("alloc", 1, 7, 1)},
           {Entry("alloc", 1, 512, 1), Entry("alloc", 2, 512, 1)}})));
  EXPECT_THAT(Gather(trace.get()),
              ElementsAre(Allocated(0, 0, 512), Allocated(0, 1, 512)));
}

TEST(TorchSnapshotTest, WithoutTimesEveryEntryTakesAMicrosecond) {
  const auto entry = [](int64_t address) {
    return PickledDict({{"action", PickledText("alloc")},
                        {"addr", PickledInteger(address)},
                        {"size", PickledInteger(512)},
                        {"stream", PickledInteger(0)}});
  };
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      Open(Snapshot({{entry(1), Entry("segment_map", 1, 1, 1), entry(2)}})));
  EXPECT_THAT(Gather(trace.get()),
              ElementsAre(Allocated(0, 0, 512), Allocated(2, 1, 512)));
}

TEST(TorchSnapshotTest, NamesTheEntryAndFieldThatIsWrong) {
  struct Case {
    std::string size;
    const char* message;
  };
  for (const Case& c : {
           Case{PickledInteger(-512),
                "device_traces[0][1]: size: -512 is negative"},
           Case{"\x8a\x09" + std::string(8, '\xff') + std::string(1, '\0'),
                "device_traces[0][1]: size: a number beyond 64 bits"},
           Case{PickledText("big"),
                "device_traces[0][1]: size: not a whole number"},
       }) {
    EXPECT_THAT(
        Open(Snapshot({{Entry("alloc", 1, 512, 1),
                        PickledDict({{"action", PickledText("alloc")},
                                     {"addr", PickledInteger(1)},
                                     {"size", c.size},
                                     {"stream", PickledInteger(0)},
                                     {"time_us", PickledInteger(1)}})}})),
        StatusIs(kInvalid, HasSubstr(c.message)));
  }
  EXPECT_THAT(
      Open(Snapshot({{PickledDict({{"action", PickledText("alloc")}})}})),
      StatusIs(kInvalid, HasSubstr("device_traces[0][0]: addr: missing")));
}

TEST(TorchSnapshotTest, TellsHowToRecordWhereNothingWas) {
  EXPECT_THAT(Open(Snapshot({{}, {Entry("snapshot", 0, 0, 1)}})),
              StatusIs(kInvalid, HasSubstr("_record_memory_history()")));
  EXPECT_THAT(Open(Pickled(PickledDict({{"segments", PickledList({})}}))),
              StatusIs(kInvalid, HasSubstr("no PyTorch memory snapshot")));
  EXPECT_THAT(Open(Pickled("K\x05")),
              StatusIs(kInvalid, HasSubstr("no PyTorch memory snapshot")));
}

TEST(TorchSnapshotTest, ALongListNamedByManyDevicesIsCountedOnce) {
  std::string list = "]q\x01(";
  for (int i = 0; i < 100'000; ++i) list += "N";
  std::string devices = "](" + list + "e";
  for (int i = 0; i < 100'000; ++i) devices += "h\x01";
  EXPECT_THAT(Open(Pickled(PickledDict({{"device_traces", devices + "e"}}))),
              StatusIs(kInvalid, HasSubstr("_record_memory_history()")));
}

TEST(TorchSnapshotTest, AnEntryOfVeryManyItemsIsRefused) {
  const auto with_items = [](int items) {
    std::string dict = "}(";
    for (int i = 0; i < items; ++i) dict += PickledText("k") + "N";
    return dict + "u";
  };
  EXPECT_THAT(Open(Snapshot({{Entry("alloc", 1, 512, 1), with_items(64)}})),
              IsOk());
  EXPECT_THAT(
      Open(Snapshot({{}, {Entry("alloc", 1, 512, 1), with_items(65)}})),
      StatusIs(kInvalid, HasSubstr("device_traces[1][1]: a dict of 65 items; "
                                   "an entry has at most 64")));
  // Named over and over it would take minutes.
  std::string list = "](" + with_items(200'000) + "q\x01";
  for (int i = 0; i < 200'000; ++i) list += "h\x01";
  EXPECT_THAT(Open(Pickled(
                  PickledDict({{"device_traces", PickledList({list + "e"})}}))),
              StatusIs(kInvalid, HasSubstr("a dict of 200000 items")));
}

TEST(TorchSnapshotTest, TheTrainingSnapshotHasItsKnownFigures) {
  FIRN_PUBLIC_TRACE_OR_SKIP(
      path, "pytorch_snapshots/medium_1024_training_memory_snapshot.pickle");
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenTrace(path));
  const TraceTotals totals = TotalsOf(Gather(trace.get()));
  EXPECT_EQ(totals.allocs, 7591u);
  EXPECT_EQ(totals.frees, 7370u - 438u);
  EXPECT_EQ(totals.unknown_frees, 438u);
  EXPECT_NEAR(static_cast<double>(totals.peak_live_bytes) / (1 << 20), 18225.93,
              0.01);
  EXPECT_EQ(totals.greatest_id + 1, totals.most_live_blocks);
}

TEST(TorchSnapshotTest, ThePublicSnapshotsAgreeWithTheTablesBesideThem) {
  for (const char* name : {"medium_512_training", "medium_1024_training",
                           "medium_1024_inference"}) {
    const std::string stem =
        std::string("pytorch_snapshots/") + name + "_memory_snapshot";
    FIRN_PUBLIC_TRACE_OR_SKIP(table, stem + ".csv");
    FIRN_PUBLIC_TRACE_OR_SKIP(path, stem + ".pickle");
    FIRN_ASSERT_OK_AND_ASSIGN(std::string data,
                              ReadAllBytes(path, uint64_t{1} << 30));
    FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<TorchTraceEntry> entries,
                              ReadTorchSnapshot(path, std::move(data)));
    FIRN_ASSERT_OK_AND_ASSIGN(CsvReader rows,
                              CsvReader::Open(table, {"action", "addr", "size",
                                                      "stream", "time_us"}));
    size_t used = 0;
    while (*rows.NextRow()) {
      const bool allocates = rows.field(0) == "alloc";
      if (!allocates && rows.field(0) != "free_completed") continue;
      ASSERT_LT(used, entries.size());
      const TorchTraceEntry& entry = entries[used++];
      EXPECT_EQ(entry.allocates, allocates);
      EXPECT_THAT(ParseWholeNumber(rows.field(1)), IsOkAndHolds(entry.address));
      EXPECT_THAT(ParseWholeNumber(rows.field(2)), IsOkAndHolds(entry.bytes));
      EXPECT_THAT(ParseWholeNumber(rows.field(3)), IsOkAndHolds(entry.stream));
      EXPECT_THAT(ParseWholeNumber(rows.field(4)),
                  IsOkAndHolds(static_cast<uint64_t>(entry.time_us)));
    }
    EXPECT_EQ(used, entries.size()) << name;
  }
}

}  // namespace
}  // namespace firn::bench
