// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool exports of itself is read by our own readers, and by Python, as
// the files of others are.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/traces/pickle_document.h"
#include "bench/traces/torch_entries.h"
#include "bench/traces/trace.h"
#include "bench/traces/unpickler.h"
#include "firn/core/pool.h"
#include "firn/core/snapshot_export.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/program_run.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_path.h"

namespace firn::bench {
namespace {

using ::firn::testing::Ended;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::RunProgram;
using ::firn::testing::TemporaryPath;

// What the viewer asserts of a snapshot, with an unpickler that imports
// nothing; the arguments are the file, and the live bytes of the pool.
constexpr char kViewer[] = R"(
import pickle, sys

class Restricted(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("imports " + module + "." + name)

with open(sys.argv[1], "rb") as file:
    data = Restricted(file).load()
assert set(data) == {"segments", "device_traces", "allocator_settings",
                     "external_annotations"}, data.keys()
def check_frames(frames):
    for frame in frames:
        assert type(frame["name"]) is str and type(frame["filename"]) is str
        assert type(frame["line"]) is int
live = 0
tagged = 0
end = 0
for segment in data["segments"]:
    assert segment["address"] >= end
    at = segment["address"]
    end = at + segment["total_size"]
    allocated = active = requested = inactive = internal = 0
    for block in segment["blocks"]:
        assert block["address"] == at
        at += block["size"]
        assert block["requested_size"] <= block["size"]
        check_frames(block["frames"])
        tagged += any(f["name"] == "tag: weights" for f in block["frames"])
        if block["state"] == "inactive":
            inactive += block["size"]
            continue
        assert block["state"] in ("active_allocated", "active_pending_free")
        active += block["size"]
        requested += block["requested_size"]
        internal += block["size"] - block["requested_size"]
        if block["state"] == "active_allocated":
            allocated += block["size"]
            live += block["requested_size"]
    assert at == end
    assert inactive + internal + requested == segment["total_size"]
    assert allocated == segment["allocated_size"]
    assert active == segment["active_size"]
    assert requested == segment["requested_size"]
    assert segment["segment_type"] in ("small", "large")
    assert type(segment["segment_pool_id"]) is tuple
    assert segment["is_expandable"] is True
    check_frames(segment["frames"])
assert live == int(sys.argv[2]), (live, sys.argv[2])
assert tagged == 1, tagged
actions = {}
traced = {}
time_us = 0
for entry in data["device_traces"][0]:
    actions[entry["action"]] = actions.get(entry["action"], 0) + 1
    check_frames(entry["frames"])
    assert entry["time_us"] >= time_us
    time_us = entry["time_us"]
    if entry["action"] == "oom":
        assert type(entry["device_free"]) is int and "addr" not in entry
    if entry["action"] == "alloc":
        assert entry["addr"] not in traced
        traced[entry["addr"]] = entry["size"]
    if entry["action"] == "free_completed":
        assert traced.pop(entry["addr"]) == entry["size"]
assert sum(traced.values()) == live
assert actions["oom"] == 1
assert actions["free_requested"] == actions["free_completed"]
assert actions["segment_map"] > actions["segment_unmap"] > 0
assert [a["stage"] for a in data["external_annotations"]] == ["START", "END"]
assert any(f["name"] != "" for e in data["device_traces"][0]
           for f in e["frames"])
print("good")
)";

// A pool with everything that a file can tell of.
class PoolSnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CpuDriverOptions driver;
    driver.storage = CpuStorage::kGhost;
    driver.device_bytes = 128 * kMiB;
    PoolOptions options;
    options.capacity_bytes = 64 * kMiB;
    options.history_entries = 1 << 16;
    options.history_stacks = true;
    options.rmm_log = log_path_;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, PoolOnCpu::Create(driver, options));
    FIRN_ASSERT_OK_AND_ASSIGN(const Tag tag, pool().RegisterTag("weights"));
    AllocateOptions tagged;
    tagged.tag = tag;
    FIRN_ASSERT_OK(pool().Allocate(3 * kMiB + 700, tagged).status());
    EXPECT_FALSE(pool().Allocate(100 * kMiB).ok());
    std::mt19937_64 random(3);
    std::vector<void*> blocks;
    for (int i = 0; i < 2000; ++i) {
      const absl::StatusOr<void*> ptr =
          pool().Allocate(1 + random() % (20 * kKiB));
      FIRN_ASSERT_OK(ptr.status());
      blocks.push_back(*ptr);
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % 10 == 0) continue;
      FIRN_ASSERT_OK(pool().Free(blocks[i]));
    }
    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
    ASSERT_GT(report.moves, 0u);
    // From two streams on, frees are requested first and completed later.
    AllocateOptions other;
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&other.stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    for (int i = 0; i < 20; ++i) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                                pool().Allocate(3 * kMiB, other));
      FIRN_ASSERT_OK(pool().Free(ptr, other.stream));
    }
    FIRN_ASSERT_OK(pool().Trim().status());
  }
  void TearDown() override { std::remove(log_path_.c_str()); }

  Pool& pool() { return on_cpu_->pool(); }

  // Requested bytes that are live, by address.
  std::map<uint64_t, uint64_t> LiveBlocks() {
    std::map<uint64_t, uint64_t> live;
    for (const MemorySegment& segment : pool().TakeMemorySnapshot().segments) {
      for (const MemoryBlock& block : segment.blocks) {
        if (block.state != MemoryBlockState::kAllocated) continue;
        live.emplace(block.address, block.requested_bytes);
      }
    }
    return live;
  }

  const std::string log_path_ = TemporaryPath("pool_log.csv");
  std::unique_ptr<PoolOnCpu> on_cpu_;
};

TEST_F(PoolSnapshotTest, IsReadBackAsATrace) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::vector<TorchTraceEntry> entries,
      ReadTorchSnapshot("pool", SnapshotToPickle(pool().TakeMemorySnapshot())));
  std::map<uint64_t, uint64_t> live;
  for (const TorchTraceEntry& entry : entries) {
    if (entry.allocates) {
      EXPECT_TRUE(live.emplace(entry.address, entry.bytes).second);
    } else {
      EXPECT_EQ(live.count(entry.address), 1u);
      live.erase(entry.address);
    }
  }
  EXPECT_EQ(live, LiveBlocks());
}

TEST_F(PoolSnapshotTest, HasTheNamesOfFunctionsOnItsStacks) {
  const std::string file = SnapshotToPickle(pool().TakeMemorySnapshot());
  EXPECT_NE(file.find("PoolSnapshotTest"), std::string::npos);
  const History history = pool().GetHistory();
  EXPECT_FALSE(SymboliseFrame(history.events.front().stack.front()).empty());
  EXPECT_EQ(SymboliseFrame(reinterpret_cast<const void*>(16)), "0x10");
}

TEST_F(PoolSnapshotTest, HoldsUpToWhatTheViewerAsserts) {
  if (RunProgram("python3 -c 'print(42)'").output != "42\n") {
    GTEST_SKIP() << "there is no python3";
  }
  const std::string path = TemporaryPath("pool_snapshot.pickle");
  const std::string script = TemporaryPath("viewer.py");
  std::ofstream(path, std::ios::binary)
      << SnapshotToPickle(pool().TakeMemorySnapshot());
  std::ofstream(script) << kViewer;
  const Ended ended = RunProgram(absl::StrCat(
      "python3 ", script, " ", path, " ", pool().GetStats().live_bytes));
  EXPECT_EQ(ended.output, "good\n");
  EXPECT_EQ(ended.exit_status, 0);
  std::remove(path.c_str());
  std::remove(script.c_str());
}

TEST_F(PoolSnapshotTest, ALogOfThePoolIsReplayed) {
  const std::map<uint64_t, uint64_t> blocks = LiveBlocks();
  const PoolStats stats = pool().GetStats();
  on_cpu_->DestroyPool();  // writes the rest
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<TraceSource> trace,
                            OpenTrace(log_path_));
  std::map<uint64_t, uint64_t> live;
  uint64_t allocations = 0;
  TraceEvent event;
  int64_t time_us = 0;
  while (true) {
    FIRN_ASSERT_OK_AND_ASSIGN(const bool is_there, trace->Next(&event));
    if (!is_there) break;
    EXPECT_GE(event.time_us, time_us);
    time_us = event.time_us;
    if (event.kind == TraceEventKind::kAllocate) {
      ++allocations;
      live.emplace(event.id, event.bytes);
    } else {
      ASSERT_EQ(event.kind, TraceEventKind::kFree);
      EXPECT_EQ(live.erase(event.id), 1u);
    }
  }
  EXPECT_EQ(allocations, stats.allocations);
  uint64_t live_bytes = 0;
  for (const auto& [id, bytes] : live) live_bytes += bytes;
  EXPECT_EQ(live.size(), blocks.size());
  EXPECT_EQ(live_bytes, stats.live_bytes);
}

TEST_F(PoolSnapshotTest, ALogNamesFailures) {
  on_cpu_->DestroyPool();
  std::ifstream file(log_path_);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str().rfind("Thread,Time,Action,Pointer,Size,Stream\n", 0),
            0u);
  EXPECT_NE(text.str().find(
                absl::StrCat(",allocate failure,0x0,", 100 * kMiB, ",0x0\n")),
            std::string::npos);
}

}  // namespace
}  // namespace firn::bench
