// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What holds of the fragmentation figures of any pool at any time.

#ifndef FIRN_TESTS_SUPPORT_FRAGMENTATION_IDENTITIES_H_
#define FIRN_TESTS_SUPPORT_FRAGMENTATION_IDENTITIES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/pool_stats.h"

namespace firn::testing {

class FragmentationIdentities {
 public:
  explicit FragmentationIdentities(const FragmentationStats& figures)
      : figures_(figures) {
    const FragmentationStats& f = figures;
    Equal("used = allocated + kept + free + lost", f.used_bytes,
          f.allocated_bytes + f.kept_bytes + f.free_bytes + f.lost_bytes);
    Equal("waste = used - requested", f.waste_bytes,
          f.used_bytes - f.requested_bytes);
    Expect("requested <= allocated", f.requested_bytes <= f.allocated_bytes);
    CheckSizes("live_sizes", f.live_sizes, f.live_blocks, f.requested_bytes);
    CheckSizes("free_sizes", f.free_sizes, f.free_pieces, f.free_bytes);
    Expect("the largest piece is in the last bucket",
           f.free_sizes.empty()
               ? f.largest_free_bytes == 0
               : f.largest_free_bytes > f.free_sizes.back().up_to_bytes / 2 &&
                     f.largest_free_bytes <= f.free_sizes.back().up_to_bytes);
    for (const double share :
         {f.utilization, f.internal_fragmentation, f.external_fragmentation}) {
      Expect("a share is in [0, 1]", share >= 0 && share <= 1);
    }
    Equal("bound + potential = used", f.used_granules,
          f.lower_bound_granules + f.potential_granules);
    for (const uint64_t bound :
         {f.bound_by_bytes_granules, f.bound_by_depth_granules,
          f.bound_by_large_granules, f.bound_by_pins_granules,
          f.bound_by_packing_granules}) {
      Expect("no bound exceeds the greatest", bound <= f.lower_bound_granules);
    }
    Expect("packing is no weaker than bytes",
           f.bound_by_bytes_granules <= f.bound_by_packing_granules);
    Expect("no offset is fuller than the fullest", f.depth_skew >= 1);
    const bool has_free = f.free_bytes + f.empty_bytes > 0;
    double least_unusable = 0;
    for (const RequestFit& fit : f.requests) {
      Expect("shares of what is free",
             fit.unusable_share >= least_unusable && fit.unusable_share <= 1 &&
                 fit.extfrag_share >= 0 && fit.extfrag_share <= 1);
      Expect("left over is no less than unusable",
             has_free ? fit.extfrag_share >= fit.unusable_share - 1e-9
                      : fit.extfrag_share == 0 && fit.unusable_share == 1);
      // Only what cannot be served has a reason.
      Expect("a reason",
             fit.fragmentation_index.has_value() == (fit.unusable_share == 1));
      least_unusable = fit.unusable_share;
    }
  }

  // Nothing happens in the pool meanwhile.
  FragmentationIdentities& With(const PoolStats& stats) {
    const FragmentationStats& f = figures_;
    Equal("requested = live", f.requested_bytes, stats.live_bytes);
    Equal("blocks = allocations", f.live_blocks, stats.live_allocations);
    // What was spilled included, which no pass can recover.
    Equal("used = used", f.used_bytes,
          stats.used_bytes + stats.host_used_bytes);
    Equal("granules", f.used_granules * stats.granule_bytes,
          stats.granule_bytes > 0 ? stats.used_bytes : 0);
    Expect("what is pending is kept", f.kept_bytes >= stats.pending_free_bytes);
    Expect("pins", f.bound_by_pins_granules >= stats.pinned_granules);
    return *this;
  }

  absl::Status status() const {
    if (failure_.empty()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("GetFragmentation: ", failure_,
                                            "\n", figures_.ToString()));
  }

 private:
  void Expect(absl::string_view what, bool is_so) {
    if (!is_so && failure_.empty()) failure_ = std::string(what);
  }
  void Equal(absl::string_view what, uint64_t a, uint64_t b) {
    Expect(absl::StrCat(what, ": ", a, " and ", b), a == b);
  }
  void CheckSizes(absl::string_view name,
                  const std::vector<SizeBucket>& buckets, uint64_t pieces,
                  uint64_t bytes) {
    uint64_t up_to_bytes = 512;
    for (const SizeBucket& bucket : buckets) {
      Equal(name, bucket.up_to_bytes, up_to_bytes);
      Expect(absl::StrCat(name, " up to ", up_to_bytes, ": bytes"),
             bucket.sum_bytes <= bucket.pieces * up_to_bytes &&
                 bucket.sum_bytes >=
                     bucket.pieces *
                         (up_to_bytes == 512 ? 1 : up_to_bytes / 2 + 1));
      up_to_bytes *= 2;
      pieces -= std::min(pieces, bucket.pieces);
      bytes -= std::min(bytes, bucket.sum_bytes);
    }
    Expect(absl::StrCat(name, " add up"), pieces == 0 && bytes == 0);
    Expect(absl::StrCat(name, " end with something"),
           buckets.empty() || buckets.back().pieces > 0);
  }

  const FragmentationStats figures_;
  std::string failure_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FRAGMENTATION_IDENTITIES_H_
