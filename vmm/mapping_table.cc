// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/mapping_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// A driver may answer NOT_READY to set-access while other threads queue work:
// worth a few more tries, not worth waiting for.
constexpr int kNotReadyTries = 4;
// Restoring a mapping is worth more than one try: giving up loses memory.
constexpr int kRestoreTries = 3;

VgRange RangeOf(VgIndex first, size_t count) {
  VgRange range;
  range.first = first;
  range.count = static_cast<uint32_t>(count);
  return range;
}

// The number of changes from `begin` on that concern neighbouring virtual
// granules and satisfy `wanted`.
template <typename Predicate>
size_t RunLength(absl::Span<const MappingChange> changes, size_t begin,
                 Predicate wanted) {
  size_t end = begin;
  while (end < changes.size() && wanted(changes[end]) &&
         changes[end].vg - changes[begin].vg == end - begin) {
    ++end;
  }
  return end - begin;
}

}  // namespace

MappingTable::MappingTable(Driver* driver, const AddressSpace* address_space,
                           GranuleStore* store, std::vector<AccessDesc> access)
    : driver_(driver),
      address_space_(address_space),
      store_(store),
      access_(std::move(access)) {}

MappingTable::~MappingTable() {
  // What was lost may be mapped or not: that the call may fail is no harm.
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].granule.is_none() && !entries_[i].lost) continue;
    driver_->MemUnmap(address_space_->AddressOf(VgIndex(i)),
                      address_space_->granule_bytes());
  }
}

absl::Status MappingTable::Apply(absl::Span<const MappingChange> changes) {
  if (changes.empty()) return absl::OkStatus();
  sorted_.assign(changes.begin(), changes.end());
  std::sort(sorted_.begin(), sorted_.end(),
            [](const MappingChange& a, const MappingChange& b) {
              return a.vg < b.vg;
            });
  const size_t needed = size_t{sorted_.back().vg.value()} + 1;
  if (entries_.size() < needed) entries_.resize(needed);
  for (size_t i = 0; i < sorted_.size(); ++i) {
    if (i > 0 && sorted_[i].vg == sorted_[i - 1].vg) {
      return absl::InternalError(absl::StrCat(
          "virtual granule ", sorted_[i].vg.value(), " changed twice at once"));
    }
    if (entries_[sorted_[i].vg.value()].lost) {
      return absl::InternalError(
          absl::StrCat("virtual granule ", sorted_[i].vg.value(),
                       " was lost before: ", lost_status_.message()));
    }
  }

  size_t unmapped = 0;
  size_t mapped = 0;
  absl::Status status;
  DriverResult result = UnmapRuns(sorted_, &unmapped);
  if (result != DriverResult::kSuccess) {
    status = ToStatus(result, "cuMemUnmap");
  } else if ((result = MapEach(sorted_, &mapped)) != DriverResult::kSuccess) {
    status = ToStatus(result, "cuMemMap");
  } else if ((result = SetAccessRuns(sorted_)) != DriverResult::kSuccess) {
    status = ToStatus(result, "cuMemSetAccess");
  }
  if (!status.ok()) {
    RollBack(sorted_, unmapped, mapped, status);
    return status;
  }

  for (const MappingChange& change : sorted_) {
    Entry& entry = entries_[change.vg.value()];
    if (!entry.granule.is_none()) --mapped_vgs_;
    if (!change.to.is_none()) ++mapped_vgs_;
    entry.granule = change.to;
    ++entry.generation;
  }
  return absl::OkStatus();
}

DriverResult MappingTable::UnmapRuns(absl::Span<const MappingChange> changes,
                                     size_t* unmapped) {
  const auto is_mapped = [this](const MappingChange& change) {
    return !entries_[change.vg.value()].granule.is_none();
  };
  while (*unmapped < changes.size()) {
    const size_t run = RunLength(changes, *unmapped, is_mapped);
    if (run == 0) {  // a hole is never part of a call
      ++*unmapped;
      continue;
    }
    const DriverResult result =
        driver_->MemUnmap(address_space_->AddressOf(changes[*unmapped].vg),
                          run * address_space_->granule_bytes());
    if (result != DriverResult::kSuccess) return result;
    *unmapped += run;
  }
  return DriverResult::kSuccess;
}

DriverResult MappingTable::MapEach(absl::Span<const MappingChange> changes,
                                   size_t* mapped) {
  for (; *mapped < changes.size(); ++*mapped) {
    const MappingChange& change = changes[*mapped];
    if (change.to.is_none()) continue;
    const DriverResult result = driver_->MemMap(
        address_space_->AddressOf(change.vg), address_space_->granule_bytes(),
        0, store_->handle(change.to), 0);
    if (result != DriverResult::kSuccess) return result;
  }
  return DriverResult::kSuccess;
}

DriverResult MappingTable::SetAccess(VgRange range) {
  DriverResult result = DriverResult::kNotReady;
  for (int i = 0; i < kNotReadyTries && result == DriverResult::kNotReady;
       ++i) {
    result =
        driver_->MemSetAccess(address_space_->AddressOf(range.first),
                              range.count * address_space_->granule_bytes(),
                              access_.data(), access_.size());
  }
  return result;
}

DriverResult MappingTable::SetAccessRuns(
    absl::Span<const MappingChange> changes) {
  const auto is_made = [](const MappingChange& change) {
    return !change.to.is_none();
  };
  for (size_t i = 0; i < changes.size();) {
    const size_t run = RunLength(changes, i, is_made);
    if (run == 0) {
      ++i;
      continue;
    }
    const DriverResult result = SetAccess(RangeOf(changes[i].vg, run));
    if (result != DriverResult::kSuccess) return result;
    i += run;
  }
  return DriverResult::kSuccess;
}

DriverResult MappingTable::UnmapForCertain(VgIndex vg) {
  DriverResult result = DriverResult::kUnknown;
  for (int i = 0; i < kRestoreTries && result != DriverResult::kSuccess; ++i) {
    result = driver_->MemUnmap(address_space_->AddressOf(vg),
                               address_space_->granule_bytes());
  }
  return result;
}

DriverResult MappingTable::Restore(VgIndex vg, GranuleId granule) {
  const DevicePtr address = address_space_->AddressOf(vg);
  const uint64_t bytes = address_space_->granule_bytes();
  DriverResult result = DriverResult::kUnknown;
  for (int i = 0; i < kRestoreTries; ++i) {
    result = driver_->MemMap(address, bytes, 0, store_->handle(granule), 0);
    if (result == DriverResult::kSuccess) break;
  }
  if (result != DriverResult::kSuccess) return result;
  for (int i = 0; i < kRestoreTries; ++i) {
    result = SetAccess(RangeOf(vg, 1));
    if (result == DriverResult::kSuccess) return result;
  }
  driver_->MemUnmap(address, bytes);
  return result;
}

void MappingTable::RollBack(absl::Span<const MappingChange> changes,
                            size_t unmapped, size_t mapped,
                            const absl::Status& cause) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const MappingChange& change = changes[i];
    Entry& entry = entries_[change.vg.value()];
    DriverResult result = DriverResult::kSuccess;
    if (i < mapped && !change.to.is_none()) {
      result = UnmapForCertain(change.vg);
      if (result != DriverResult::kSuccess) {
        stuck_granules_.push_back(change.to);
        store_->Quarantine(change.to);
      }
    }
    if (result == DriverResult::kSuccess && i < unmapped &&
        !entry.granule.is_none()) {
      result = Restore(change.vg, entry.granule);
    }
    if (result == DriverResult::kSuccess) continue;
    entry.lost = true;
    lost_vgs_.push_back(change.vg);
    if (lost_status_.ok()) {
      lost_status_ = absl::InternalError(absl::StrCat(
          "virtual granule ", change.vg.value(), " could not be restored (",
          DriverResultName(result), ") after: ", cause.message()));
    }
  }
}

absl::Status MappingTable::CheckInvariants() const {
  if (!lost_status_.ok()) return lost_status_;
  uint32_t mapped = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const DevicePtr address = address_space_->AddressOf(VgIndex(i));
    PhysicalHandle handle = 0;
    const DriverResult result =
        driver_->MemRetainAllocationHandle(&handle, address);
    if (result == DriverResult::kSuccess) driver_->MemRelease(handle);
    if (entry.granule.is_none()) {
      if (result == DriverResult::kSuccess) {
        return absl::InternalError(absl::StrCat(
            "I3: the driver has virtual granule ", i, " mapped, we do not"));
      }
      continue;
    }
    ++mapped;
    if (result != DriverResult::kSuccess ||
        handle != store_->handle(entry.granule)) {
      return absl::InternalError(
          absl::StrCat("I3: the driver has another granule beneath virtual "
                       "granule ",
                       i, " (", DriverResultName(result), ")"));
    }
    for (const AccessDesc& desc : access_) {
      AccessFlags flags = AccessFlags::kNone;
      const DriverResult access =
          driver_->MemGetAccess(&flags, &desc.location, address);
      if (access != DriverResult::kSuccess || flags != desc.flags) {
        return absl::InternalError(absl::StrCat(
            "I3: the driver grants other access to virtual granule ", i));
      }
    }
  }
  if (mapped != mapped_vgs_) {
    return absl::InternalError(absl::StrCat(
        "I3: ", mapped, " virtual granules mapped, counted ", mapped_vgs_));
  }
  return absl::OkStatus();
}

}  // namespace firn
