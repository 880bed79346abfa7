// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of a pool of which a tenth is left alive, everywhere.

#ifndef FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_SCENE_H_
#define FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_SCENE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// Made of blocks of 64 KiB, which are checked at the end.
class FragmentedPoolScene : public ::testing::TestWithParam<CpuSync> {
 protected:
  static constexpr uint64_t kBlockBytes = 64 * kKiB;

  explicit FragmentedPoolScene(uint64_t capacity_bytes)
      : capacity_bytes_(capacity_bytes) {}

  void SetUp() override { MakePool(); }
  void TearDown() override {
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
    EXPECT_EQ(on_cpu_->cpu().loss(), "");
  }

  // In the place of an earlier one.
  void MakePool() {
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Real(capacity_bytes_, /*move_on_failure=*/false,
                                 GetParam()));
    blocks_ = FragmentPool(&pool(), kBlockBytes, 10);
  }

  Pool& pool() { return on_cpu_->pool(); }
  uint64_t WasteBytes() {
    const PoolUsage usage = pool().GetUsage();
    return usage.used_bytes - usage.live_bytes;
  }

  const uint64_t capacity_bytes_;
  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> blocks_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FRAGMENTED_POOL_SCENE_H_
