// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that declare blocks idle, and in use again. See operation.h for
// what an operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_IDLE_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_IDLE_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/core/property/block_operations.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// Declares blocks idle or read-only whose numbers follow each other, as it
// takes all of a virtual granule's before any of them moves; on the stream that
// used each last or on another one that has been ordered behind it.
struct MarkIdle {
  static constexpr absl::string_view kName = "MarkIdle";
  static constexpr uint32_t kWeights[] = {12, 24, 24};

  uint32_t block = 0;
  uint32_t count = 1;
  bool elsewhere = false;
  uint32_t stream = 0;
  // Of an address within the first one, which is refused.
  uint64_t offset_bytes = 0;
  bool read_only = false;
  // Idle, and may be spilled.
  bool spillable = false;

  static MarkIdle Draw(Choices& choices, const Setting& setting) {
    return {DrawNumber(choices),
            choices.OneIn(3) ? 1u << 16 : 1 + choices.Index(48),
            choices.OneIn(4),
            choices.Index(DeviceWork::kMostStreams),
            choices.Below(setting.capacity_bytes()),
            choices.OneIn(3),
            choices.OneIn(2)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("count", count);
    visit("elsewhere", elsewhere);
    visit("stream", stream);
    visit("offset_bytes", offset_bytes);
    visit("read_only", read_only);
    visit("spillable", spillable);
  }
};

// Idle or not.
struct MarkActive {
  static constexpr absl::string_view kName = "MarkActive";
  static constexpr uint32_t kWeights[] = {8, 8, 12};

  uint32_t block = 0;
  uint32_t count = 1;
  // Of an address within the first one, which is refused.
  uint64_t offset_bytes = 0;

  static MarkActive Draw(Choices& choices, const Setting& setting) {
    return {DrawNumber(choices), 1 + choices.Index(8),
            choices.Below(setting.capacity_bytes())};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("count", count);
    visit("offset_bytes", offset_bytes);
  }
};

// Scatters small blocks over granules, and has a pass for idle memory put them
// together: when its turn comes, hardly anything else lies so badly.
struct GatherIdle {
  static constexpr absl::string_view kName = "GatherIdle";
  static constexpr uint32_t kWeights[] = {2, 4, 4};

  uint64_t bytes = 512;
  uint32_t count = 0;
  uint32_t stride = 2;  // of those that stay
  // See Compact.
  uint32_t busy_every = 0;
  uint32_t max_pause_us = 0;
  uint64_t wanted_granules = 0;
  uint32_t read_only_every = 0;

  static GatherIdle Draw(Choices& choices, const Setting& setting) {
    return {
        1 + choices.Below(setting.granule_bytes >> choices.Between(1, 5)),
        1 + choices.Index(300),
        static_cast<uint32_t>(choices.Between(2, 12)),
        choices.OneIn(3) ? static_cast<uint32_t>(choices.Between(2, 60)) : 0,
        choices.OneIn(3) ? 1u << choices.Index(12) : 0,
        choices.OneIn(4) ? choices.Between(1, 4) : 0,
        choices.OneIn(4) ? 0 : 1 + choices.Index(4)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("bytes", bytes);
    visit("count", count);
    visit("stride", stride);
    visit("busy_every", busy_every);
    visit("max_pause_us", max_pause_us);
    visit("wanted_granules", wanted_granules);
    visit("read_only_every", read_only_every);
  }
};

// Fills the pool, lets it spill (nearly) all that lives, asks for more, and has
// some of it back: when its turn comes, hardly ever is so much at rest.
struct Oversubscribe {
  static constexpr absl::string_view kName = "Oversubscribe";
  static constexpr uint32_t kWeights[] = {6, 5, 7};

  uint64_t bytes = 512;
  uint32_t most = 0;  // blocks that fill the pool
  uint32_t more = 1;  // and beyond that
  // Every so-manieth block stays in use; 0: none.
  uint32_t busy_every = 0;
  // Every so-manieth block that lives then is freed, before the next one is
  // active again; 0: none.
  uint32_t free_every = 0;
  uint32_t active_every = 1;

  static Oversubscribe Draw(Choices& choices, const Setting& setting) {
    return {
        choices.Between(setting.granule_bytes / 8, 3 * setting.granule_bytes),
        choices.Index(300),
        1 + choices.Index(8),
        choices.OneIn(3) ? static_cast<uint32_t>(choices.Between(8, 60)) : 0,
        choices.OneIn(3) ? 0 : static_cast<uint32_t>(choices.Between(2, 6)),
        1 + choices.Index(4)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("bytes", bytes);
    visit("most", most);
    visit("more", more);
    visit("busy_every", busy_every);
    visit("free_every", free_every);
    visit("active_every", active_every);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_IDLE_OPERATIONS_H_
