// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests of placements say about extents.

#ifndef FIRN_TESTS_CORE_PLACEMENT_EXTENT_MATCHERS_H_
#define FIRN_TESTS_CORE_PLACEMENT_EXTENT_MATCHERS_H_

#include <cstdint>
#include <optional>

#include "firn/core/placement/free_range_tree.h"
#include "gmock/gmock.h"

namespace firn::testing {

// Matches std::optional<FreeRange>.
inline auto IsExtent(uint64_t start, uint64_t bytes) {
  return ::testing::Optional(
      ::testing::AllOf(::testing::Field("start", &FreeRange::start, start),
                       ::testing::Field("bytes", &FreeRange::bytes, bytes)));
}

inline auto IsNoExtent() { return ::testing::Eq(std::nullopt); }

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_PLACEMENT_EXTENT_MATCHERS_H_
