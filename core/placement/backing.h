// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where virtual granules with memory beneath them come from: mappings that
// nothing uses, cached granules, new ones, and granules taken from beneath
// addresses that hold nothing live (harvested: a remap, never a copy).

#ifndef FIRN_CORE_PLACEMENT_BACKING_H_
#define FIRN_CORE_PLACEMENT_BACKING_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "firn/core/placement/granule_books.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/vg_range_set.h"

namespace firn {

// Virtual granules to unmap, and the granules that this sets free.
struct Harvest {
  std::vector<VgIndex> vgs;
  std::vector<GranuleId> granules;
};

// What tells the memory of one arena from that of others.
struct BackingOptions {
  GranuleKind kind = GranuleKind::kMovable;
  // The serial number of its domain, above 0.
  uint32_t domain = 1;
};

// Every method that fails leaves mappings, books and store as they were, but
// for granules that MakeOwn has made the arena's.
// Thread safety: none; guarded by its owner.
class Backing {
 public:
  // Waits until no work uses memory that was freed: stream order allows work in
  // flight to touch it, and its next user on the same stream to have it, but
  // nobody to unmap it.
  using WaitForFreed = std::function<absl::Status()>;
  // Fills these virtual granules with zeros, and waits until that is done.
  using Zero = std::function<absl::Status(absl::Span<const VgIndex>)>;
  // This virtual granule is about to go, or is lost: nothing new comes to it.
  using OnLeaving = std::function<void(VgIndex)>;

  // Owns none of its arguments, which must outlive it.
  Backing(AddressSpace* address_space, GranuleStore* store,
          MappingTable* mappings, GranuleBooks* books, BackingOptions options,
          WaitForFreed wait_for_freed, Zero zero);
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  AddressSpace& address_space() { return *address_space_; }
  GranuleStore& store() { return *store_; }
  MappingTable& mappings() { return *mappings_; }
  GranuleBooks& books() { return *books_; }
  GranuleKind kind() const { return options_.kind; }

  // Runs of neighbouring virtual granules, each alone on an empty granule:
  // what freed large blocks leave behind.
  const VgRangeSet& empty_runs() const { return empty_runs_; }
  void AddEmptyRun(VgRange range);
  void TakeEmptyRun(VgRange range);

  // Told of virtual granules of empty runs, and of lost ones. None at first.
  void set_on_leaving(OnLeaving on_leaving) {
    on_leaving_ = std::move(on_leaving);
  }

  // Maps virtual granules of free addresses to granules of their own, from the
  // cache, the driver and wherever nothing is live: an empty run.
  // ResourceExhausted if there are too few.
  absl::Status MapRun(VgRange range);
  // Maps one more virtual granule to a granule in use; a spare.
  absl::StatusOr<VgIndex> MapAlias(GranuleId granule);
  // A spare on an empty granule. ResourceExhausted if there is no granule left
  // to take: nothing cached, nothing empty, no budget or no device memory.
  absl::StatusOr<VgIndex> SpareOnEmptyGranule();

  // Most granules that the arena may have mapped: what it would need beyond
  // that counts as not there. No limit at first.
  uint32_t quota_granules() const { return quota_granules_; }
  void set_quota_granules(uint32_t granules) { quota_granules_ = granules; }
  uint32_t quota_left() const {
    const uint32_t mapped = books_->mapped_granules();
    return quota_granules_ > mapped ? quota_granules_ - mapped : 0;
  }
  // Granules from the store: at most `count`, and no more than the quota has
  // left.
  absl::Status AcquireAtMost(uint32_t count, Acquisition* acquisition);

  // From now on granules are zeroed when they come from another domain. What is
  // mapped now is the arena's own.
  void KeepDomainsApart();
  // Before something is placed on virtual granules with nothing live: zeroes
  // those whose granules have had contents of other domains, and exportable
  // ones always, as others will see all of them. After an error some may have
  // been.
  absl::Status MakeOwn(VgRange range);
  uint64_t zeroed_granules() const { return zeroed_granules_; }
  // For those that fill a granule with the arena's blocks before it is mapped
  // for good: whether it has to be zeroed first; and that it has been.
  bool IsForeign(GranuleId granule) const {
    return keeps_domains_apart_ &&
           store_->contents_of(granule) != options_.domain;
  }
  void NoteOwn(GranuleId granule) {
    if (!IsForeign(granule)) return;
    store_->SetContentsOf(granule, options_.domain);
    ++zeroed_granules_;
  }

  // MappingTable::Apply, for virtual granules that hold nothing live: waits
  // first if one of them is mapped now.
  absl::Status Apply(absl::Span<const MappingChange> changes);

  // Chooses up to `count` empty granules that are mapped, outside `keep`:
  // those of spares first, then those of the shortest runs. Changes nothing.
  Harvest ChooseHarvest(uint32_t count, VgRange keep) const;
  static void AddUnmaps(const Harvest& harvest,
                        std::vector<MappingChange>* changes);
  // The harvest's virtual granules have been unmapped.
  void CommitHarvest(const Harvest& harvest);

  // Granules that could be had without moving anything live.
  uint32_t available_granules() const;

  // Unmaps the spares of granules in use that have at least `least_mappings`
  // mappings. Frees addresses and mappings, costs later calls. Returns how many
  // went.
  absl::StatusOr<uint32_t> UnmapSpares(uint32_t least_mappings);
  // Unmaps granules that hold nothing live, up to `most_granules` of them, into
  // the cache: frees addresses. Returns how many virtual granules went.
  absl::StatusOr<uint32_t> UnmapEmpty(
      uint32_t most_granules = std::numeric_limits<uint32_t>::max());
  // After a failure: what the mapping table has lost is kept from everybody,
  // and so are the granules that it may still reach. Cheap while nothing is
  // lost.
  void IsolateLost();
  // A granule without mappings goes to the store's cache.
  void CacheIfUnmapped(GranuleId granule);

 private:
  void NoteLeaving(VgIndex vg) {
    if (on_leaving_) on_leaving_(vg);
  }
  absl::StatusOr<VgIndex> OwnSpare(VgIndex vg);
  absl::StatusOr<VgIndex> MapNew(GranuleId granule, const Harvest& harvest);

  AddressSpace* const address_space_;
  GranuleStore* const store_;
  MappingTable* const mappings_;
  GranuleBooks* const books_;
  const BackingOptions options_;
  const WaitForFreed wait_for_freed_;
  const Zero zero_;
  OnLeaving on_leaving_;
  uint32_t quota_granules_ = std::numeric_limits<uint32_t>::max();
  bool keeps_domains_apart_ = false;
  uint64_t zeroed_granules_ = 0;
  VgRangeSet empty_runs_;
  size_t isolated_vgs_ = 0;             // of the mapping table's lost ones
  std::vector<MappingChange> changes_;  // scratch
  std::vector<VgIndex> foreign_;        // scratch
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_BACKING_H_
