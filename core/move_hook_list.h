// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The move hooks of a pool.

#ifndef FIRN_CORE_MOVE_HOOK_LIST_H_
#define FIRN_CORE_MOVE_HOOK_LIST_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/core/callback_list.h"
#include "firn/core/move_hooks.h"

namespace firn {

// Thread safety: as of CallbackList; Before and After by one at a time.
class MoveHookList : public CallbackList<MoveHook> {
 public:
  // Calls the hooks one after the other until one gives an error. `called` gets
  // those that gave none.
  absl::Status Before(absl::Span<const MovingBlock> blocks,
                      std::vector<uint64_t>* called);
  // Calls those hooks, as far as they are registered still.
  void After(absl::Span<const MovingBlock> blocks,
             absl::Span<const uint64_t> called);
};

}  // namespace firn

#endif  // FIRN_CORE_MOVE_HOOK_LIST_H_
