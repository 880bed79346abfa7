// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on blocks: how they are allocated, used and freed. See
// operation.h for what an operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_BLOCK_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_BLOCK_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "firn/core/pool_options.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// Sizes at and around the edges that the pool's placement has.
uint64_t DrawBytes(Choices& choices, const Setting& setting);
uint64_t DrawAlignment(Choices& choices, const Setting& setting);
// A number of a block or a stream: any.
inline uint32_t DrawNumber(Choices& choices) { return choices.Index(65536); }

absl::string_view NameOf(MemoryClass memory_class);
absl::string_view NameOf(Lifetime lifetime);

struct Allocate {
  static constexpr absl::string_view kName = "Allocate";
  static constexpr uint32_t kWeights[] = {600, 120, 300};

  uint64_t bytes = 0;
  uint64_t alignment_bytes = 512;
  uint32_t stream = 0;
  // 0: none.
  uint32_t tag = 0;
  // 0: none.
  uint32_t domain = 0;
  MemoryClass memory_class = MemoryClass::kMovable;
  Lifetime lifetime = Lifetime::kUnknown;

  static Allocate Draw(Choices& choices, const Setting& setting);
  // Whether it succeeded.
  bool TryPerform(State& state) const;
  void Perform(State& state) const { TryPerform(state); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("bytes", bytes);
    visit("alignment_bytes", alignment_bytes);
    visit("stream", stream);
    visit("tag", tag);
    visit("domain", domain);
    visit("memory_class", memory_class);
    visit("lifetime", lifetime);
  }
};

// Allocates blocks of one size until there is no room, or `most` of them.
struct Exhaust {
  static constexpr absl::string_view kName = "Exhaust";
  static constexpr uint32_t kWeights[] = {6, 1, 1};

  uint64_t bytes = 0;
  uint32_t stream = 0;
  uint32_t most = 0;
  // 0: none.
  uint32_t domain = 0;

  static Exhaust Draw(Choices& choices, const Setting& setting) {
    return {DrawBytes(choices, setting),
            choices.Index(DeviceWork::kMostStreams), choices.Index(200),
            choices.OneIn(2) ? choices.Index(8) : 0};
  }
  void Perform(State& state) const {
    Allocate one;
    one.bytes = bytes;
    one.stream = stream;
    one.domain = domain;
    for (uint32_t i = 0; i < most && one.TryPerform(state); ++i) {
    }
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("bytes", bytes);
    visit("stream", stream);
    visit("most", most);
    visit("domain", domain);
  }
};

// Frees a block on the stream that used it last, or on another one that has
// been ordered behind it.
struct Free {
  static constexpr absl::string_view kName = "Free";
  static constexpr uint32_t kWeights[] = {150, 600, 300};

  uint32_t block = 0;
  bool elsewhere = false;
  uint32_t stream = 0;

  static Free Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), choices.OneIn(4),
            choices.Index(DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const {
    LiveBlock* const freed = state.block(block);
    if (freed == nullptr) return;
    state.Free(freed, elsewhere ? state.work().stream(stream) : freed->stream);
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("elsewhere", elsewhere);
    visit("stream", stream);
  }
};

// Frees all but every `stride`-th of some blocks, so that hardly any granule
// becomes empty.
struct FreeMost {
  static constexpr absl::string_view kName = "FreeMost";
  static constexpr uint32_t kWeights[] = {1, 12, 3};

  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t stride = 2;

  static FreeMost Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), choices.Index(128),
            static_cast<uint32_t>(choices.Between(2, 8))};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("first", first);
    visit("count", count);
    visit("stride", stride);
  }
};

// Frees what must be refused.
struct FreeWrongly {
  enum class Mistake : uint8_t { kTwice, kInterior, kForeign, kNoStream };
  static constexpr absl::string_view kName = "FreeWrongly";
  static constexpr uint32_t kWeights[] = {20, 20, 20};

  Mistake mistake = Mistake::kTwice;
  uint32_t block = 0;
  uint64_t offset_bytes = 0;

  static FreeWrongly Draw(Choices& choices, const Setting& setting) {
    const uint64_t offset = choices.OneIn(2)
                                ? 512 * choices.Between(1, 64)
                                : choices.Below(setting.capacity_bytes());
    return {static_cast<Mistake>(choices.Below(4)), DrawNumber(choices),
            offset};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("mistake", mistake);
    visit("block", block);
    visit("offset_bytes", offset_bytes);
  }
};

absl::string_view NameOf(FreeWrongly::Mistake mistake);

// Work on a block: checks its contents, and may write others.
struct Use {
  static constexpr absl::string_view kName = "Use";
  static constexpr uint32_t kWeights[] = {80, 80, 120};

  uint32_t block = 0;
  uint32_t stream = 0;
  bool write = false;
  bool in_scope = false;

  static Use Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), choices.Index(DeviceWork::kMostStreams),
            choices.OneIn(2), choices.OneIn(2)};
  }
  void Perform(State& state) const {
    LiveBlock* const used = state.block(block);
    if (used == nullptr) return;
    state.Use(used, state.work().stream(stream), write, in_scope);
  }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("stream", stream);
    visit("write", write);
    visit("in_scope", in_scope);
  }
};

// Asks for the generation of a block, and of an address within it.
struct AskGeneration {
  static constexpr absl::string_view kName = "AskGeneration";
  static constexpr uint32_t kWeights[] = {10, 10, 10};

  uint32_t block = 0;
  uint64_t offset_bytes = 0;

  static AskGeneration Draw(Choices& choices, const Setting& setting) {
    return {DrawNumber(choices), choices.Below(setting.capacity_bytes())};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("offset_bytes", offset_bytes);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_BLOCK_OPERATIONS_H_
