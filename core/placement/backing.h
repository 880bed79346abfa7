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

// Every method that fails leaves mappings, books and store as they were.
// Thread safety: none; guarded by its owner.
class Backing {
 public:
  // Waits until no work uses memory that was freed: stream order allows work in
  // flight to touch it, and its next user on the same stream to have it, but
  // nobody to unmap it.
  using WaitForFreed = std::function<absl::Status()>;

  // Owns none of its arguments, which must outlive it.
  Backing(AddressSpace* address_space, GranuleStore* store,
          MappingTable* mappings, GranuleBooks* books,
          WaitForFreed wait_for_freed);

  AddressSpace& address_space() { return *address_space_; }
  GranuleStore& store() { return *store_; }
  MappingTable& mappings() { return *mappings_; }
  GranuleBooks& books() { return *books_; }

  // Runs of neighbouring virtual granules, each alone on an empty granule:
  // what freed large blocks leave behind.
  const VgRangeSet& empty_runs() const { return empty_runs_; }
  void AddEmptyRun(VgRange range);
  void TakeEmptyRun(VgRange range);

  // Maps one more virtual granule to a granule in use; a spare.
  absl::StatusOr<VgIndex> MapAlias(GranuleId granule);
  // A spare on an empty granule. ResourceExhausted if there is no granule left
  // to take: nothing cached, nothing empty, no budget or no device memory.
  absl::StatusOr<VgIndex> SpareOnEmptyGranule();

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
  // Unmaps every granule that holds nothing live, into the cache: frees
  // addresses. Returns how many virtual granules went.
  absl::StatusOr<uint32_t> UnmapEmpty();
  // Releases unused granules until at most `keep_granules` are held.
  absl::StatusOr<uint32_t> Trim(uint32_t keep_granules);
  // After a failure: what the mapping table has lost is kept from everybody,
  // and so are the granules that it may still reach. Cheap while nothing is
  // lost.
  void IsolateLost();
  // A granule without mappings goes to the store's cache.
  void CacheIfUnmapped(GranuleId granule);

 private:
  absl::StatusOr<uint32_t> UnmapIntoCache(const Harvest& harvest);
  absl::StatusOr<VgIndex> MapNew(GranuleId granule, const Harvest& harvest);

  AddressSpace* const address_space_;
  GranuleStore* const store_;
  MappingTable* const mappings_;
  GranuleBooks* const books_;
  const WaitForFreed wait_for_freed_;
  VgRangeSet empty_runs_;
  size_t isolated_vgs_ = 0;             // of the mapping table's lost ones
  std::vector<MappingChange> changes_;  // scratch
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_BACKING_H_
