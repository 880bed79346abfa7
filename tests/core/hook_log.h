// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Two move hooks that note what they are told, and what has to be true of it.

#ifndef FIRN_TESTS_CORE_HOOK_LOG_H_
#define FIRN_TESTS_CORE_HOOK_LOG_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "firn/core/move_hooks.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// Thread safety: none. Hooks are called by the thread that makes the pass.
class HookLog {
 public:
  static constexpr size_t kHooks = 2;

  // A batch of a pass, as the hooks saw it.
  struct Batch {
    uint64_t sources = 0;
    uint64_t moved_sources = 0;
    // Blocks that were told of, those that were freed meanwhile included.
    uint64_t blocks = 0;
    uint64_t moved_blocks = 0;
  };

  void Register(Pool* pool) {
    for (size_t i = 0; i < kHooks; ++i) {
      MoveHook hook;
      hook.before_move = [this, i](absl::Span<const MovingBlock> blocks) {
        Note(i, /*is_before=*/true, blocks);
        return absl::OkStatus();
      };
      hook.after_move = [this, i](absl::Span<const MovingBlock> blocks) {
        Note(i, /*is_before=*/false, blocks);
      };
      absl::StatusOr<MoveHookRegistration> added =
          pool->AddMoveHook(std::move(hook));
      FIRN_EXPECT_OK(added.status());
      if (added.ok()) registrations_[i] = *std::move(added);
    }
  }
  // `on_call` is called within each call of a hook, until another one is set.
  void SetOnCall(std::function<void()> on_call) {
    on_call_ = std::move(on_call);
  }

  // Checks that each hook was told of each source before and after, in order,
  // and that a source moved whole or not at all. With `exact` no block was
  // freed meanwhile. Returns the batches.
  std::vector<Batch> CheckBatches(bool exact) const {
    std::vector<Batch> batches;
    for (size_t at = 0; at < calls_.size();) {
      const size_t begin = at;
      while (at < calls_.size() && calls_[at].is_before) ++at;
      const size_t told = at - begin;
      if (told == 0 || told % kHooks != 0 || calls_.size() - at < told) {
        ADD_FAILURE() << "call " << begin << " of " << calls_.size() << ": "
                      << told << " calls before a move, " << calls_.size() - at
                      << " calls follow them";
        return batches;
      }
      Batch batch;
      for (size_t i = 0; i < told; ++i) {
        const Call& before = calls_[begin + i];
        const Call& after = calls_[at + i];
        EXPECT_EQ(before.hook, i % kHooks);
        EXPECT_EQ(after.hook, i % kHooks);
        EXPECT_FALSE(after.is_before);
        EXPECT_FALSE(before.blocks.empty());
        if (exact) {
          EXPECT_EQ(after.blocks.size(), before.blocks.size());
        }
        const uint64_t moved = CountMoved(before, after);
        if (i % kHooks != 0) continue;
        ++batch.sources;
        batch.blocks += before.blocks.size();
        batch.moved_blocks += moved;
        if (moved > 0) ++batch.moved_sources;
      }
      batches.push_back(batch);
      at += told;
    }
    return batches;
  }

 private:
  struct Call {
    size_t hook = 0;
    bool is_before = false;
    std::vector<MovingBlock> blocks;
  };

  void Note(size_t hook, bool is_before, absl::Span<const MovingBlock> blocks) {
    Call call;
    call.hook = hook;
    call.is_before = is_before;
    call.blocks.assign(blocks.begin(), blocks.end());
    calls_.push_back(std::move(call));
    if (on_call_) on_call_();
  }

  // Of the blocks of one source: those that moved, which is all or none.
  static uint64_t CountMoved(const Call& before, const Call& after) {
    uint64_t moved = 0;
    for (const MovingBlock& block : after.blocks) {
      const auto told = std::find_if(
          before.blocks.begin(), before.blocks.end(),
          [&block](const MovingBlock& b) { return b.ptr == block.ptr; });
      if (told == before.blocks.end()) {
        ADD_FAILURE() << "a block that was not announced";
        continue;
      }
      EXPECT_EQ(told->new_generation, told->old_generation);
      EXPECT_EQ(block.old_generation, told->old_generation);
      EXPECT_GE(block.new_generation, block.old_generation);
      if (block.new_generation > block.old_generation) ++moved;
    }
    EXPECT_TRUE(moved == 0 || moved == after.blocks.size())
        << moved << " of " << after.blocks.size() << " blocks of a source";
    return moved;
  }

  std::function<void()> on_call_;
  std::vector<Call> calls_;
  // The last ones: they go first, and hold the hooks.
  std::array<MoveHookRegistration, kHooks> registrations_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_HOOK_LOG_H_
