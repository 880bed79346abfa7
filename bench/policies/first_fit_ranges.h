// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Disjoint free ranges of which the lowest that is long enough is cut.

#ifndef FIRN_BENCH_POLICIES_FIRST_FIT_RANGES_H_
#define FIRN_BENCH_POLICIES_FIRST_FIT_RANGES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "bench/policies/free_range_tree.h"

namespace firn::bench {

// Thread safety: none.
class FirstFitRanges {
 public:
  static constexpr absl::string_view kPolicyName = "free_list";

  // The bottom `bytes` of the lowest range that is long enough; none if no
  // range is. REQUIRES: `bytes` is not 0.
  absl::optional<uint64_t> Take(uint64_t bytes) {
    const FreeRangeTree::Node node = ranges_.FirstFit(bytes);
    if (node == FreeRangeTree::kNone) return absl::nullopt;
    const uint64_t start = ranges_.range(node).start;
    ranges_.Take(node, start, bytes);
    return start;
  }

  // Puts a range back, joined at once with the ranges that touch it.
  // REQUIRES: it is not empty and overlaps no range here.
  void Give(FreeRange range) {
    ranges_.Give(range, ranges_.Around(range.start));
  }

 private:
  FreeRangeTree ranges_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_FIRST_FIT_RANGES_H_
