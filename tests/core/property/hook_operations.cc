// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/hook_operations.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace firn::testing::property {
namespace {

// Whether it lives no longer.
bool FreeOne(absl::Span<const MovingBlock> blocks, uint32_t number,
             State& state) {
  LiveBlock* const block =
      state.shadow().Find(blocks[number % blocks.size()].ptr);
  // An earlier hook may have freed it.
  return block != nullptr && state.FreeAsItIs(block, block->stream);
}

// Nothing lives or dies by that.
bool ActivateOne(absl::Span<const MovingBlock> blocks, uint32_t number,
                 State& state) {
  const LiveBlock* const block =
      state.shadow().Find(blocks[number % blocks.size()].ptr);
  if (block != nullptr) state.MarkActive(*block);
  return false;
}

}  // namespace

absl::string_view NameOf(AddHook::Meddling meddling) {
  switch (meddling) {
    case AddHook::Meddling::kNone:
      return "AddHook::Meddling::kNone";
    case AddHook::Meddling::kFree:
      return "AddHook::Meddling::kFree";
    case AddHook::Meddling::kAllocate:
      return "AddHook::Meddling::kAllocate";
    case AddHook::Meddling::kActivate:
      return "AddHook::Meddling::kActivate";
  }
  return "";
}

void AddHook::Perform(State& state) const {
  if (state.hooks().is_full()) return;
  state.Expect(
      absl::IsInvalidArgument(state.pool().AddMoveHook(MoveHook()).status()),
      "AddMoveHook: took a hook of nothing");
  HookAccount::Conduct conduct;
  conduct.veto_every = veto_every;
  if (meddling == Meddling::kFree) {
    conduct.meddle = [number = block,
                      &state](absl::Span<const MovingBlock> blocks) {
      return FreeOne(blocks, number, state);
    };
  } else if (meddling == Meddling::kAllocate) {
    // Even if there is no room, what is free may have been unmapped.
    conduct.meddle = [wanted_bytes = bytes,
                      &state](absl::Span<const MovingBlock> /*blocks*/) {
      state.AllocateInHook(wanted_bytes);
      return true;
    };
  }
  if (meddling == Meddling::kActivate) {
    conduct.meddle = [number = block,
                      &state](absl::Span<const MovingBlock> blocks) {
      return ActivateOne(blocks, number, state);
    };
  }
  state.Expect(state.hooks().Add(&state.pool(), std::move(conduct)));
}

}  // namespace firn::testing::property
