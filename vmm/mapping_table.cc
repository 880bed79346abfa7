// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/mapping_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

// On the way back a call is worth more than one try: giving up loses memory.
constexpr int kTriesOnTheWayBack = 3;

// `call` until it succeeds, but for a few times only.
template <typename Call>
DriverResult Insist(Call call) {
  DriverResult result = DriverResult::kUnknown;
  for (int i = 0; i < kTriesOnTheWayBack && result != DriverResult::kSuccess;
       ++i) {
    result = call();
  }
  return result;
}

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

std::string WhyLost(DriverResult result) {
  return absl::StrCat("could not be restored (", DriverResultName(result), ")");
}

}  // namespace

MappingTable::MappingTable(Driver* driver, const AddressSpace* address_space,
                           GranuleStore* store, MappingTableOptions options)
    : driver_(driver),
      address_space_(address_space),
      store_(store),
      options_(std::move(options)) {}

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
  absl::Status status = Admit(sorted_);
  if (!status.ok()) return status;

  size_t unmapped = 0;
  size_t mapped = 0;
  status = UnmapRuns(sorted_, &unmapped);
  if (status.ok()) status = MapEach(sorted_, &mapped);
  if (status.ok()) status = SetAccessRuns(sorted_);
  if (status.ok() && options_.verify_access) status = VerifyAccess(sorted_);
  if (!status.ok()) {
    RollBack(sorted_, unmapped, mapped, status);
    return status;
  }

  for (const MappingChange& change : sorted_) {
    Entry& entry = entries_[change.vg.value()];
    if (!entry.granule.is_none()) --mapped_vgs_;
    if (!change.to.is_none()) ++mapped_vgs_;
    const GranuleId from = std::exchange(entry.granule, change.to);
    ++entry.generation;
    if (options_.on_change) options_.on_change(change.vg, from, change.to);
  }
  return absl::OkStatus();
}

absl::Status MappingTable::Admit(
    absl::Span<const MappingChange> changes) const {
  uint64_t mapped_after = mapped_vgs_;
  for (size_t i = 0; i < changes.size(); ++i) {
    const VgIndex vg = changes[i].vg;
    if (i > 0 && vg == changes[i - 1].vg) {
      return absl::InternalError(absl::StrCat("virtual granule ", vg.value(),
                                              " changed twice at once"));
    }
    const Entry& entry = entries_[vg.value()];
    if (entry.lost) {
      return absl::InternalError(
          absl::StrCat("virtual granule ", vg.value(),
                       " was lost before: ", lost_status_.message()));
    }
    // In this order, as what is mapped now is counted.
    if (!changes[i].to.is_none()) ++mapped_after;
    if (!entry.granule.is_none()) --mapped_after;
  }
  if (mapped_after <= options_.max_mapped_vgs) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      mapped_after, " virtual granules would be mapped, of at most ",
      options_.max_mapped_vgs, "; ", mapped_vgs_, " are now"));
}

absl::Status MappingTable::UnmapRuns(absl::Span<const MappingChange> changes,
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
    if (result != DriverResult::kSuccess) {
      const absl::Status status = ToStatus(result, "cuMemUnmap");
      RestoreGone(changes.subspan(*unmapped, run), status);
      return status;
    }
    *unmapped += run;
  }
  return absl::OkStatus();
}

absl::Status MappingTable::MapEach(absl::Span<const MappingChange> changes,
                                   size_t* mapped) {
  for (; *mapped < changes.size(); ++*mapped) {
    const MappingChange& change = changes[*mapped];
    if (change.to.is_none()) continue;
    const DriverResult result = driver_->MemMap(
        address_space_->AddressOf(change.vg), address_space_->granule_bytes(),
        0, store_->handle(change.to), 0);
    if (result != DriverResult::kSuccess) return ToStatus(result, "cuMemMap");
  }
  return absl::OkStatus();
}

DriverResult MappingTable::SetAccess(VgRange range) {
  return driver_->MemSetAccess(address_space_->AddressOf(range.first),
                               range.count * address_space_->granule_bytes(),
                               options_.access.data(), options_.access.size());
}

absl::Status MappingTable::SetAccessRuns(
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
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemSetAccess");
    }
    i += run;
  }
  return absl::OkStatus();
}

absl::Status MappingTable::VerifyAccess(
    absl::Span<const MappingChange> changes) const {
  for (const MappingChange& change : changes) {
    if (change.to.is_none()) continue;
    for (const AccessDesc& wanted : options_.access) {
      const absl::Status status = CheckAccess(change.vg, wanted);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status MappingTable::CheckAccess(VgIndex vg,
                                       const AccessDesc& wanted) const {
  AccessFlags flags = AccessFlags::kNone;
  const DriverResult result = driver_->MemGetAccess(
      &flags, &wanted.location, address_space_->AddressOf(vg));
  if (result != DriverResult::kSuccess)
    return ToStatus(result, "cuMemGetAccess");
  if (flags == wanted.flags) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the driver grants location ", wanted.location.id, " (type ",
      static_cast<int32_t>(wanted.location.type), ") access ",
      static_cast<int32_t>(flags), " to virtual granule ", vg.value(),
      " instead of ", static_cast<int32_t>(wanted.flags)));
}

bool MappingTable::IsGone(VgIndex vg) const {
  PhysicalHandle handle = 0;
  const DriverResult result = Insist([&] {
    return driver_->MemRetainAllocationHandle(&handle,
                                              address_space_->AddressOf(vg));
  });
  if (result == DriverResult::kSuccess) {
    Insist([&] { return driver_->MemRelease(handle); });
  }
  // The answer for an address that nothing is mapped to. Any other failure says
  // nothing of this address: then the unmap is taken to have done nothing, as
  // calls that fail do.
  return result == DriverResult::kInvalidValue;
}

void MappingTable::RestoreGone(absl::Span<const MappingChange> run,
                               const absl::Status& cause) {
  for (const MappingChange& change : run) {
    if (!IsGone(change.vg)) continue;
    Restore(change.vg, entries_[change.vg.value()].granule, cause);
  }
}

DriverResult MappingTable::UnmapForCertain(VgIndex vg) {
  return Insist([&] {
    return driver_->MemUnmap(address_space_->AddressOf(vg),
                             address_space_->granule_bytes());
  });
}

void MappingTable::Restore(VgIndex vg, GranuleId granule,
                           const absl::Status& cause) {
  DriverResult result = Insist([&] {
    return driver_->MemMap(address_space_->AddressOf(vg),
                           address_space_->granule_bytes(), 0,
                           store_->handle(granule), 0);
  });
  if (result == DriverResult::kSuccess) {
    result = Insist([&] { return SetAccess(RangeOf(vg, 1)); });
    if (result == DriverResult::kSuccess) return;
    if (UnmapForCertain(vg) != DriverResult::kSuccess) MarkStuck(granule);
  }
  MarkLost(vg, WhyLost(result), cause);
}

void MappingTable::RollBack(absl::Span<const MappingChange> changes,
                            size_t unmapped, size_t mapped,
                            const absl::Status& cause) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const MappingChange& change = changes[i];
    if (i < mapped && !change.to.is_none()) {
      const DriverResult result = UnmapForCertain(change.vg);
      if (result != DriverResult::kSuccess) {
        MarkStuck(change.to);
        MarkLost(change.vg, WhyLost(result), cause);
        continue;
      }
    }
    const GranuleId former = entries_[change.vg.value()].granule;
    if (i < unmapped && !former.is_none()) Restore(change.vg, former, cause);
  }
}

void MappingTable::Abandon(VgIndex vg, const absl::Status& cause) {
  if (granule(vg).is_none() || entries_[vg.value()].lost) return;
  MarkStuck(granule(vg));
  MarkLost(vg, "was given up", cause);
}

void MappingTable::MarkStuck(GranuleId granule) {
  stuck_granules_.push_back(granule);
  store_->Quarantine(granule);
}

void MappingTable::MarkLost(VgIndex vg, absl::string_view what,
                            const absl::Status& cause) {
  entries_[vg.value()].lost = true;
  lost_vgs_.push_back(vg);
  if (!lost_status_.ok()) return;
  lost_status_ = absl::InternalError(absl::StrCat(
      "virtual granule ", vg.value(), " ", what, " after: ", cause.message()));
}

absl::Status MappingTable::CheckInvariants() const {
  uint32_t mapped = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].granule.is_none()) ++mapped;
    const absl::Status status = CheckEntry(VgIndex(i));
    if (!status.ok()) {
      return absl::InternalError(absl::StrCat("I3: ", status.message()));
    }
  }
  if (mapped != mapped_vgs_) {
    return absl::InternalError(absl::StrCat(
        "I3: ", mapped, " virtual granules mapped, counted ", mapped_vgs_));
  }
  return lost_status_;
}

absl::Status MappingTable::CheckEntry(VgIndex vg) const {
  const Entry& entry = entries_[vg.value()];
  if (entry.lost) return absl::OkStatus();  // mapped or not, nobody knows
  PhysicalHandle handle = 0;
  const DriverResult result = driver_->MemRetainAllocationHandle(
      &handle, address_space_->AddressOf(vg));
  const bool is_mapped = result == DriverResult::kSuccess;
  if (is_mapped) Insist([&] { return driver_->MemRelease(handle); });
  if (entry.granule.is_none()) {
    if (!is_mapped) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the driver has virtual granule ",
                                            vg.value(), " mapped, we do not"));
  }
  if (!is_mapped || handle != store_->handle(entry.granule)) {
    return absl::InternalError(
        absl::StrCat("the driver has another granule beneath virtual granule ",
                     vg.value(), " (", DriverResultName(result), ")"));
  }
  for (const AccessDesc& wanted : options_.access) {
    const absl::Status status = CheckAccess(vg, wanted);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace firn
