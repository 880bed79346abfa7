// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/planner.h"

#include <algorithm>
#include <numeric>

#include "firn/compaction/occupancy.h"

namespace firn {
namespace {

// Granules in which a hole is attempted, cheapest first.
constexpr size_t kHoleTries = 128;

// One bit per 64th of a granule, set where anything is live: most conflicts
// and most fits are settled by it alone.
class CoarseMask {
 public:
  explicit CoarseMask(uint32_t quanta_per_granule)
      : quanta_per_bit_((quanta_per_granule + 63) / 64) {}

  // Bits touched by the extents.
  uint64_t Touched(absl::Span<const OffsetInterval> extents) const {
    uint64_t mask = 0;
    for (const OffsetInterval& extent : extents) {
      const uint32_t first = extent.lo / quanta_per_bit_;
      const uint32_t last = (extent.hi - 1) / quanta_per_bit_;
      mask |= (~uint64_t{0} >> (63 - (last - first))) << first;
    }
    return mask;
  }
  // Bits wholly covered by the extents.
  uint64_t Covered(absl::Span<const OffsetInterval> extents) const {
    uint64_t mask = 0;
    for (const OffsetInterval& extent : extents) {
      const uint32_t first =
          (extent.lo + quanta_per_bit_ - 1) / quanta_per_bit_;
      const uint32_t end = extent.hi / quanta_per_bit_;
      if (end <= first) continue;
      mask |= (~uint64_t{0} >> (63 - (end - 1 - first))) << first;
    }
    return mask;
  }

 private:
  const uint32_t quanta_per_bit_;
};

// What a search for a host looks at first, packed for the scan.
struct CoarseMasks {
  uint64_t touched = 0;
  uint64_t covered = 0;
};

struct Host {
  uint32_t granule = 0;      // index into Snapshot::granules
  uint32_t live_quanta = 0;  // in the snapshot
  uint32_t mappings = 0;
  bool is_source = false;
  bool took_in = false;
};

class Planner {
 public:
  Planner(const Snapshot& snapshot, const PlanLimits& limits)
      : snapshot_(snapshot),
        limits_(limits),
        coarse_(snapshot.quanta_per_granule),
        exact_(snapshot.granules.size()) {
    // Those that stay in any case, then the others; of each kind the fullest
    // first, ties by position, so that the plan is deterministic.
    std::vector<uint32_t> order(snapshot.granules.size());
    std::iota(order.begin(), order.end(), 0u);
    std::vector<bool> is_pinned(order.size());
    for (const uint32_t index : order) {
      is_pinned[index] = snapshot.IsPinned(snapshot.granules[index]);
      if (is_pinned[index]) ++plan_.pinned_granules;
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (is_pinned[a] != is_pinned[b]) return bool{is_pinned[a]};
      const uint32_t live_a = snapshot.granules[a].live_quanta;
      const uint32_t live_b = snapshot.granules[b].live_quanta;
      return live_a != live_b ? live_a > live_b : a < b;
    });
    hosts_.reserve(order.size());
    masks_.reserve(order.size());
    free_before_.reserve(order.size());
    uint64_t free_quanta = 0;
    for (const uint32_t index : order) {
      const SnapshotGranule& granule = snapshot.granules[index];
      Host host;
      host.granule = index;
      host.live_quanta = granule.live_quanta;
      host.mappings = granule.mappings;
      hosts_.push_back(host);
      CoarseMasks masks;
      for (const SnapshotVg& vg : snapshot.VgsOf(granule)) {
        masks.touched |= coarse_.Touched(snapshot.ExtentsOf(vg));
        masks.covered |= coarse_.Covered(snapshot.ExtentsOf(vg));
      }
      masks_.push_back(masks);
      free_before_.push_back(free_quanta);
      free_quanta += snapshot.quanta_per_granule - granule.live_quanta;
    }
  }

  Plan Run() {
    uint32_t failures_in_row = 0;
    // The lowest rank has no host below it, and what is pinned stays.
    const size_t lowest = std::max<size_t>(1, plan_.pinned_granules);
    for (size_t rank = hosts_.size(); rank-- > lowest;) {
      if (plan_.emptied_granules >= limits_.wanted_granules) break;
      if (failures_in_row >= limits_.max_failures_in_row) break;
      // What took something in is fuller than it was when the order was made.
      if (hosts_[rank].took_in) continue;
      const SnapshotGranule& source = snapshot_.granules[hosts_[rank].granule];
      if (plan_.copied_quanta + source.live_quanta > limits_.max_quanta ||
          plan_.moves.size() + source.vg_count > limits_.max_moves) {
        plan_.limited = true;
        break;
      }
      if (Evacuate(rank)) {
        failures_in_row = 0;
      } else {
        ++failures_in_row;
        ++plan_.rejected_sources;
      }
    }
    return std::move(plan_);
  }

  Plan RunForHole(uint32_t quanta, uint32_t alignment_quanta) {
    std::vector<HoleSite> sites;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      HoleSite site;
      site.rank = rank;
      if (FindCheapestSite(quanta, alignment_quanta, &site)) {
        sites.push_back(site);
      }
    }
    const size_t tries = std::min(sites.size(), kHoleTries);
    std::partial_sort(
        sites.begin(), sites.begin() + static_cast<std::ptrdiff_t>(tries),
        sites.end(), [](const HoleSite& a, const HoleSite& b) {
          return a.live_quanta != b.live_quanta ? a.live_quanta < b.live_quanta
                                                : a.rank < b.rank;
        });
    for (size_t i = 0; i < tries; ++i) {
      const HoleSite& site = sites[i];
      if (site.live_quanta == 0) continue;  // a hole already
      if (site.live_quanta > limits_.max_quanta) break;
      to_move_.clear();
      const SnapshotGranule& source =
          snapshot_.granules[hosts_[site.rank].granule];
      for (uint32_t vg = source.first_vg;
           vg < source.first_vg + source.vg_count; ++vg) {
        if (TouchesInterval(vg, site.interval)) to_move_.push_back(vg);
      }
      if (to_move_.size() > limits_.max_moves) continue;
      if (MoveOut(site.rank, hosts_.size())) {
        plan_.copied_quanta = site.live_quanta;
        break;
      }
    }
    return std::move(plan_);
  }

 private:
  struct HoleSite {
    size_t rank = 0;
    OffsetInterval interval;
    uint32_t live_quanta = 0;  // of the virtual granules in the way
  };
  // Neighbouring ranks.
  struct Ranks {
    size_t begin = 0;
    size_t end = 0;
  };

  bool TouchesInterval(uint32_t vg, OffsetInterval interval) const {
    for (const OffsetInterval& extent :
         snapshot_.ExtentsOf(snapshot_.vgs[vg])) {
      if (extent.lo < interval.hi && interval.lo < extent.hi) return true;
    }
    return false;
  }

  // The interval of the granule that the fewest live quanta are in the way of.
  // A best one begins behind an extent or ends before one, so only those are
  // looked at. False if something is in the way everywhere that is
  // pinned, or more than is gained.
  bool FindCheapestSite(uint32_t quanta, uint32_t alignment_quanta,
                        HoleSite* site) {
    const SnapshotGranule& granule =
        snapshot_.granules[hosts_[site->rank].granule];
    starts_.assign(1, 0);
    for (const SnapshotVg& vg : snapshot_.VgsOf(granule)) {
      for (const OffsetInterval& extent : snapshot_.ExtentsOf(vg)) {
        starts_.push_back((extent.hi + alignment_quanta - 1) /
                          alignment_quanta * alignment_quanta);
        if (extent.lo >= quanta) {
          starts_.push_back((extent.lo - quanta) / alignment_quanta *
                            alignment_quanta);
        }
      }
    }
    bool found = false;
    for (const uint32_t start : starts_) {
      if (start + quanta > snapshot_.quanta_per_granule) continue;
      OffsetInterval interval;
      interval.lo = start;
      interval.hi = start + quanta;
      uint32_t live_quanta = 0;
      for (uint32_t vg = granule.first_vg;
           vg < granule.first_vg + granule.vg_count; ++vg) {
        if (!TouchesInterval(vg, interval)) continue;
        live_quanta += snapshot_.vgs[vg].is_pinned
                           ? snapshot_.quanta_per_granule
                           : snapshot_.vgs[vg].live_quanta;
      }
      if (live_quanta >= quanta ||
          (found && live_quanta >= site->live_quanta)) {
        continue;
      }
      found = true;
      site->interval = interval;
      site->live_quanta = live_quanta;
    }
    return found;
  }

  // Finds a host for every virtual granule of the source, or undoes what was
  // found.
  bool Evacuate(size_t rank) {
    const SnapshotGranule& source = snapshot_.granules[hosts_[rank].granule];
    to_move_.resize(source.vg_count);
    std::iota(to_move_.begin(), to_move_.end(), source.first_vg);
    if (!MoveOut(rank, rank)) return false;
    hosts_[rank].is_source = true;
    ++plan_.emptied_granules;
    plan_.copied_quanta += source.live_quanta;
    return true;
  }

  // Finds a host below `end_rank` for each of `to_move_`, which live on the
  // granule at `rank`; all or nothing.
  bool MoveOut(size_t rank, size_t end_rank) {
    const uint32_t source_index = hosts_[rank].granule;
    std::sort(to_move_.begin(), to_move_.end(), [&](uint32_t a, uint32_t b) {
      const uint32_t live_a = snapshot_.vgs[a].live_quanta;
      const uint32_t live_b = snapshot_.vgs[b].live_quanta;
      return live_a != live_b ? live_a > live_b : a < b;
    });
    const size_t moves_before = plan_.moves.size();
    undo_.clear();
    for (const uint32_t vg : to_move_) {
      const size_t host_rank = FindHost(vg, rank, end_rank);
      if (host_rank == end_rank) {
        plan_.moves.resize(moves_before);
        while (!undo_.empty()) {
          Undo(undo_.back());
          undo_.pop_back();
        }
        return false;
      }
      undo_.push_back({host_rank, hosts_[host_rank], masks_[host_rank], vg});
      TakeIn(host_rank, vg);
      plan_.moves.push_back({vg, source_index, hosts_[host_rank].granule});
    }
    return true;
  }

  // The rank of the fullest host that can take `vg`, of the pinned ones if one
  // can; `end_rank` if none.
  size_t FindHost(uint32_t vg, size_t source_rank, size_t end_rank) {
    const size_t pinned_end = std::min<size_t>(plan_.pinned_granules, end_rank);
    Ranks ranks;
    ranks.end = pinned_end;
    const size_t rank = FindHostIn(vg, source_rank, ranks);
    if (rank < pinned_end) return rank;
    ranks.begin = pinned_end;
    ranks.end = end_rank;
    return FindHostIn(vg, source_rank, ranks);
  }

  // Of ranks that are ordered by fullness; their end if none of them.
  size_t FindHostIn(uint32_t vg, size_t source_rank, Ranks ranks) {
    const auto extents = snapshot_.ExtentsOf(snapshot_.vgs[vg]);
    const uint64_t touched = coarse_.Touched(extents);
    const uint64_t covered = coarse_.Covered(extents);
    for (size_t rank = FirstWithRoomFor(snapshot_.vgs[vg].live_quanta, ranks);
         rank < ranks.end; ++rank) {
      const CoarseMasks& masks = masks_[rank];
      // Where one side covers a bit, the other may not touch it.
      if ((masks.covered & touched) != 0 || (masks.touched & covered) != 0) {
        continue;
      }
      const Host& host = hosts_[rank];
      if (rank == source_rank || host.is_source ||
          host.mappings >= limits_.max_mappings_per_granule) {
        continue;
      }
      if ((masks.touched & touched) != 0 && !Fits(host.granule, extents)) {
        continue;
      }
      return rank;
    }
    return ranks.end;
  }

  // The first of the ranks whose granule had so many quanta free in the
  // snapshot.
  size_t FirstWithRoomFor(uint32_t quanta, Ranks ranks) const {
    const uint32_t most_live = snapshot_.quanta_per_granule - quanta;
    const auto first = std::partition_point(
        hosts_.begin() + static_cast<std::ptrdiff_t>(ranks.begin),
        hosts_.begin() + static_cast<std::ptrdiff_t>(ranks.end),
        [&](const Host& host) { return host.live_quanta > most_live; });
    return static_cast<size_t>(first - hosts_.begin());
  }

  bool Fits(uint32_t granule, absl::Span<const OffsetInterval> extents) {
    const Occupancy& occupancy = ExactOf(granule);
    for (const OffsetInterval& extent : extents) {
      if (occupancy.AnyIn(extent)) return false;
    }
    return true;
  }

  // Exact bitmaps are made when first asked for.
  Occupancy& ExactOf(uint32_t granule) {
    Occupancy& occupancy = exact_[granule];
    if (occupancy.empty()) {
      occupancy = Occupancy(snapshot_.quanta_per_granule);
      for (const SnapshotVg& vg :
           snapshot_.VgsOf(snapshot_.granules[granule])) {
        for (const OffsetInterval& extent : snapshot_.ExtentsOf(vg)) {
          occupancy.Set(extent);
        }
      }
    }
    return occupancy;
  }

  void TakeIn(size_t rank, uint32_t vg) {
    Host& host = hosts_[rank];
    const auto extents = snapshot_.ExtentsOf(snapshot_.vgs[vg]);
    Occupancy& occupancy = ExactOf(host.granule);
    for (const OffsetInterval& extent : extents) occupancy.Set(extent);
    masks_[rank].touched |= coarse_.Touched(extents);
    masks_[rank].covered |= coarse_.Covered(extents);
    ++host.mappings;
    host.took_in = true;
  }

  struct UndoEntry {
    size_t rank;
    Host before;
    CoarseMasks masks_before;
    uint32_t vg;
  };
  void Undo(const UndoEntry& entry) {
    hosts_[entry.rank] = entry.before;
    masks_[entry.rank] = entry.masks_before;
    Occupancy& occupancy = ExactOf(entry.before.granule);
    for (const OffsetInterval& extent :
         snapshot_.ExtentsOf(snapshot_.vgs[entry.vg])) {
      occupancy.Clear(extent);
    }
  }

  const Snapshot& snapshot_;
  const PlanLimits limits_;
  const CoarseMask coarse_;
  std::vector<Host> hosts_;            // pinned first, of either fullest first
  std::vector<CoarseMasks> masks_;     // by rank
  std::vector<uint64_t> free_before_;  // free quanta of lower ranks, by rank
  std::vector<Occupancy> exact_;       // by index into Snapshot::granules
  std::vector<uint32_t> to_move_;      // indices into Snapshot::vgs
  std::vector<uint32_t> starts_;
  std::vector<UndoEntry> undo_;
  Plan plan_;
};

}  // namespace

Plan MakePlan(const Snapshot& snapshot, const PlanLimits& limits) {
  if (snapshot.granules.empty()) return Plan();
  return Planner(snapshot, limits).Run();
}

Plan MakeHolePlan(const Snapshot& snapshot, uint32_t quanta,
                  uint32_t alignment_quanta, const PlanLimits& limits) {
  return Planner(snapshot, limits).RunForHole(quanta, alignment_quanta);
}

}  // namespace firn
