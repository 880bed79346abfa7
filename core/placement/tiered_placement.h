// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A structure for each range of sizes, side by side.

#ifndef FIRN_CORE_PLACEMENT_TIERED_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_TIERED_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/placement/buddy_placement.h"
#include "firn/core/placement/free_range_tree.h"
#include "firn/core/placement/placement.h"
#include "firn/core/placement/range_placement.h"
#include "firn/core/placement_kind.h"

namespace firn {

// Below small_bytes slabs or size-keyed bins; up to large_bytes buddies; above
// runs of whole granules, by best fit. A granule is of the tier for whose sizes
// it was given until it is withdrawn: no tier takes what another has free.
class TieredPlacement : public Placement {
 public:
  // REQUIRES: bounds.Validate(granule_bytes) is OK.
  TieredPlacement(const TierBounds& bounds, uint64_t granule_bytes);

  absl::string_view name() const override;
  Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const override;
  void Give(FreeRange granules, uint64_t wanted_bytes) override;
  std::optional<FreeRange> Take(uint64_t bytes,
                                uint64_t alignment_bytes) override;
  void Free(FreeRange extent) override;
  void Withdraw(FreeRange granules) override;

 private:
  enum class Tier : uint8_t { kSmall, kMiddle, kLarge };

  Tier TierOf(uint64_t bytes) const;
  Placement& placement(Tier tier);
  const Placement& placement(Tier tier) const;

  const TierBounds bounds_;
  const uint64_t granule_bytes_;
  const std::unique_ptr<Placement> small_;
  BuddyPlacement middle_;
  BestFitPlacement large_;
  // By number of the granule: the tier it was last given to, which is known as
  // long as a block lies there, withdrawn or not.
  std::vector<Tier> tier_of_granule_;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_TIERED_PLACEMENT_H_
