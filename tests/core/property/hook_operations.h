// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that add move hooks and give them up. See operation.h for what an
// operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_HOOK_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_HOOK_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/core/property/block_operations.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// Adds a hook that may refuse moves, or free, allocate or use again what was
// idle before them.
struct AddHook {
  enum class Meddling : uint8_t { kNone, kFree, kAllocate, kActivate };
  static constexpr absl::string_view kName = "AddHook";
  static constexpr uint32_t kWeights[] = {6, 6, 6};

  // 0: none.
  uint32_t veto_every = 0;
  Meddling meddling = Meddling::kNone;
  // Of what it allocates; which of the blocks it frees or marks active.
  uint64_t bytes = 0;
  uint32_t block = 0;

  static AddHook Draw(Choices& choices, const Setting& setting) {
    const uint32_t kind = choices.Index(6);
    return {choices.OneIn(2) ? 0 : static_cast<uint32_t>(choices.Between(1, 5)),
            kind < 3 ? static_cast<Meddling>(1 + kind) : Meddling::kNone,
            1 + choices.Below(setting.granule_bytes), DrawNumber(choices)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("veto_every", veto_every);
    visit("meddling", meddling);
    visit("bytes", bytes);
    visit("block", block);
  }
};

absl::string_view NameOf(AddHook::Meddling meddling);

struct GiveUpHook {
  static constexpr absl::string_view kName = "GiveUpHook";
  static constexpr uint32_t kWeights[] = {6, 6, 6};

  uint32_t hook = 0;

  static GiveUpHook Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(HookAccount::kMostHooks)};
  }
  void Perform(State& state) const { state.hooks().GiveUp(hook); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("hook", hook);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_HOOK_OPERATIONS_H_
