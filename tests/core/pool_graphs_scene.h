// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool, a stream to capture on, and a graph of temporaries in a graph-private
// pool; under both extremes of the driver, and where nothing can move as well.

#ifndef FIRN_TESTS_CORE_POOL_GRAPHS_SCENE_H_
#define FIRN_TESTS_CORE_POOL_GRAPHS_SCENE_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stream_capture.h"

namespace firn::testing {

inline constexpr GraphPoolId kId{7};
inline constexpr uint64_t kCapacityBytes = 32 * kMiB;

struct GraphSetting {
  CpuSync sync = CpuSync::kLazy;
  bool moves = true;
};

inline std::vector<GraphSetting> GraphSettings() {
  std::vector<GraphSetting> settings;
  for (const CpuSync sync : {CpuSync::kLazy, CpuSync::kDraining}) {
    for (const bool moves : {true, false}) settings.push_back({sync, moves});
  }
  return settings;
}

inline std::string GraphSettingName(
    const ::testing::TestParamInfo<GraphSetting>& info) {
  return std::string(info.param.sync == CpuSync::kLazy ? "Lazy" : "Draining") +
         (info.param.moves ? "Moving" : "Fixed");
}

class PoolGraphsScene : public ::testing::TestWithParam<GraphSetting> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<PoolOnCpu>> on_cpu =
        GetParam().moves
            ? PoolOnCpu::Real(kCapacityBytes, /*move_on_failure=*/true,
                              GetParam().sync)
            : MakeFixedPool(kCapacityBytes, GetParam().sync);
    FIRN_ASSERT_OK(on_cpu.status());
    on_cpu_ = std::move(*on_cpu);
    capture_ = std::make_unique<StreamCapture>(&cpu());
  }
  void TearDown() override {
    if (on_cpu_ == nullptr) return;
    if (pool_is_there_) {
      FIRN_EXPECT_OK(pool().CheckInvariants());
    }
    EXPECT_EQ(cpu().loss(), "");
    on_cpu_->DestroyPool();
    capture_.reset();
  }

  Pool& pool() { return on_cpu_->pool(); }
  CpuDriver& cpu() { return on_cpu_->cpu(); }
  StreamCapture& capture() { return *capture_; }
  StreamHandle stream() { return capture_->stream(); }

  absl::StatusOr<void*> AllocateOn(StreamHandle stream, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream;
    return pool().Allocate(bytes, options);
  }
  // Queues a copy of all of `from`.
  void Copy(void* to, const FilledBlock& from) {
    KernelRange read;
    read.address = reinterpret_cast<uintptr_t>(from.ptr);
    read.bytes = from.bytes;
    KernelRange written;
    written.address = reinterpret_cast<uintptr_t>(to);
    written.bytes = from.bytes;
    written.writes = true;
    ASSERT_EQ(cpu().LaunchKernel(
                  stream(), {read, written},
                  [to, from] { std::memcpy(to, from.ptr, from.bytes); }),
              DriverResult::kSuccess);
  }
  // Captures a graph with temporaries of this size: the second one is where the
  // first one was. What they hold is copied to results_, which are kept.
  void CaptureTemporaries(uint64_t bytes) {
    FilledBlock temporary;
    temporary.bytes = bytes;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* const block, AllocateOn(stream(), bytes));
      if (seed == 2) {
        EXPECT_EQ(block, temporary.ptr);
      }
      temporary.ptr = block;
      temporary.seed = seed;
      ASSERT_EQ(FillOnStream(&cpu(), temporary, stream()),
                DriverResult::kSuccess);
      FilledBlock result = temporary;
      FIRN_ASSERT_OK_AND_ASSIGN(result.ptr, AllocateOn(stream(), bytes));
      Copy(result.ptr, temporary);
      results_.push_back(result);
      FIRN_ASSERT_OK(pool().Free(block, stream()));
    }
    temporaries_.push_back(temporary);
  }
  // A graph of temporaries of several sizes, in the pool kId.
  void CaptureGraph() {
    FIRN_ASSERT_OK(pool().BeginPool(kId, {stream()}));
    ASSERT_EQ(capture().Begin(), DriverResult::kSuccess);
    for (const uint64_t bytes : {uint64_t{700}, 300 * kKiB, 3 * kMiB + 512}) {
      ASSERT_NO_FATAL_FAILURE(CaptureTemporaries(bytes));
    }
    ASSERT_EQ(capture().End(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool().EndPool(kId));
  }
  void RunGraph() {
    for (const FilledBlock& result : results_) {
      std::memset(result.ptr, 0, result.bytes);
    }
    ASSERT_EQ(capture().Run(), DriverResult::kSuccess);
    EXPECT_EQ(CountDamaged(results_), 0u);
  }
  // Ordinary blocks until nothing fits any more.
  std::vector<FilledBlock> FillUp(uint64_t bytes = 64 * kKiB) {
    std::vector<FilledBlock> blocks;
    for (uint64_t seed = 100;; ++seed) {
      const absl::StatusOr<void*> block = pool().Allocate(bytes);
      if (!block.ok()) break;
      blocks.push_back({*block, bytes, seed});
      Fill(blocks.back());
    }
    return blocks;
  }
  void FreeAll(std::vector<FilledBlock>* blocks) {
    for (const FilledBlock& block : *blocks) {
      FIRN_EXPECT_OK(pool().Free(block.ptr));
    }
    blocks->clear();
  }
  static bool Overlap(const FilledBlock& a, const FilledBlock& b) {
    const char* const at_a = static_cast<const char*>(a.ptr);
    const char* const at_b = static_cast<const char*>(b.ptr);
    return at_a < at_b + b.bytes && at_b < at_a + a.bytes;
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::unique_ptr<StreamCapture> capture_;
  std::vector<FilledBlock> results_;      // live, in the graph's pool
  std::vector<FilledBlock> temporaries_;  // freed there
  bool pool_is_there_ = true;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_POOL_GRAPHS_SCENE_H_
