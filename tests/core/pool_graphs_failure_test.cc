// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of the pool fails once while a graph is captured on its
// memory, launched and given up: trying again succeeds, the capture is not
// broken, and nothing is lost.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FillOnStream;
using ::firn::testing::FreeBytes;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::StreamCapture;
using ::firn::testing::WithoutVirtualMemory;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr GraphPoolId kId{3};
constexpr uint64_t kGranule = 64 * kKiB;
constexpr uint64_t kDeviceBytes = 4 * kMiB;

// The pool's calls go through `faults`, the test's own do not.
class Scenario {
 public:
  Scenario(CpuDriver* cpu, FaultingDriver* faults, Pool* pool)
      : cpu_(cpu), faults_(faults), pool_(pool), capture_(cpu) {}

  void Run() {
    // Something freed without a token, that the first BeginPool waits for.
    FilledBlock early;
    ASSERT_NO_FATAL_FAILURE(Allocate(nullptr, 100 * kKiB, &early));
    FilledBlock ordinary;
    ordinary.seed = 50;
    ASSERT_NO_FATAL_FAILURE(Allocate(nullptr, 40 * kKiB, &ordinary));
    Fill(ordinary);
    live_.push_back(ordinary);
    ASSERT_NO_FATAL_FAILURE(Free(early, nullptr));
    Retry("BeginPool",
          [this] { return pool_->BeginPool(kId, {capture_.stream()}); });

    ASSERT_EQ(capture_.Begin(), kOk);
    std::vector<FilledBlock> temporaries;
    for (const uint64_t bytes : {3 * kKiB, 30 * kKiB, 200 * kKiB}) {
      FilledBlock temporary;
      ASSERT_NO_FATAL_FAILURE(Allocate(capture_.stream(), bytes, &temporary));
      ASSERT_NO_FATAL_FAILURE(Free(temporary, capture_.stream()));
      temporaries.push_back(temporary);
    }
    for (const FilledBlock& temporary : temporaries) {
      FilledBlock again;
      ASSERT_NO_FATAL_FAILURE(
          Allocate(capture_.stream(), temporary.bytes, &again));
      EXPECT_EQ(again.ptr, temporary.ptr);
      again.seed = temporary.bytes;
      ASSERT_EQ(FillOnStream(cpu_, again, capture_.stream()), kOk);
      outputs_.push_back(again);
    }
    Retry("RecordUse", [this] {
      return pool_->RecordUse(outputs_[0].ptr, capture_.stream());
    });
    // Of no graph, meanwhile.
    ASSERT_NO_FATAL_FAILURE(Allocate(nullptr, 10 * kKiB, &ordinary));
    ASSERT_NO_FATAL_FAILURE(Free(ordinary, nullptr));
    ASSERT_EQ(capture_.End(), kOk);
    Retry("EndPool", [this] { return pool_->EndPool(kId); });
    RunGraph();

    // The graph's own memory is freed, moves along and is still its own.
    const FilledBlock freed = outputs_.back();
    ASSERT_NO_FATAL_FAILURE(Free(freed, capture_.stream()));
    if (pool_->GetStats().moving) {
      Retry("Compact", [this] { return pool_->Compact().status(); });
    }
    Retry("Trim", [this] { return pool_->Trim().status(); });
    RunGraph();

    Retry("ReleasePool", [this] { return pool_->ReleasePool(kId); });
    outputs_.pop_back();
    FilledBlock large;
    large.seed = 60;
    ASSERT_NO_FATAL_FAILURE(Allocate(nullptr, LargestFit(), &large));
    Fill(large);
    EXPECT_EQ(CountDamaged(outputs_), 0u);
    ASSERT_NO_FATAL_FAILURE(Free(large, nullptr));
    for (const FilledBlock& output : outputs_) {
      ASSERT_NO_FATAL_FAILURE(Free(output, capture_.stream()));
    }
    outputs_.clear();
    ASSERT_NO_FATAL_FAILURE(Free(live_[0], nullptr));
    live_.clear();
    // Trim polls what the streams are done with.
    ASSERT_EQ(cpu_->CtxSynchronize(), kOk);
    Retry("Trim", [this] { return pool_->Trim().status(); });
    FIRN_ASSERT_OK(pool_->Trim().status());
    const PoolStats stats = pool_->GetStats();
    EXPECT_EQ(stats.held_bytes, 0u);
    EXPECT_EQ(stats.graph_pools, 0u);
    EXPECT_EQ(stats.graph_pool_bytes, 0u);
    EXPECT_EQ(stats.pending_free_bytes, 0u);
  }

 private:
  // Needs what the released pool has left; where nothing moves, less, as the
  // failure may have made segments small.
  uint64_t LargestFit() const {
    return pool_->GetStats().moving ? 620 * kKiB : 350 * kKiB;
  }
  void RunGraph() {
    for (const FilledBlock& output : outputs_) {
      Fill({output.ptr, output.bytes, output.seed + 1});
    }
    ASSERT_EQ(capture_.Run(), kOk);
    EXPECT_EQ(CountDamaged(outputs_), 0u);
    EXPECT_EQ(CountDamaged(live_), 0u);
  }
  void Retry(const char* name, const std::function<absl::Status()>& operation) {
    SCOPED_TRACE(name);
    const PoolStats before = pool_->GetStats();
    const absl::Status status = operation();
    // Not before the failure on order: it is to meet an operation.
    if (faults_->failures() > 0) {
      FIRN_EXPECT_OK(pool_->CheckInvariants());
    }
    EXPECT_EQ(CountDamaged(live_), 0u);
    if (status.ok()) return;
    EXPECT_GT(faults_->failures(), 0u) << status;
    const PoolStats after = pool_->GetStats();
    EXPECT_EQ(after.live_bytes, before.live_bytes);
    EXPECT_EQ(after.graph_pools, before.graph_pools);
    EXPECT_EQ(after.graph_pool_bytes, before.graph_pool_bytes);
    FIRN_ASSERT_OK(operation());
    FIRN_EXPECT_OK(pool_->CheckInvariants());
  }
  void Allocate(StreamHandle stream, uint64_t bytes, FilledBlock* block) {
    AllocateOptions options;
    options.stream = stream;
    block->bytes = bytes;
    Retry("Allocate", [&] {
      const absl::StatusOr<void*> result = pool_->Allocate(bytes, options);
      if (result.ok()) block->ptr = *result;
      return result.status();
    });
  }
  void Free(const FilledBlock& block, StreamHandle stream) {
    Retry("Free", [&] { return pool_->Free(block.ptr, stream); });
  }

  CpuDriver* const cpu_;
  FaultingDriver* const faults_;
  Pool* const pool_;
  StreamCapture capture_;
  std::vector<FilledBlock> live_;     // ordinary ones
  std::vector<FilledBlock> outputs_;  // of the graph
};

struct Setting {
  DriverResult result = DriverResult::kUnknown;
  bool moves = true;
};

class PoolGraphsFailureTest : public ::testing::TestWithParam<Setting> {};

TEST_P(PoolGraphsFailureTest, EveryCallOfAWholeScenarioMayFail) {
  CpuDriverOptions driver_options = WithoutVirtualMemory(kDeviceBytes);
  driver_options.virtual_memory = GetParam().moves;
  driver_options.granularity_bytes = kGranule;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(driver_options));
  FaultingDriver faults(cpu.get());
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&faults, [](Driver*) {});
  // Just enough.
  options.capacity_bytes = GetParam().moves ? 800 * kKiB : 1024 * kKiB;
  uint64_t forced = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(::testing::Message() << "call " << n);
    faults.Reset();
    FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool,
                              Pool::Create(options));
    faults.Reset();
    faults.FailNth(n, GetParam().result);
    uint64_t failures = 0;
    {
      Scenario scenario(cpu.get(), &faults, pool.get());
      ASSERT_NO_FATAL_FAILURE(scenario.Run());
      failures = faults.failures();
      faults.Reset();
    }
    pool.reset();
    EXPECT_EQ(cpu->loss(), "");
    EXPECT_EQ(FreeBytes(*cpu), kDeviceBytes);
    if (HasFailure()) return;
    if (failures == 0) break;
    ++forced;
  }
  EXPECT_GT(forced, 40u);
}

INSTANTIATE_TEST_SUITE_P(
    Results, PoolGraphsFailureTest,
    ::testing::Values(Setting{DriverResult::kOutOfMemory, true},
                      Setting{DriverResult::kUnknown, true},
                      Setting{DriverResult::kOutOfMemory, false},
                      Setting{DriverResult::kUnknown, false}),
    [](const ::testing::TestParamInfo<Setting>& info) {
      return std::string(info.param.result == DriverResult::kOutOfMemory
                             ? "OutOfMemory"
                             : "Unknown") +
             (info.param.moves ? "Moving" : "Fixed");
    });

}  // namespace
}  // namespace firn
