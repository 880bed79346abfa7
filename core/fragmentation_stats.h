// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How much of a Pool's memory is lost to what kind of fragmentation, and what
// compaction could recover. Plain data, all of it "now". docs/statistics.md
// explains each field; the formulas are those of compaction/fragmentation.h,
// compaction/free_space.h and compaction/lower_bounds.h.

#ifndef FIRN_CORE_FRAGMENTATION_STATS_H_
#define FIRN_CORE_FRAGMENTATION_STATS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace firn {

// Things of about one size.
struct SizeBucket {
  // The largest size that is in it, 512 times a power of two. All are more than
  // half of that, but in the first one, which has whatever is up to 512.
  uint64_t up_to_bytes = 0;
  uint64_t pieces = 0;
  uint64_t sum_bytes = 0;  // of all of them
};

// How well requests of one size could be served with what is free now: the
// empty granules and, for what is no multiple of a granule, the free pieces of
// used ones. Shares are in [0, 1].
struct RequestFit {
  uint64_t request_bytes = 0;
  // Of what is free, what lies in pieces that are too small. 1 if nothing is.
  double unusable_share = 0;
  // Of what is free, what would be left over once as many such requests as fit
  // were served. 0 with nothing free, otherwise never below unusable_share.
  double extfrag_share = 0;
  // Why such a request needs more memory from the driver: towards 0 because
  // little is free, towards 1 because that is in pieces. Null if it needs none.
  std::optional<double> fragmentation_index;
};

struct FragmentationStats {
  // --- What used granules are used for ---
  // Always used = allocated + kept + free + lost, and waste = used - requested.
  //
  // Of live blocks: what was asked for, and what they take up, rounded.
  uint64_t live_blocks = 0;
  uint64_t requested_bytes = 0;
  uint64_t allocated_bytes = 0;
  // What freed blocks take up that keep their place: in caches of threads,
  // waiting for a stream, or in graph-private pools.
  uint64_t kept_bytes = 0;
  // Free, beside what is live or kept; see free_sizes.
  uint64_t free_bytes = 0;
  // For nobody: beside blocks on granules that an error of the driver has made
  // unreachable, or on those of host memory, until what was spilled is back;
  // without granules, at the ends of segments.
  uint64_t lost_bytes = 0;
  // Granules with something live or kept, those of host memory included.
  uint64_t used_bytes = 0;
  uint64_t waste_bytes = 0;
  // requested / used; 1 for nothing used.
  double utilization = 1;
  // 1 - requested / allocated: lost by rounding sizes up. 0 for no blocks.
  double internal_fragmentation = 0;

  // --- What is free ---
  // Longest runs of free bytes in used granules.
  uint64_t free_pieces = 0;
  uint64_t largest_free_bytes = 0;
  // 1 - largest / all of the free pieces; 0 without any. Empty granules are not
  // in it, as a request of any size can take them.
  double external_fragmentation = 0;
  // Held granules with nothing in them, ready for any request.
  uint64_t empty_bytes = 0;

  // --- What compaction could recover ---
  // In granules; all 0, and the skew 1, where nothing has granules. What may
  // not move by its MemoryClass counts in full in each bound.
  uint64_t used_granules = 0;
  // No plan that keeps every address can end with fewer: the sum, over the
  // parts of the pool that share no granule (domains, classes, lifetimes), of
  // the greatest of the five bounds below. Each of those is a sum over the same
  // parts, so this may exceed all of them.
  uint64_t lower_bound_granules = 0;
  uint64_t bound_by_bytes_granules = 0;  // what is live, divided by a granule
  uint64_t bound_by_depth_granules = 0;  // virtual granules live at one offset
  uint64_t bound_by_large_granules = 0;  // those live in more than half of one
  uint64_t bound_by_pins_granules = 0;   // granules with something pinned
  uint64_t bound_by_packing_granules = 0;  // bins for their live bytes
  // used - lower bound: the most that a pass could empty.
  uint64_t potential_granules = 0;
  // By what factor the depth bound exceeds the average depth: 1 if as many
  // virtual granules are live at each offset. Of what may move.
  double depth_skew = 1;

  // --- By size ---
  // For 512 bytes times each power of four below a granule, and for a granule;
  // none where there are no granules.
  std::vector<RequestFit> requests;
  // Live blocks by what was asked for, and free pieces. From 512 bytes on,
  // without a gap, up to the largest size that there is.
  std::vector<SizeBucket> live_sizes;
  std::vector<SizeBucket> free_sizes;

  // Which of the five bounds is the greatest: "bytes", "depth", "large", "pins"
  // or "packing". The first of those that are equal.
  absl::string_view greatest_bound() const;

  // Several lines of "name: value" for people.
  std::string ToString() const;
};

}  // namespace firn

#endif  // FIRN_CORE_FRAGMENTATION_STATS_H_
