// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/move_hook_list.h"

namespace firn {

absl::Status MoveHookList::Before(absl::Span<const MovingBlock> blocks,
                                  std::vector<uint64_t>* called) {
  for (const uint64_t id : ids()) {
    absl::Status status;
    bool is_there = false;
    CallOne(id, [&](const MoveHook& hook) {
      is_there = true;
      if (hook.before_move) status = hook.before_move(blocks);
    });
    if (!status.ok()) return status;
    if (is_there) called->push_back(id);
  }
  return absl::OkStatus();
}

void MoveHookList::After(absl::Span<const MovingBlock> blocks,
                         absl::Span<const uint64_t> called) {
  for (const uint64_t id : called) {
    CallOne(id, [&blocks](const MoveHook& hook) {
      if (hook.after_move) hook.after_move(blocks);
    });
  }
}

}  // namespace firn
