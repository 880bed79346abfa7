// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on what a pool has on record of blocks and streams: uses, pins,
// tags, figures. See operation.h for what an operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_RECORD_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_RECORD_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/core/property/block_operations.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// Work on a block, on one stream or several, that nothing orders before the
// block is freed: the pool is told of it.
struct RecordUse {
  static constexpr absl::string_view kName = "RecordUse";
  static constexpr uint32_t kWeights[] = {40, 60, 60};

  uint32_t block = 0;
  uint32_t stream = 0;
  bool write = false;
  bool in_scope = false;
  // Of other work that it is queued behind, on the first stream.
  uint32_t microseconds = 0;
  uint32_t more_streams = 0;
  // Frees the block at once, and allocates as much on the stream that it was
  // freed on: memory that is given out too early is overwritten.
  bool frees = false;

  static RecordUse Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), choices.Index(DeviceWork::kMostStreams),
            choices.OneIn(4),    choices.OneIn(2),
            choices.Index(400),  choices.Index(3),
            choices.OneIn(2)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("stream", stream);
    visit("write", write);
    visit("in_scope", in_scope);
    visit("microseconds", microseconds);
    visit("more_streams", more_streams);
    visit("frees", frees);
  }
};

// The stream lives on.
struct ReleaseStream {
  static constexpr absl::string_view kName = "ReleaseStream";
  static constexpr uint32_t kWeights[] = {4, 8, 6};

  uint32_t stream = 0;

  static ReleaseStream Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("stream", stream);
  }
};

// Pins a block, and tries to pin an address within it, and without a reason.
struct TakePin {
  static constexpr absl::string_view kName = "TakePin";
  static constexpr uint32_t kWeights[] = {8, 4, 6};

  uint32_t block = 0;
  uint32_t reason = 0;
  uint64_t offset_bytes = 0;

  static TakePin Draw(Choices& choices, const Setting& setting) {
    return {DrawNumber(choices), choices.Index(4),
            choices.Below(setting.capacity_bytes())};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("reason", reason);
    visit("offset_bytes", offset_bytes);
  }
};

struct GiveUpPin {
  static constexpr absl::string_view kName = "GiveUpPin";
  static constexpr uint32_t kWeights[] = {6, 12, 8};

  uint32_t pin = 0;

  static GiveUpPin Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(PinAccount::kMostPins)};
  }
  void Perform(State& state) const { state.pins().GiveUp(pin); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("pin", pin);
  }
};

// Tries to free a block that is pinned: nothing changes.
struct FreePinned {
  static constexpr absl::string_view kName = "FreePinned";
  static constexpr uint32_t kWeights[] = {6, 6, 6};

  uint32_t pin = 0;
  uint32_t stream = 0;

  static FreePinned Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(PinAccount::kMostPins),
            choices.Index(DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("pin", pin);
    visit("stream", stream);
  }
};

// Also tries names that no tag may have, and a tag that is not registered.
struct RegisterTag {
  static constexpr absl::string_view kName = "RegisterTag";
  static constexpr uint32_t kWeights[] = {6, 2, 4};

  uint32_t name = 0;

  static RegisterTag Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(8)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("name", name);
  }
};

// Asks for the short statistics before the long ones, which sort out what
// threads have cached; `frees_first`: right after a block was freed.
struct AskUsage {
  static constexpr absl::string_view kName = "AskUsage";
  static constexpr uint32_t kWeights[] = {6, 12, 8};

  uint32_t block = 0;
  bool frees_first = false;

  static AskUsage Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), choices.OneIn(2)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("frees_first", frees_first);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_RECORD_OPERATIONS_H_
