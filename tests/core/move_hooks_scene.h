// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool with something to move, and hooks that note what they are told.

#ifndef FIRN_TESTS_CORE_MOVE_HOOKS_SCENE_H_
#define FIRN_TESTS_CORE_MOVE_HOOKS_SCENE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "firn/core/move_hooks.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmented_pool.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

inline constexpr uint64_t kGranule = 2 * kMiB;
inline constexpr uint64_t kBlockBytes = 256 * kKiB;

using Blocks = absl::Span<const MovingBlock>;

// What a hook was told.
struct Told {
  std::vector<MovingBlock> before;
  std::vector<MovingBlock> after;
  int before_calls = 0;
  int after_calls = 0;
};

class MoveHooksScene : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(64 * kMiB, /*move_on_failure=*/false); }

  void MakePool(uint64_t capacity_bytes, bool move_on_failure) {
    blocks_.clear();
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Real(capacity_bytes, move_on_failure, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }

  // Fills the pool and frees all but every `keep`-th block.
  void Fragment(uint64_t bytes = kBlockBytes, uint64_t keep = 8) {
    blocks_ = FragmentPool(&pool(), bytes, keep);
  }

  // A hook that only notes what it is told.
  MoveHookRegistration Note(Told* told) {
    MoveHook hook;
    hook.before_move = [told](Blocks blocks) {
      told->before.insert(told->before.end(), blocks.begin(), blocks.end());
      ++told->before_calls;
      return absl::OkStatus();
    };
    hook.after_move = [told](Blocks blocks) {
      told->after.insert(told->after.end(), blocks.begin(), blocks.end());
      ++told->after_calls;
    };
    return Add(std::move(hook));
  }

  MoveHookRegistration Add(MoveHook hook) {
    absl::StatusOr<MoveHookRegistration> added =
        pool().AddMoveHook(std::move(hook));
    FIRN_EXPECT_OK(added.status());
    return added.ok() ? *std::move(added) : MoveHookRegistration();
  }

  std::map<void*, uint64_t> Generations() {
    std::map<void*, uint64_t> generations;
    for (const FilledBlock& block : blocks_) {
      const absl::StatusOr<uint64_t> generation = pool().Generation(block.ptr);
      FIRN_EXPECT_OK(generation.status());
      generations[block.ptr] = generation.value_or(0);
    }
    return generations;
  }

  void Forget(const std::set<void*>& freed) {
    blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(),
                                 [&freed](const FilledBlock& block) {
                                   return freed.count(block.ptr) == 1;
                                 }),
                  blocks_.end());
  }

  void ExpectSound() {
    EXPECT_EQ(CountDamaged(blocks_), 0u);
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> blocks_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_MOVE_HOOKS_SCENE_H_
