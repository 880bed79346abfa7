// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pairing of addresses and physical memory: which granule each virtual
// granule is mapped to, and how often that has changed. The only caller of
// map, unmap and set-access.

#ifndef FIRN_VMM_MAPPING_TABLE_H_
#define FIRN_VMM_MAPPING_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"

namespace firn {

// What a virtual granule shall be mapped to; no granule: nothing.
struct MappingChange {
  VgIndex vg;
  GranuleId to;
};

// Thread safety: none; guarded by its owner.
class MappingTable {
 public:
  // Owns none of its arguments, which must outlive it. `access` is applied
  // whole to every mapping that is made: a new mapping starts with no access.
  MappingTable(Driver* driver, const AddressSpace* address_space,
               GranuleStore* store, std::vector<AccessDesc> access);
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
  // nothing new in.
  absl::Status Apply(absl::Span<const MappingChange> changes);

  // The granule beneath `vg`, none if it is not mapped.
  GranuleId granule(VgIndex vg) const {
    return vg.value() < entries_.size() ? entries_[vg.value()].granule
                                        : GranuleId();
  }
  // Grows with every change of `vg`.
  uint32_t generation(VgIndex vg) const {
    return vg.value() < entries_.size() ? entries_[vg.value()].generation : 0;
  }
  uint32_t mapped_vgs() const { return mapped_vgs_; }
  const absl::Status& lost_status() const { return lost_status_; }
  const std::vector<VgIndex>& lost_vgs() const { return lost_vgs_; }
  const std::vector<GranuleId>& stuck_granules() const {
    return stuck_granules_;
  }

  // Compares every entry with the driver's own view (I3).
  absl::Status CheckInvariants() const;

 private:
  struct Entry {
    GranuleId granule;
    uint32_t generation = 0;
    bool lost = false;
  };
  // Steps of Apply, each undone by the ones after it failing.
  DriverResult UnmapRuns(absl::Span<const MappingChange> changes,
                         size_t* unmapped);
  DriverResult MapEach(absl::Span<const MappingChange> changes, size_t* mapped);
  DriverResult SetAccessRuns(absl::Span<const MappingChange> changes);
  void RollBack(absl::Span<const MappingChange> changes, size_t unmapped,
                size_t mapped, const absl::Status& cause);
  DriverResult UnmapForCertain(VgIndex vg);
  DriverResult Restore(VgIndex vg, GranuleId granule);
  DriverResult SetAccess(VgRange range);

  Driver* const driver_;
  const AddressSpace* const address_space_;
  GranuleStore* const store_;
  const std::vector<AccessDesc> access_;
  std::vector<Entry> entries_;         // by VG, as far as any was ever mapped
  std::vector<MappingChange> sorted_;  // scratch of Apply
  uint32_t mapped_vgs_ = 0;
  absl::Status lost_status_;
  std::vector<VgIndex> lost_vgs_;
  std::vector<GranuleId> stuck_granules_;
};

}  // namespace firn

#endif  // FIRN_VMM_MAPPING_TABLE_H_
