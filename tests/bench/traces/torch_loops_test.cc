// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Of a snapshot that is played in loops.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/torch_snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/bench/traces/torch_snapshot_writer.h"
#include "tests/bench/traces/trace_testing.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<TraceEvent> EventsOf(const std::string& spec) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(spec);
  EXPECT_TRUE(trace.ok()) << trace.status();
  if (!trace.ok()) return {};
  std::vector<TraceEvent> events = Gather(trace->get());
  FIRN_EXPECT_OK((*trace)->Rewind());
  EXPECT_EQ(Gather(trace->get()), events);
  return events;
}

// Frees 512 unknown bytes; leaves 512 and 2048 bytes alive; lasts 40 us.
std::string SeamProgram() {
  return Snapshot(
      {{Entry("free_completed", 9, 512, 100), Entry("alloc", 1, 512, 110),
        Entry("alloc", 2, 1024, 120), Entry("free_completed", 2, 1024, 130),
        Entry("alloc", 3, 2048, 140, 77)}});
}

// State, linear, quadratic; all freed but the state.
std::string ScaledProgram(int64_t length) {
  return Snapshot(
      {{Entry("alloc", 1, 64, 1000), Entry("alloc", 2, 2 * length, 1001),
        Entry("alloc", 3, length * length, 1002),
        Entry("free_completed", 3, length * length, 1003),
        Entry("free_completed", 2, 2 * length, 1004)}});
}

// The sizes of all allocations.
std::vector<uint64_t> Allocations(const std::vector<TraceEvent>& events) {
  std::vector<uint64_t> sizes;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEventKind::kAllocate) sizes.push_back(event.bytes);
  }
  return sizes;
}

TEST(TorchLoopsTest, ALoopFreesWhatTheOneBeforeLeftAlive) {
  const std::string path = WriteFile("seam", SeamProgram());
  const std::vector<TraceEvent> events = EventsOf(path + ",loops=3");
  ASSERT_EQ(events.size(), 5u + 6u + 6u);
  EXPECT_THAT(
      std::vector<TraceEvent>(events.begin(), events.begin() + 11),
      ElementsAre(
          FreedUnknown(0, 512), Allocated(10, 0, 512), Allocated(20, 1, 1024),
          Freed(30, 1, 1024), Allocated(40, 1, 2048, 1),
          // Left over: freed as the next loop starts, on its stream.
          Freed(41, 1, 2048, 1),
          // The unknown free means what the first loop left alive.
          Freed(41, 0, 512), Allocated(51, 0, 512), Allocated(61, 1, 1024),
          Freed(71, 1, 1024), Allocated(81, 1, 2048, 1)));
  for (size_t i = 11; i < events.size(); ++i) {
    EXPECT_EQ(events[i].time_us, events[i - 6].time_us + 41);
    EXPECT_EQ(events[i].bytes, events[i - 6].bytes);
  }
}

TEST(TorchLoopsTest, OneLoopIsTheRecordingItself) {
  const std::string path = WriteFile("seam", SeamProgram());
  EXPECT_EQ(EventsOf(path), EventsOf(path + ",loops=1,seed=7"));
  EXPECT_EQ(EventsOf(path).size(), 5u);
}

TEST(TorchLoopsTest, ABlockMayBeAllocatedAnewBeforeItsElderIsFreed) {
  const std::string path =
      WriteFile("update", Snapshot({{Entry("alloc", 1, 512, 10),
                                     Entry("free_completed", 2, 512, 11)}}));
  EXPECT_THAT(EventsOf(path + ",loops=3"),
              ElementsAre(Allocated(0, 0, 512), FreedUnknown(1, 512),
                          Allocated(2, 1, 512), Freed(3, 0, 512),
                          Allocated(4, 0, 512), Freed(5, 1, 512)));
}

TEST(TorchLoopsTest, SizesFollowTheLengthAsThePairTells) {
  const std::string path = WriteFile("model_1024.pickle", ScaledProgram(1024));
  const std::string pair = WriteFile("model_512.pickle", ScaledProgram(512));
  EXPECT_THAT(Allocations(EventsOf(path + ",jitter=256,pair=" + pair)),
              ElementsAre(64u, 512u, 65536u));
  EXPECT_THAT(Allocations(EventsOf(path + ",jitter=1000,pair=" + pair)),
              ElementsAre(64u, 2000u, 1'000'000u));
  // In either role, and with the lengths given rather than in the names.
  const std::string unnamed = WriteFile("a", ScaledProgram(1024));
  EXPECT_THAT(Allocations(EventsOf(absl::StrCat(
                  pair, ",jitter=256,pair=", unnamed, ",pair_length=1024"))),
              ElementsAre(64u, 512u, 65536u));
  EXPECT_THAT(
      Allocations(EventsOf(absl::StrCat(
          path, ",jitter=100,length=2048,pair=", pair, ",pair_length=1024"))),
      ElementsAre(64u, 100u, 2500u));
}

TEST(TorchLoopsTest, EveryLoopDrawsALengthByTheSeed) {
  const std::string path = WriteFile("model_1024.pickle", ScaledProgram(1024));
  const std::string pair = WriteFile("model_512.pickle", ScaledProgram(512));
  // Of each loop, from its linear block of 2 bytes a token.
  const auto lengths = [&](const std::string& keys) {
    const std::vector<uint64_t> sizes =
        Allocations(EventsOf(absl::StrCat(path, ",pair=", pair, keys)));
    std::vector<uint64_t> lengths;
    for (size_t i = 1; i < sizes.size(); i += 3) {
      EXPECT_EQ(sizes[i - 1], 64u);
      EXPECT_EQ(sizes[i + 1], (sizes[i] / 2) * (sizes[i] / 2));
      lengths.push_back(sizes[i] / 2);
    }
    return lengths;
  };
  const std::vector<uint64_t> drawn =
      lengths(",loops=50,jitter=300+600,seed=5");
  ASSERT_EQ(drawn.size(), 50u);
  for (uint64_t loop = 0; loop < drawn.size(); ++loop) {
    EXPECT_EQ(drawn[loop], HashedDraw(5, loop, 1) % 2 == 0 ? 300u : 600u);
  }
  const std::vector<uint64_t> all = lengths(",loops=100");
  EXPECT_THAT(std::set<uint64_t>(all.begin(), all.end()),
              UnorderedElementsAre(256, 384, 512, 640, 768, 896, 1024));
  EXPECT_NE(all, lengths(",loops=100,seed=2"));
  EXPECT_EQ(all, lengths(",loops=100,seed=1"));
}

TEST(TorchLoopsTest, AnEvaluationPlaysTheForwardPartAndKeepsNothing) {
  // 100 waits for the backward pass, 200 is temporary; most is live at 300.
  const std::string path = WriteFile(
      "step",
      Snapshot(
          {{Entry("free_completed", 9, 8, 0), Entry("alloc", 1, 100, 10),
            Entry("alloc", 2, 200, 20), Entry("free_completed", 2, 200, 30),
            Entry("alloc", 3, 300, 40), Entry("free_completed", 3, 300, 50),
            Entry("free_completed", 1, 100, 60)}}));
  const std::vector<TraceEvent> events =
      EventsOf(path + ",loops=2,eval_every=2");
  ASSERT_EQ(events.size(), 2u * 7u + 6u);
  EXPECT_EQ(events[13].time_us, 61 + 60);
  EXPECT_THAT(std::vector<TraceEvent>(events.begin() + 14, events.end()),
              ElementsAre(Allocated(132, 0, 100), Allocated(142, 1, 200),
                          Freed(152, 1, 200), Allocated(162, 1, 300),
                          Freed(162, 0, 100), Freed(162, 1, 300)));
}

TEST(TorchLoopsTest, AnEvaluationDropsWhatIsOlderThanTheLastFewBlocks) {
  // Twelve blocks wait for the backward pass; the ninth takes the first along.
  std::vector<std::string> entries;
  for (int i = 0; i < 12; ++i) entries.push_back(Entry("alloc", i, 10 + i, i));
  for (int i = 0; i < 12; ++i) {
    entries.push_back(Entry("free_completed", i, 10 + i, 12 + i));
  }
  const std::string path = WriteFile("step", Snapshot({entries}));
  const std::vector<TraceEvent> events = EventsOf(path + ",eval_every=1");
  ASSERT_EQ(events.size(), 24u + 24u);
  uint64_t live = 0;
  uint64_t most = 0;
  std::vector<uint64_t> freed;
  for (size_t i = 24; i < events.size(); ++i) {
    if (events[i].kind == TraceEventKind::kAllocate) {
      most = std::max(most, ++live);
    } else {
      --live;
      freed.push_back(events[i].bytes);
    }
  }
  EXPECT_EQ(most, TorchSnapshot::kEvaluationKeeps + 1);
  EXPECT_THAT(freed,
              ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21));
  // 8 us into the evaluation, as the ninth is allocated.
  EXPECT_EQ(events[24 + 9].bytes, 10u);
  EXPECT_EQ(events[24 + 9].time_us, 24 + 8);
}

TEST(TorchLoopsTest, ACheckpointCopiesTheStateBlockByBlock) {
  const std::string path = WriteFile("seam", SeamProgram());
  // 512 and 2048 bytes are left alive; five entries in 40 us, 8 us each.
  const std::vector<TraceEvent> events =
      EventsOf(path + ",loops=2,checkpoint_every=1");
  ASSERT_EQ(events.size(), 5u + 4u + 6u + 4u);
  EXPECT_THAT(std::vector<TraceEvent>(events.begin() + 5, events.begin() + 10),
              ElementsAre(Allocated(41, 2, 512), Allocated(49, 3, 2048, 1),
                          Freed(57, 2, 512), Freed(65, 3, 2048, 1),
                          Freed(73, 1, 2048, 1)));
}

TEST(TorchLoopsTest, ACheckpointWithAPairCopiesOnlyWhatBothHoldAlike) {
  const auto program = [](int64_t length) {
    return Snapshot(
        {{Entry("alloc", 1, 64, 1000), Entry("alloc", 2, length, 1002)}});
  };
  const std::string path = WriteFile("m_1024", program(1024));
  const std::string pair = WriteFile("m_512", program(512));
  EXPECT_THAT(Allocations(EventsOf(absl::StrCat(
                  path, ",checkpoint_every=1,jitter=100,pair=", pair))),
              ElementsAre(64u, 100u, 64u));
}

TEST(TorchLoopsTest, RefusesKeysThatMakeNoSense) {
  const std::string path = WriteFile("model_1024.pickle", ScaledProgram(1024));
  const std::string pair = WriteFile("model_512.pickle", ScaledProgram(512));
  const std::string unnamed = WriteFile("model.pickle", ScaledProgram(512));
  const std::string other =
      WriteFile("other_512.pickle",
                Snapshot({{Entry("alloc", 1, 7, 1), Entry("alloc", 2, 9, 2),
                           Entry("alloc", 3, 11, 3), Entry("alloc", 4, 13, 4),
                           Entry("alloc", 5, 17, 5)}}));
  struct Case {
    std::string spec;
    std::string message;
  };
  for (const Case& c : {
           Case{path + ",jitter=256", "key jitter='256': needs pair=FILE"},
           Case{path + ",length=256", "key length='256': needs pair=FILE"},
           Case{path + ",pair_length=256",
                "key pair_length='256': needs pair=FILE"},
           Case{path + ",pair=", "key pair='': empty"},
           Case{path + ",loops=0", "key loops='0': out of range"},
           Case{path + ",loops=-1", "key loops='-1'"},
           Case{path + ",loop=3",
                "the keys of a PyTorch memory snapshot are "
                "loops, jitter, pair, length"},
           Case{path + ",jitter=0,pair=" + pair, "key jitter='0'"},
           Case{path + ",jitter=2M,pair=" + pair, "key jitter='2M'"},
           Case{path + ",pair=" + path,
                "both were recorded at the length 1024"},
           Case{path + ",pair=" + unnamed,
                "model.pickle: the file's name holds no number that would be "
                "its sequence length; give key pair_length"},
           Case{unnamed + ",pair=" + pair, "give key length"},
           Case{path + ",pair=" + WriteFile("x_9999999.pickle", "x"),
                "'9999999' in the file's name is no sequence length"},
           Case{path + ",pair=" + WriteFile("x_512.pickle", "x"),
                "x_512.pickle: "},
           Case{path + ",pair=" + other,
                "not the same program at the lengths 1024 and 512: "},
       }) {
    EXPECT_THAT(OpenTrace(c.spec), StatusIs(kInvalid, HasSubstr(c.message)))
        << c.spec;
  }
  EXPECT_THAT(OpenTrace(path + ",pair=" + pair + ".absent_1.pickle"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent_1")));
  // Neither name has a number, but the missing file is the better reason.
  EXPECT_THAT(OpenTrace(unnamed + ",pair=" + unnamed + ".absent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(".absent")));
}

TEST(TorchLoopsTest, RefusesLoopsThatOverflowTime) {
  const std::string path = WriteFile(
      "long", Snapshot({{Entry("alloc", 1, 64, 0),
                         Entry("free_completed", 1, 64, int64_t{1} << 61)}}));
  EXPECT_EQ(EventsOf(path).size(), 2u);
  EXPECT_THAT(OpenTrace(path + ",loops=2"),
              StatusIs(kInvalid, HasSubstr("give fewer loops")));
}

TEST(TorchLoopsTest, RefusesARecordingThatAloneOverflowsTime) {
  const std::string path = WriteFile(
      "endless", Snapshot({{Entry("alloc", 1, 64, 0),
                            Entry("free_completed", 1, 64, INT64_MAX)}}));
  EXPECT_THAT(OpenTrace(path), StatusIs(kInvalid, HasSubstr("the recording")));
}

TEST(TorchLoopsTest, ScaledSizesBeyondAnyDeviceEndTheTrace) {
  const auto program = [](int64_t length) {
    return Snapshot({{Entry("alloc", 1, length * length << 40, 1)}});
  };
  const std::string path = WriteFile("m_32", program(32));
  const std::string pair = WriteFile("m_16", program(16));
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      OpenTrace(absl::StrCat(path, ",jitter=1M,pair=", pair)));
  absl::Status status;
  Gather(trace.get(), &status);
  EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("beyond 4 EiB")));
}

TEST(TorchLoopsTest, ThePublicPairLoopsWithSevenLengths) {
  FIRN_PUBLIC_TRACE_OR_SKIP(
      path, "pytorch_snapshots/medium_1024_training_memory_snapshot.pickle");
  FIRN_PUBLIC_TRACE_OR_SKIP(
      pair, "pytorch_snapshots/medium_512_training_memory_snapshot.pickle");
  FIRN_ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<TraceSource> trace,
      OpenTrace(absl::StrCat(path, ",loops=129,pair=", pair)));
  TraceEvent event;
  uint64_t events = 0;
  uint64_t unknown = 0;
  uint64_t live_bytes = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t greatest_id = 0;
  while (*trace->Next(&event)) {
    ++events;
    greatest_id = std::max(greatest_id, event.id);
    if (event.kind == TraceEventKind::kAllocate) {
      live_bytes += event.bytes;
      peak_live_bytes = std::max(peak_live_bytes, live_bytes);
    } else if (event.kind == TraceEventKind::kFree) {
      live_bytes -= event.bytes;
    } else {
      ++unknown;
    }
  }
  // Of 14,961 entries; every loop but the first also frees the 221 of 659
  // blocks left alive that none of the 438 unknown frees takes.
  EXPECT_EQ(events, 129u * 14961u + 128u * 221u);
  // Only the first loop does not know what they free.
  EXPECT_EQ(unknown, 438u);
  EXPECT_EQ(event.time_us, 129 * (646'688 + 1) - 1);
  // The first loop's peak and what the unknown frees will free: 3.15 GiB.
  EXPECT_NEAR(static_cast<double>(peak_live_bytes) / (1 << 30), 20.952, 0.001);
  EXPECT_LT(greatest_id, 2500u);
}

}  // namespace
}  // namespace firn::bench
