// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The move hooks of a sequence of operations: checks that they are told the
// truth, in order, and that nothing moves behind their backs.

#ifndef FIRN_TESTS_CORE_PROPERTY_HOOK_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_HOOK_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/core/move_hooks.h"
#include "firn/core/pool.h"
#include "tests/core/property/account.h"
#include "tests/core/property/idle_account.h"
#include "tests/core/property/pin_account.h"
#include "tests/core/property/shadow.h"

namespace firn::testing::property {

class HookAccount : public Account {
 public:
  static constexpr size_t kMostHooks = 3;

  // What a hook does with what it is told.
  struct Conduct {
    // Refuses every so-manieth move; 0: none.
    uint32_t veto_every = 0;
    // Called before each move, unless empty; changes what lives. Returns
    // whether it has.
    std::function<bool(absl::Span<const MovingBlock> blocks)> meddle;
  };

  // Owns none; all must outlive all calls of hooks. Where a block may lie on
  // several sources, one veto may keep them all.
  HookAccount(Shadow* shadow, const PinAccount* pins, const IdleAccount* idle,
              bool one_source_each)
      : shadow_(shadow),
        pins_(pins),
        idle_(idle),
        one_source_each_(one_source_each) {}
  HookAccount(const HookAccount&) = delete;
  HookAccount& operator=(const HookAccount&) = delete;

  bool is_full() const { return hooks_.size() == kMostHooks; }
  // While it is not, no block can move without being announced.
  bool empty() const { return hooks_.empty(); }
  absl::Status Add(Pool* pool, Conduct conduct);
  // The hook with this number, by its remainder; nothing happens without hooks.
  void GiveUp(uint32_t number);

  // Hooks called so far before moves, and refusals among them.
  uint64_t calls() const { return calls_; }
  uint64_t vetoes() const { return vetoes_; }
  // Blocks of which they were told that they have moved.
  uint64_t moves_told() const { return moves_told_; }
  // Whether a hook has changed what lives during this operation.
  bool has_meddled() const { return has_meddled_; }

  void Removed(const LiveBlock& block) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;

 private:
  struct Hook {
    uint64_t id = 0;
    Conduct conduct;
    uint64_t calls = 0;
    MoveHookRegistration registration;
  };
  // One granule that is about to be emptied.
  struct Announcement {
    std::vector<MovingBlock> blocks;  // as announced
    std::vector<MovingBlock> left;    // those not freed since
    size_t asked = 0;                 // hooks
    bool is_vetoed = false;
    std::vector<uint64_t> to_hear;  // of its end
  };

  absl::Status BeforeMove(const Pool& pool, uint64_t id,
                          absl::Span<const MovingBlock> blocks);
  void AfterMove(const Pool& pool, uint64_t id,
                 absl::Span<const MovingBlock> blocks);
  // A granule is announced to the first hook.
  void CheckAnnounced(const Pool& pool, absl::Span<const MovingBlock> blocks);
  void CheckConcluded(const Pool& pool, const Announcement& announcement,
                      absl::Span<const MovingBlock> blocks);
  void Fail(absl::string_view what);

  Shadow* const shadow_;
  const PinAccount* const pins_;
  const IdleAccount* const idle_;
  const bool one_source_each_;
  std::vector<Hook> hooks_;  // in the order in which they were added
  std::vector<Announcement> open_;
  uint64_t last_id_ = 0;
  uint64_t calls_ = 0;
  uint64_t vetoes_ = 0;
  uint64_t moves_told_ = 0;
  bool has_meddled_ = false;
  // Of the last operation.
  uint64_t last_vetoes_ = 0;
  uint64_t last_vetoed_sources_ = 0;
  std::string failure_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_HOOK_ACCOUNT_H_
