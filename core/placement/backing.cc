// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/backing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

VgRange OneVg(VgIndex vg) {
  VgRange range;
  range.first = vg;
  range.count = 1;
  return range;
}

MappingChange MakeChange(VgIndex vg, GranuleId to) {
  MappingChange change;
  change.vg = vg;
  change.to = to;
  return change;
}

}  // namespace

Backing::Backing(AddressSpace* address_space, GranuleStore* store,
                 MappingTable* mappings, GranuleBooks* books,
                 BackingOptions options, WaitForFreed wait_for_freed, Zero zero)
    : address_space_(address_space),
      store_(store),
      mappings_(mappings),
      books_(books),
      options_(options),
      wait_for_freed_(std::move(wait_for_freed)),
      zero_(std::move(zero)) {}

// --- Quota and domain ---

absl::Status Backing::AcquireAtMost(uint32_t count, Acquisition* acquisition) {
  return store_->AcquireAtMost(std::min(count, quota_left()), acquisition,
                               options_.kind);
}

void Backing::KeepDomainsApart() {
  if (keeps_domains_apart_) return;
  keeps_domains_apart_ = true;
  for (uint32_t i = 0; i < books_->granule_limit(); ++i) {
    const GranuleRecord& record = books_->granule(GranuleId(i));
    if (!books_->IsOwn(record) || record.mappings == 0) continue;
    store_->SetContentsOf(GranuleId(i), options_.domain);
  }
}

absl::Status Backing::MakeOwn(VgRange range) {
  const bool is_exportable = options_.kind == GranuleKind::kExportable;
  if (!keeps_domains_apart_ && !is_exportable) return absl::OkStatus();
  foreign_.clear();
  for (uint32_t i = 0; i < range.count; ++i) {
    const VgIndex vg = range.first + i;
    const GranuleId granule = books_->vg(vg).granule;
    if (books_->granule(granule).live_quanta == 0 &&
        (is_exportable || store_->contents_of(granule) != options_.domain)) {
      foreign_.push_back(vg);
    }
  }
  if (foreign_.empty()) return absl::OkStatus();
  // Exportable memory is freed with a token: no work uses what is free.
  absl::Status status = is_exportable ? absl::OkStatus() : wait_for_freed_();
  if (status.ok()) status = zero_(foreign_);
  if (!status.ok()) return status;
  for (const VgIndex vg : foreign_) {
    store_->SetContentsOf(books_->vg(vg).granule, options_.domain);
  }
  zeroed_granules_ += foreign_.size();
  return absl::OkStatus();
}

absl::StatusOr<VgIndex> Backing::OwnSpare(VgIndex vg) {
  const absl::Status own = MakeOwn(OneVg(vg));
  if (!own.ok()) return own;
  return vg;
}

// --- Mappings ---

absl::Status Backing::Apply(absl::Span<const MappingChange> changes) {
  for (const MappingChange& change : changes) {
    if (mappings_->granule(change.vg).is_none()) continue;
    const absl::Status idle = wait_for_freed_();
    if (!idle.ok()) return idle;
    break;
  }
  return mappings_->Apply(changes);
}

void Backing::AddEmptyRun(VgRange range) {
  for (uint32_t i = 0; i < range.count; ++i) {
    books_->SetEmptyRun(range.first + i, true);
  }
  empty_runs_.Insert(range);
}

void Backing::TakeEmptyRun(VgRange range) {
  empty_runs_.Remove(range);
  for (uint32_t i = 0; i < range.count; ++i) {
    books_->SetEmptyRun(range.first + i, false);
  }
}

absl::StatusOr<VgIndex> Backing::MapNew(GranuleId granule,
                                        const Harvest& harvest) {
  const std::optional<VgIndex> vg = address_space_->TakeHighest();
  if (!vg.has_value()) {
    return absl::ResourceExhaustedError("the reserved addresses are used up");
  }
  changes_.clear();
  AddUnmaps(harvest, &changes_);
  changes_.push_back(MakeChange(*vg, granule));
  const absl::Status status = Apply(changes_);
  if (!status.ok()) {
    address_space_->Give(OneVg(*vg));
    return status;
  }
  CommitHarvest(harvest);
  books_->Attach(*vg, granule, /*of_large_run=*/false);
  return *vg;
}

absl::Status Backing::MapRun(VgRange range) {
  Acquisition acquisition;
  absl::Status status = AcquireAtMost(range.count, &acquisition);
  Harvest harvest;
  std::vector<GranuleId> granules = acquisition.granules;
  if (status.ok() && granules.size() < range.count) {
    harvest = ChooseHarvest(
        range.count - static_cast<uint32_t>(granules.size()), VgRange());
    granules.insert(granules.end(), harvest.granules.begin(),
                    harvest.granules.end());
    if (granules.size() < range.count) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(range.count - granules.size(), " of ", range.count,
                       " granules missing"));
    }
  }
  if (status.ok()) {
    changes_.clear();
    AddUnmaps(harvest, &changes_);
    for (uint32_t i = 0; i < range.count; ++i) {
      changes_.push_back(MakeChange(range.first + i, granules[i]));
    }
    status = Apply(changes_);
  }
  if (!status.ok()) {
    store_->GiveBack(acquisition);
    return status;
  }
  CommitHarvest(harvest);
  address_space_->Take(range);
  for (uint32_t i = 0; i < range.count; ++i) {
    books_->Attach(range.first + i, granules[i], /*of_large_run=*/true);
  }
  AddEmptyRun(range);
  return absl::OkStatus();
}

absl::StatusOr<VgIndex> Backing::MapAlias(GranuleId granule) {
  return MapNew(granule, Harvest());
}

absl::StatusOr<VgIndex> Backing::SpareOnEmptyGranule() {
  if (!books_->empty_granules().empty()) {
    return OwnSpare(books_->SpareOf(books_->empty_granules().back()));
  }
  Acquisition acquisition;
  absl::Status status = AcquireAtMost(1, &acquisition);
  if (!status.ok()) {
    store_->GiveBack(acquisition);
    return status;
  }
  if (!acquisition.granules.empty()) {
    absl::StatusOr<VgIndex> vg =
        MapNew(acquisition.granules.front(), Harvest());
    if (!vg.ok()) {
      store_->GiveBack(acquisition);
      return vg;
    }
    return OwnSpare(*vg);
  }
  const Harvest harvest = ChooseHarvest(1, VgRange());
  if (harvest.granules.empty()) {
    return absl::ResourceExhaustedError("no granule is free");
  }
  const absl::StatusOr<VgIndex> vg = MapNew(harvest.granules.front(), harvest);
  if (!vg.ok()) return vg;
  return OwnSpare(*vg);
}

Harvest Backing::ChooseHarvest(uint32_t count, VgRange keep) const {
  Harvest harvest;
  const std::vector<GranuleId>& empty = books_->empty_granules();
  for (size_t i = empty.size(); i-- > 0 && harvest.granules.size() < count;) {
    harvest.granules.push_back(empty[i]);
    for (VgIndex at = books_->granule(empty[i]).first; !at.is_none();
         at = books_->vg(at).next) {
      harvest.vgs.push_back(at);
    }
  }
  for (std::optional<VgRange> run = empty_runs_.Shortest();
       run.has_value() && harvest.granules.size() < count;
       run = empty_runs_.NextByLength(*run)) {
    for (uint32_t i = run->count; i-- > 0 && harvest.granules.size() < count;) {
      const VgIndex vg = run->first + i;
      if (keep.count > 0 && keep.contains(vg)) continue;
      harvest.vgs.push_back(vg);
      harvest.granules.push_back(books_->vg(vg).granule);
    }
  }
  return harvest;
}

void Backing::AddUnmaps(const Harvest& harvest,
                        std::vector<MappingChange>* changes) {
  for (const VgIndex vg : harvest.vgs) {
    changes->push_back(MakeChange(vg, GranuleId()));
  }
}

void Backing::CommitHarvest(const Harvest& harvest) {
  for (const VgIndex vg : harvest.vgs) {
    if (books_->vg(vg).role == VgRole::kEmptyRun) {
      NoteLeaving(vg);
      empty_runs_.Remove(OneVg(vg));
    }
    books_->Detach(vg);
    address_space_->Give(OneVg(vg));
  }
}

uint32_t Backing::available_granules() const {
  return std::min(store_->cached_granules(options_.kind) +
                      store_->free_budget_granules(),
                  quota_left()) +
         static_cast<uint32_t>(books_->empty_granules().size()) +
         empty_runs_.vg_count();
}

absl::StatusOr<uint32_t> Backing::UnmapSpares(uint32_t least_mappings) {
  Harvest spares;
  for (uint32_t i = 0; i < books_->granule_limit(); ++i) {
    const GranuleRecord& record = books_->granule(GranuleId(i));
    if (!books_->IsOwn(record) || record.live_quanta == 0 ||
        record.is_closed() || record.mappings < least_mappings) {
      continue;
    }
    VgIndex at = record.first;
    for (uint32_t n = record.spares; n > 0; --n, at = books_->vg(at).next) {
      spares.vgs.push_back(at);
    }
  }
  if (spares.vgs.empty()) return 0;
  changes_.clear();
  AddUnmaps(spares, &changes_);
  const absl::Status status = Apply(changes_);
  if (!status.ok()) return status;
  CommitHarvest(spares);
  return static_cast<uint32_t>(spares.vgs.size());
}

absl::StatusOr<uint32_t> Backing::UnmapEmpty(uint32_t most_granules) {
  const Harvest harvest = ChooseHarvest(most_granules, VgRange());
  if (harvest.vgs.empty()) return 0;
  changes_.clear();
  AddUnmaps(harvest, &changes_);
  const absl::Status status = Apply(changes_);
  if (!status.ok()) return status;
  CommitHarvest(harvest);
  for (const GranuleId granule : harvest.granules) store_->Put(granule);
  return static_cast<uint32_t>(harvest.vgs.size());
}

void Backing::IsolateLost() {
  const std::vector<VgIndex>& lost = mappings_->lost_vgs();
  for (; isolated_vgs_ < lost.size(); ++isolated_vgs_) {
    const VgIndex vg = lost[isolated_vgs_];
    const VgRecord record = books_->vg(vg);
    // Those that no arena has are the first one's to deal with.
    if (record.arena != books_->arena()) continue;
    if (record.role == VgRole::kUnmapped) {
      if (address_space_->free().Find(vg).has_value()) {
        address_space_->Take(OneVg(vg));
      }
      continue;
    }
    // A block that is live there stays handed out; nothing new comes beside it.
    NoteLeaving(vg);
    if (record.role == VgRole::kEmptyRun) TakeEmptyRun(OneVg(vg));
    if (record.role == VgRole::kEmptyRun || record.role == VgRole::kSpare) {
      books_->Detach(vg);
    }
    books_->Freeze(record.granule);
    if (books_->granule(record.granule).mappings == 0) {
      store_->Quarantine(record.granule);
    }
  }
  for (const GranuleId granule : mappings_->stuck_granules()) {
    books_->Freeze(granule);
    if (granule.value() >= books_->granule_limit()) continue;
    const GranuleRecord& record = books_->granule(granule);
    if (!books_->IsOwn(record)) continue;
    for (VgIndex at = record.first; !at.is_none(); at = books_->vg(at).next) {
      NoteLeaving(at);
    }
  }
}

void Backing::CacheIfUnmapped(GranuleId granule) {
  if (books_->granule(granule).mappings > 0) return;
  if (books_->granule(granule).frozen) {
    store_->Quarantine(granule);
  } else {
    store_->Put(granule);
  }
}

}  // namespace firn
