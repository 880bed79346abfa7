// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pairing of addresses and physical memory: which granule each virtual
// granule is mapped to, and how often that has changed. The only caller of
// map, unmap and set-access.

#ifndef FIRN_VMM_MAPPING_TABLE_H_
#define FIRN_VMM_MAPPING_TABLE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"

namespace firn {

struct MappingTableOptions {
  // Applied whole to every mapping that is made, as a new mapping starts with
  // no access: the pool's own device, and peers.
  std::vector<AccessDesc> access;
  // Most virtual granules mapped at a time (I9): the device's translation
  // caches and the driver's books are finite.
  uint32_t max_mapped_vgs = std::numeric_limits<uint32_t>::max();
  // After each change, asks the driver what access every new mapping gives to
  // every location of `access`, and undoes the change if that is not it.
#ifdef NDEBUG
  bool verify_access = false;
#else
  bool verify_access = true;
#endif
  // Called after each change that was made, with the granule that was beneath
  // the virtual granule and the one that is; none: nothing was or is mapped.
  // Under its owner's lock. May be empty.
  std::function<void(VgIndex vg, GranuleId from, GranuleId to)> on_change;
};

// What a virtual granule shall be mapped to; no granule: nothing.
struct MappingChange {
  VgIndex vg;
  GranuleId to;
};

// Thread safety: none; guarded by its owner.
class MappingTable {
 public:
  // Owns none of its arguments, which must outlive it.
  MappingTable(Driver* driver, const AddressSpace* address_space,
               GranuleStore* store, MappingTableOptions options);
  // Unmaps everything that is mapped.
  ~MappingTable();
  MappingTable(const MappingTable&) = delete;
  MappingTable& operator=(const MappingTable&) = delete;

  // Makes all of `changes` (each virtual granule at most once), or none: on an
  // error every mapping is what it was before. Neighbours are unmapped and
  // given access in one call per run. Nothing may use the virtual granules
  // that are mapped now. If the former mapping cannot be restored either, the
  // virtual granules concerned are lost: `lost_status` keeps the first cause,
  // later changes to them are refused, everything else goes on working. The
  // owner must not give `lost_vgs` to anybody else; `stuck_granules`, which a
  // lost one may still reach, are quarantined in the store, and must take
  // nothing new in. A granule may be of any kind: memory moves to the host and
  // back as it moves on the device. ResourceExhausted, before any driver call,
  // if more would be mapped in the end than the budget allows.
  absl::Status Apply(absl::Span<const MappingChange> changes);
  // For a caller that cannot get rid of a mapping, because Apply refuses or
  // because work may still use it: `vg` is lost, its granule stuck.
  void Abandon(VgIndex vg, const absl::Status& cause);

  // The granule beneath `vg`, none if it is not mapped.
  GranuleId granule(VgIndex vg) const {
    return vg.value() < entries_.size() ? entries_[vg.value()].granule
                                        : GranuleId();
  }
  // Grows with every change of `vg` (I8).
  uint64_t generation(VgIndex vg) const {
    return vg.value() < entries_.size() ? entries_[vg.value()].generation : 0;
  }
  uint32_t mapped_vgs() const { return mapped_vgs_; }
  const absl::Status& lost_status() const { return lost_status_; }
  const std::vector<VgIndex>& lost_vgs() const { return lost_vgs_; }
  const std::vector<GranuleId>& stuck_granules() const {
    return stuck_granules_;
  }

  // Compares every entry, but for lost ones, with the driver's own view (I3):
  // the granule beneath it, and its access from each location. Then returns
  // lost_status().
  absl::Status CheckInvariants() const;

 private:
  struct Entry {
    GranuleId granule;
    uint64_t generation = 0;
    bool lost = false;
  };
  // Whether the changes, sorted by virtual granule, may be made at all.
  absl::Status Admit(absl::Span<const MappingChange> changes) const;
  // Steps of Apply, each undone by the ones after it failing.
  absl::Status UnmapRuns(absl::Span<const MappingChange> changes,
                         size_t* unmapped);
  absl::Status MapEach(absl::Span<const MappingChange> changes, size_t* mapped);
  absl::Status SetAccessRuns(absl::Span<const MappingChange> changes);
  absl::Status VerifyAccess(absl::Span<const MappingChange> changes) const;
  // Undoes the first `unmapped` unmaps and the first `mapped` maps.
  void RollBack(absl::Span<const MappingChange> changes, size_t unmapped,
                size_t mapped, const absl::Status& cause);
  // A driver that refuses to unmap `run` in one call may have unmapped some of
  // it: restores what is gone.
  void RestoreGone(absl::Span<const MappingChange> run,
                   const absl::Status& cause);
  bool IsGone(VgIndex vg) const;
  DriverResult UnmapForCertain(VgIndex vg);
  // Maps `granule` to `vg` as before, or loses `vg`.
  void Restore(VgIndex vg, GranuleId granule, const absl::Status& cause);
  void MarkStuck(GranuleId granule);
  void MarkLost(VgIndex vg, absl::string_view what, const absl::Status& cause);
  DriverResult SetAccess(VgRange range);
  // What the driver says of `vg` is what we have.
  absl::Status CheckEntry(VgIndex vg) const;
  absl::Status CheckAccess(VgIndex vg, const AccessDesc& wanted) const;

  Driver* const driver_;
  const AddressSpace* const address_space_;
  GranuleStore* const store_;
  const MappingTableOptions options_;
  std::vector<Entry> entries_;         // by VG, as far as any was ever mapped
  std::vector<MappingChange> sorted_;  // scratch of Apply
  uint32_t mapped_vgs_ = 0;
  absl::Status lost_status_;
  std::vector<VgIndex> lost_vgs_;
  std::vector<GranuleId> stuck_granules_;
};

}  // namespace firn

#endif  // FIRN_VMM_MAPPING_TABLE_H_
