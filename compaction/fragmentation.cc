// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/fragmentation.h"

#include <algorithm>
#include <cstddef>

#include "absl/numeric/bits.h"

namespace firn {
namespace {

// 1 - part / whole; 0 where there is nothing to be missing. Figures that were
// read at different times may have a part that exceeds the whole.
double MissingShare(uint64_t part, uint64_t whole) {
  if (part >= whole) return 0;
  return static_cast<double>(whole - part) / static_cast<double>(whole);
}

// Of powers of two.
uint64_t BlockCount(const FreeSpace& space) {
  uint64_t blocks =
      space.free_granules *
      static_cast<uint64_t>(absl::popcount(space.quanta_per_granule));
  for (size_t length = 1; length < space.holes.size(); ++length) {
    blocks += space.holes[length] *
              static_cast<uint64_t>(absl::popcount(uint64_t{length}));
  }
  return blocks;
}

}  // namespace

double MemoryUse::InternalFragmentation() const {
  return MissingShare(requested_bytes, allocated_bytes);
}

double MemoryUse::Utilization() const {
  return 1 - MissingShare(requested_bytes, used_bytes);
}

uint64_t MemoryUse::WasteBytes() const {
  return used_bytes - std::min(used_bytes, requested_bytes);
}

double ExternalFragmentation(const FreeSpace& space) {
  return MissingShare(space.LargestHoleQuanta(), space.HoleQuanta());
}

double UnusableShare(const FreeSpace& space, uint64_t quanta) {
  const uint64_t free_quanta = space.FreeQuanta();
  if (free_quanta == 0) return 1;
  return MissingShare(space.UsableQuanta(quanta), free_quanta);
}

double ExtfragShare(const FreeSpace& space, uint64_t quanta) {
  return MissingShare(space.ServableRequests(quanta) * quanta,
                      space.FreeQuanta());
}

std::optional<double> FragmentationIndex(const FreeSpace& space,
                                         uint64_t quanta) {
  if (space.ServableRequests(quanta) > 0) return std::nullopt;
  const uint64_t blocks = BlockCount(space);
  if (blocks == 0) return 0;
  const double wanted = static_cast<double>(absl::bit_ceil(quanta));
  const double in_blocks = static_cast<double>(space.FreeQuanta()) / wanted;
  return std::max(0.0, 1 - (1 + in_blocks) / static_cast<double>(blocks));
}

uint32_t CompactionPotential(const Snapshot& snapshot,
                             const LowerBounds& bounds) {
  const uint32_t granules = static_cast<uint32_t>(snapshot.granules.size()) +
                            snapshot.packed_granules + snapshot.full_granules;
  return granules - std::min(granules, bounds.max());
}

double PlannedShareOfPotential(const Plan& plan, uint32_t potential_granules) {
  return 1 - MissingShare(plan.emptied_granules, potential_granules);
}

double ColourSkew(absl::Span<const uint32_t> vgs_by_stripe) {
  uint64_t all = 0;
  uint32_t most = 0;
  for (const uint32_t vgs : vgs_by_stripe) {
    all += vgs;
    most = std::max(most, vgs);
  }
  if (all == 0) return 1;
  return static_cast<double>(vgs_by_stripe.size()) * static_cast<double>(most) /
         static_cast<double>(all);
}

}  // namespace firn
