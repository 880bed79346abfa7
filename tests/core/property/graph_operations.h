// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on graph-private pools. Nothing is captured while they are open:
// only what they do with memory counts. See operation.h for what an operation
// is.

#ifndef FIRN_TESTS_CORE_PROPERTY_GRAPH_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_GRAPH_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

inline constexpr uint32_t kGraphPoolIds = 3;

struct BeginPool {
  static constexpr absl::string_view kName = "BeginPool";
  static constexpr uint32_t kWeights[] = {5, 5, 5};

  uint32_t id = 0;
  // Bits by number; 0: for the thread.
  uint32_t streams = 0;

  static BeginPool Draw(Choices& choices, const Setting& /*setting*/) {
    return {
        choices.Index(kGraphPoolIds),
        choices.OneIn(2) ? 0 : choices.Index(1u << DeviceWork::kMostStreams)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("id", id);
    visit("streams", streams);
  }
};

struct EndPool {
  static constexpr absl::string_view kName = "EndPool";
  static constexpr uint32_t kWeights[] = {60, 90, 90};

  uint32_t id = 0;

  static EndPool Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(kGraphPoolIds)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("id", id);
  }
};

struct ReleasePool {
  static constexpr absl::string_view kName = "ReleasePool";
  static constexpr uint32_t kWeights[] = {6, 20, 12};

  uint32_t id = 0;

  static ReleasePool Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(kGraphPoolIds)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("id", id);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_GRAPH_OPERATIONS_H_
