// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/stripe_packing.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "firn/vmm/units.h"

namespace firn {
namespace {

// The stripe of what is live from the first extent to the last; `stripes` where
// that is more than one.
uint32_t StripeOf(absl::Span<const OffsetInterval> extents,
                  uint32_t quanta_per_granule, uint32_t stripes) {
  const uint32_t stripe_quanta = quanta_per_granule / stripes;
  const uint32_t first = extents.front().lo / stripe_quanta;
  const uint32_t last = (extents.back().hi - 1) / stripe_quanta;
  return first == last ? first : stripes;
}

}  // namespace

uint32_t StripeCensus::most() const {
  uint32_t most = 0;
  for (const uint32_t vgs : vgs_by_stripe) most = std::max(most, vgs);
  return most;
}

StripeCensus CountStripes(const Snapshot& snapshot, uint32_t stripes) {
  assert(stripes > 0 && snapshot.quanta_per_granule % stripes == 0);
  StripeCensus census;
  census.vgs_by_stripe.assign(stripes, 0);
  // By stripe, the last granule on which one was seen, counted from 1.
  std::vector<size_t> last_seen(stripes, 0);
  size_t number = 0;
  for (const SnapshotGranule& granule : snapshot.granules) {
    ++number;
    if (snapshot.IsPinned(granule)) ++census.pinned_granules;
    for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
      if (vg.extent_count == 0) continue;
      const uint32_t stripe = StripeOf(snapshot.ExtentsOf(vg),
                                       snapshot.quanta_per_granule, stripes);
      if (stripe == stripes) {
        ++census.crossing_vgs;
        continue;
      }
      ++census.vgs_by_stripe[stripe];
      if (last_seen[stripe] == number) ++census.doubled_vgs;
      last_seen[stripe] = number;
    }
  }
  return census;
}

uint32_t LeastGranulesOfStripes(const Snapshot& snapshot,
                                const StripeCensus& census) {
  return snapshot.full_granules +
         std::max(census.most() + snapshot.packed_granules,
                  census.pinned_granules);
}

std::vector<uint32_t> PackStripes(const Snapshot& snapshot, uint32_t stripes) {
  std::vector<uint32_t> granule_of(snapshot.vgs.size(), 0);
  // By stripe, which of the granules with something pinned have it.
  std::vector<std::vector<bool>> taken(stripes);
  uint32_t pinned_granules = 0;
  for (const SnapshotGranule& granule : snapshot.granules) {
    if (!snapshot.IsPinned(granule)) continue;
    for (std::vector<bool>& of_stripe : taken) of_stripe.push_back(false);
    for (uint32_t i = 0; i < granule.vg_count; ++i) {
      const SnapshotVg& vg = snapshot.vgs[granule.first_vg + i];
      if (!vg.is_pinned) continue;
      granule_of[granule.first_vg + i] = pinned_granules;
      if (vg.extent_count == 0) continue;
      const uint32_t stripe = StripeOf(snapshot.ExtentsOf(vg),
                                       snapshot.quanta_per_granule, stripes);
      taken[stripe].back() = true;
    }
    ++pinned_granules;
  }
  // By stripe, the granule to try next.
  std::vector<uint32_t> next(stripes, 0);
  for (size_t i = 0; i < snapshot.vgs.size(); ++i) {
    const SnapshotVg& vg = snapshot.vgs[i];
    if (vg.is_pinned || vg.extent_count == 0) continue;
    const uint32_t stripe =
        StripeOf(snapshot.ExtentsOf(vg), snapshot.quanta_per_granule, stripes);
    while (next[stripe] < pinned_granules && taken[stripe][next[stripe]]) {
      ++next[stripe];
    }
    granule_of[i] = next[stripe]++;
  }
  return granule_of;
}

std::vector<uint32_t> SparsestFirst(const Snapshot& snapshot) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < snapshot.granules.size(); ++i) {
    if (!snapshot.IsPinned(snapshot.granules[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t live_a = snapshot.granules[a].live_quanta;
    const uint32_t live_b = snapshot.granules[b].live_quanta;
    return live_a != live_b ? live_a < live_b : a < b;
  });
  return order;
}

std::vector<uint64_t> LeastCopiedQuanta(const Snapshot& snapshot,
                                        const StripeCensus& census) {
  const std::vector<uint32_t> order = SparsestFirst(snapshot);
  const size_t freeable =
      snapshot.granules.size() -
      std::min<size_t>(snapshot.granules.size(),
                       std::max(census.most(), census.pinned_granules));
  std::vector<uint64_t> copied_quanta = {0};
  for (size_t i = 0; i < freeable; ++i) {
    copied_quanta.push_back(copied_quanta.back() +
                            snapshot.granules[order[i]].live_quanta);
  }
  return copied_quanta;
}

}  // namespace firn
