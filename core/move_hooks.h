// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Move hooks: what keeps something derived from where a pool's memory lies
// physically is told before that changes, and after it has.
//
//   firn::MoveHook hook;
//   hook.before_move = [](absl::Span<const firn::MovingBlock> blocks) {
//     // Let go of what depends on them; or refuse.
//     return absl::OkStatus();
//   };
//   hook.after_move = [](absl::Span<const firn::MovingBlock> blocks) {};
//   absl::StatusOr<firn::MoveHookRegistration> registration =
//       pool->AddMoveHook(std::move(hook));

#ifndef FIRN_CORE_MOVE_HOOKS_H_
#define FIRN_CORE_MOVE_HOOKS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/core/callback_registration.h"

namespace firn {

struct MovingBlock {
  void* ptr = nullptr;
  uint64_t bytes = 0;  // requested
  // Pool::Generation before the move.
  uint64_t old_generation = 0;
  // after_move: now, the old one if the block was not moved after all;
  // before_move: the old one.
  uint64_t new_generation = 0;
};

// The protocol. A pass, asked for or made by an allocation that would fail,
// moves in batches; a batch empties some granules, or makes room in one. For
// each such granule
//
//   before_move is called with the live blocks whose memory is about to move,
//     at least one. An error leaves this granule as it is, all of it: the veto
//     is counted in CompactionReport::vetoed_sources.
//   The pool moves; no block is missing meanwhile.
//   after_move follows each before_move that gave no error, whether there was a
//     move or not (another hook's veto, a failure, or something has changed),
//     with the same blocks, but for those freed since.
//
// Hooks are called in the order in which they were added, one at a time, by the
// thread that makes the pass, outside of launch scopes and with no lock of the
// pool held: they may allocate, free, pin, and ask for figures, and so may all
// other threads. What that changes of the granule or of where its blocks would
// go leaves the granule as it is. A block allocated there since before_move was
// called is never moved without a call of its own.
//
// A hook must not ask for a pass (Compact is refused there, and an allocation
// moves nothing), enter a LaunchScope of the pool, destroy the pool, or wait
// for a thread that does one of these: the gate may be closed. What it launches
// on the pool's memory is done when it returns. A dry run calls no hooks.
struct MoveHook {
  // Either may be empty, but not both.
  std::function<absl::Status(absl::Span<const MovingBlock> blocks)> before_move;
  std::function<void(absl::Span<const MovingBlock> blocks)> after_move;
};

// Keeps a hook registered: it is called for passes that begin from now on.
using MoveHookRegistration = CallbackRegistration;

}  // namespace firn

#endif  // FIRN_CORE_MOVE_HOOKS_H_
