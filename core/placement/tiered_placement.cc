// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/tiered_placement.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "firn/core/placement/size_hash_placement.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/placement/slab_placement.h"

namespace firn {
namespace {

std::unique_ptr<Placement> MakeSmall(TierBounds::Small small,
                                     uint64_t granule_bytes) {
  if (small == TierBounds::Small::kSizeHash) {
    return std::make_unique<SizeHashPlacement>(granule_bytes);
  }
  return std::make_unique<SlabPlacement>(granule_bytes);
}

}  // namespace

TieredPlacement::TieredPlacement(const TierBounds& bounds,
                                 uint64_t granule_bytes)
    : bounds_(bounds),
      granule_bytes_(granule_bytes),
      small_(MakeSmall(bounds.small, granule_bytes)),
      middle_(granule_bytes),
      large_(granule_bytes) {}

absl::string_view TieredPlacement::name() const {
  return PlacementKindName(PlacementKind::kTiered);
}

TieredPlacement::Tier TieredPlacement::TierOf(uint64_t bytes) const {
  if (bytes < bounds_.small_bytes) return Tier::kSmall;
  return bytes <= bounds_.large_bytes ? Tier::kMiddle : Tier::kLarge;
}

const Placement& TieredPlacement::placement(Tier tier) const {
  switch (tier) {
    case Tier::kSmall:
      return *small_;
    case Tier::kMiddle:
      return middle_;
    case Tier::kLarge:
      break;
  }
  return large_;
}

Placement& TieredPlacement::placement(Tier tier) {
  return const_cast<Placement&>(std::as_const(*this).placement(tier));
}

Placement::Growth TieredPlacement::GrowthFor(uint64_t bytes,
                                             uint64_t alignment_bytes) const {
  return placement(TierOf(bytes)).GrowthFor(bytes, alignment_bytes);
}

void TieredPlacement::Give(FreeRange granules, uint64_t wanted_bytes) {
  const Tier tier = TierOf(wanted_bytes);
  const uint64_t end = granules.end() / granule_bytes_;
  if (end > tier_of_granule_.size()) {
    // Doubling keeps the cost of growing constant for each granule.
    tier_of_granule_.resize(
        std::max<uint64_t>(end, 2 * tier_of_granule_.size()));
  }
  std::fill_n(tier_of_granule_.begin() +
                  static_cast<ptrdiff_t>(granules.start / granule_bytes_),
              granules.bytes / granule_bytes_, tier);
  placement(tier).Give(granules, wanted_bytes);
}

std::optional<FreeRange> TieredPlacement::Take(uint64_t bytes,
                                               uint64_t alignment_bytes) {
  const Tier tier = TierOf(bytes);
  if (tier != Tier::kLarge) return placement(tier).Take(bytes, alignment_bytes);
  if (bytes > kLargestRequestBytes) return std::nullopt;
  return large_.Take(RoundUp(bytes, granule_bytes_),
                     std::max(alignment_bytes, granule_bytes_));
}

void TieredPlacement::Free(FreeRange extent) {
  placement(tier_of_granule_[extent.start / granule_bytes_]).Free(extent);
}

void TieredPlacement::Withdraw(FreeRange granules) {
  const uint64_t end = std::min<uint64_t>(granules.end() / granule_bytes_,
                                          tier_of_granule_.size());
  for (uint64_t first = granules.start / granule_bytes_, last = first;
       first < end; first = last) {
    const Tier tier = tier_of_granule_[first];
    while (last < end && tier_of_granule_[last] == tier) ++last;
    placement(tier).Withdraw(
        {first * granule_bytes_, (last - first) * granule_bytes_});
  }
}

}  // namespace firn
