// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Snapshots for tests of the planner and the bounds: written by hand, or drawn
// at random from a seed.

#ifndef FIRN_TESTS_SUPPORT_SNAPSHOT_BUILDER_H_
#define FIRN_TESTS_SUPPORT_SNAPSHOT_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "firn/compaction/snapshot.h"
#include "firn/vmm/units.h"
#include "tests/support/small_random.h"
#include "tests/support/unit_values.h"

namespace firn::testing {

// The live extents of one virtual granule, in order and not touching.
using Extents = std::vector<OffsetInterval>;

class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(uint32_t quanta_per_granule) {
    snapshot_.quanta_per_granule = quanta_per_granule;
  }

  // A granule with these live virtual granules, and mappings that hold
  // nothing.
  SnapshotBuilder& Granule(const std::vector<Extents>& vgs,
                           uint32_t idle_mappings = 0) {
    SnapshotGranule granule;
    granule.granule = GranuleId(snapshot_.granules.size());
    granule.first_vg = static_cast<uint32_t>(snapshot_.vgs.size());
    granule.vg_count = static_cast<uint32_t>(vgs.size());
    granule.mappings = granule.vg_count + idle_mappings;
    for (const Extents& extents : vgs) {
      SnapshotVg vg;
      vg.vg = VgIndex(snapshot_.vgs.size());
      vg.first_extent = static_cast<uint32_t>(snapshot_.extents.size());
      vg.extent_count = static_cast<uint32_t>(extents.size());
      for (const OffsetInterval& extent : extents) {
        vg.live_quanta += extent.quanta();
        snapshot_.extents.push_back(extent);
      }
      granule.live_quanta += vg.live_quanta;
      snapshot_.vgs.push_back(vg);
    }
    snapshot_.granules.push_back(granule);
    return *this;
  }
  // A virtual granule, counted over all granules, is pinned.
  SnapshotBuilder& Pin(size_t vg) {
    snapshot_.vgs[vg].is_pinned = true;
    return *this;
  }
  SnapshotBuilder& FullGranules(uint32_t count) {
    snapshot_.full_granules = count;
    return *this;
  }
  Snapshot Build() const { return snapshot_; }

 private:
  Snapshot snapshot_;
};

// Of each granule's `slots` equal slots, one in `emptiness` belongs to nobody;
// the others to one of up to `most_vgs` virtual granules.
struct RandomSnapshotShape {
  uint32_t quanta_per_granule = 128;
  uint32_t granules = 10;
  uint32_t slots = 32;
  uint32_t most_vgs = 4;
  // In hundredths; each granule draws its own share between the two.
  uint32_t least_live_percent = 5;
  uint32_t most_live_percent = 60;
  uint32_t most_idle_mappings = 2;
  uint32_t pinned_percent = 0;  // of the virtual granules
};

inline Snapshot RandomSnapshot(uint64_t seed,
                               const RandomSnapshotShape& shape) {
  SmallRandom random(seed);
  SnapshotBuilder builder(shape.quanta_per_granule);
  const uint32_t slot_quanta = shape.quanta_per_granule / shape.slots;
  for (uint32_t g = 0; g < shape.granules; ++g) {
    const uint32_t vg_count = random.Between(1, shape.most_vgs);
    const uint32_t live_percent =
        random.Between(shape.least_live_percent, shape.most_live_percent);
    std::vector<Extents> vgs(vg_count);
    for (uint32_t slot = 0; slot < shape.slots; ++slot) {
      if (random.Below(100) >= live_percent) continue;
      // Neighbouring slots often have one owner.
      Extents& extents = vgs[(slot / 4 + random.Below(2)) % vg_count];
      const uint32_t lo = slot * slot_quanta;
      if (!extents.empty() && extents.back().hi == lo) {
        extents.back().hi = lo + slot_quanta;
      } else {
        extents.push_back(Extent(lo, lo + slot_quanta));
      }
    }
    vgs.erase(std::remove_if(vgs.begin(), vgs.end(),
                             [](const Extents& vg) { return vg.empty(); }),
              vgs.end());
    if (vgs.empty()) continue;
    builder.Granule(vgs, random.Below(shape.most_idle_mappings + 1));
  }
  Snapshot snapshot = builder.FullGranules(random.Below(3)).Build();
  if (shape.pinned_percent == 0) return snapshot;
  for (SnapshotVg& vg : snapshot.vgs) {
    vg.is_pinned = random.Below(100) < shape.pinned_percent;
  }
  return snapshot;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_SNAPSHOT_BUILDER_H_
