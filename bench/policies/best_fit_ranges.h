// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Disjoint free ranges with the best fitting one found in O(log n): indexed by
// address, to join neighbours, and by length.

#ifndef FIRN_BENCH_POLICIES_BEST_FIT_RANGES_H_
#define FIRN_BENCH_POLICIES_BEST_FIT_RANGES_H_

#include <cstdint>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "bench/policies/free_range_tree.h"

namespace firn::bench {

// Thread safety: none.
class BestFitRanges {
 public:
  static constexpr absl::string_view kPolicyName = "best_fit";

  // The bottom `bytes` of the shortest range that is long enough, of several
  // the lowest; none if no range is. REQUIRES: `bytes` is not 0.
  absl::optional<uint64_t> Take(uint64_t bytes);

  // Puts a range back, joined at once with the ranges that touch it.
  // REQUIRES: it is not empty and overlaps no range here.
  void Give(FreeRange range);

  uint64_t count() const { return bytes_by_start_.size(); }

 private:
  absl::btree_map<uint64_t, uint64_t> bytes_by_start_;
  absl::btree_set<std::pair<uint64_t, uint64_t>> by_bytes_and_start_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_BEST_FIT_RANGES_H_
