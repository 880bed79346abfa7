// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/relocator.h"

#include <algorithm>
#include <optional>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/trace_range.h"

namespace firn {
namespace {

// On the way back a call is worth more than one try: giving up loses memory.
constexpr int kTriesOnTheWayBack = 3;

MappingChange Change(VgIndex vg, GranuleId to) {
  MappingChange change;
  change.vg = vg;
  change.to = to;
  return change;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Relocator>> Relocator::Create(
    Driver* driver, AddressSpace* address_space, MappingTable* mappings) {
  // Non-blocking: it must not order itself with the user's default stream.
  StreamHandle stream = nullptr;
  DriverResult result = driver->StreamCreate(&stream, kStreamNonBlocking);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuStreamCreate", "background stream");
  }
  EventHandle event = nullptr;
  result = driver->EventCreate(&event, kEventDisableTiming);
  if (result != DriverResult::kSuccess) {
    driver->StreamDestroy(stream);
    return ToStatus(result, "cuEventCreate");
  }
  return absl::WrapUnique(
      new Relocator(driver, address_space, mappings, stream, event));
}

Relocator::Relocator(Driver* driver, AddressSpace* address_space,
                     MappingTable* mappings, StreamHandle stream,
                     EventHandle event)
    : driver_(driver),
      address_space_(address_space),
      mappings_(mappings),
      stream_(stream),
      event_(event) {}

Relocator::~Relocator() {
  driver_->EventDestroy(event_);
  driver_->StreamDestroy(stream_);
}

absl::Status Relocator::Relocate(absl::Span<const Relocation> moves) {
  if (moves.empty()) return absl::OkStatus();
  absl::Status status = Prepare(moves);
  if (!status.ok()) return status;
  status = Copy(moves);
  if (status.ok()) return Commit(moves);
  Abort(moves, status);
  return status;
}

absl::Status Relocator::Prepare(absl::Span<const Relocation> moves) {
  copies_have_ended_ = true;
  const absl::Status status = MapAliases(moves);
  if (!status.ok()) DropAliases(status);
  return status;
}

absl::Status Relocator::Copy(absl::Span<const Relocation> moves) {
  const TraceRange range("copy");
  absl::Status status = QueueCopies(moves);
  if (status.ok()) status = ConfirmCopies();
  // Copies already queued may still be writing to the hosts. Nobody may be
  // given those bytes, nor may they be unmapped, before they are done.
  if (!status.ok()) copies_have_ended_ = WaitForCopiesInFlight();
  return status;
}

absl::Status Relocator::Commit(absl::Span<const Relocation> moves) {
  const TraceRange range("remap");
  const absl::Status status = Remap(moves);
  if (!status.ok()) {
    DropAliases(status);
    return status;
  }
  for (const Alias& alias : aliases_) GiveBack(alias.vg);
  return absl::OkStatus();
}

void Relocator::Abort(absl::Span<const Relocation> moves,
                      const absl::Status& cause) {
  if (!copies_have_ended_) AbandonMoves(moves, cause);
  DropAliases(cause);
}

absl::Status Relocator::Zero(absl::Span<const VgIndex> vgs) {
  absl::Status status;
  for (size_t i = 0; i < vgs.size() && status.ok();) {
    // Neighbours in one call.
    size_t end = i + 1;
    while (end < vgs.size() && vgs[end] == vgs[end - 1] + 1) ++end;
    status = ToStatus(driver_->MemsetD8Async(
                          address_space_->AddressOf(vgs[i]), 0,
                          (end - i) * address_space_->granule_bytes(), stream_),
                      "cuMemsetD8Async");
    i = end;
  }
  if (status.ok()) status = ConfirmCopies();
  if (!status.ok() && !WaitForCopiesInFlight()) {
    for (const VgIndex vg : vgs) mappings_->Abandon(vg, status);
  }
  return status;
}

absl::Status Relocator::MapAliases(absl::Span<const Relocation> moves) {
  aliases_.clear();
  for (const Relocation& move : moves) {
    if (!move.through.is_none() || move.extents.empty()) continue;
    Alias alias;
    alias.granule = move.to;
    alias.zeroes = move.zeroes;
    aliases_.push_back(alias);
  }
  if (aliases_.empty()) return absl::OkStatus();
  std::sort(
      aliases_.begin(), aliases_.end(),
      [](const Alias& a, const Alias& b) { return a.granule < b.granule; });
  aliases_.erase(std::unique(aliases_.begin(), aliases_.end(),
                             [](const Alias& a, const Alias& b) {
                               return a.granule == b.granule;
                             }),
                 aliases_.end());
  changes_.clear();
  for (Alias& alias : aliases_) {
    const std::optional<VgIndex> vg = address_space_->TakeHighest();
    if (!vg.has_value()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no address is free to move through: ", changes_.size(),
                       " were, of ", aliases_.size()));
    }
    alias.vg = *vg;
    changes_.push_back(Change(alias.vg, alias.granule));
  }
  return mappings_->Apply(changes_);
}

VgIndex Relocator::AliasOf(GranuleId granule) const {
  const auto found = std::lower_bound(aliases_.begin(), aliases_.end(), granule,
                                      [](const Alias& alias, GranuleId wanted) {
                                        return alias.granule < wanted;
                                      });
  if (found == aliases_.end() || found->granule != granule) return VgIndex();
  return found->vg;
}

absl::Status Relocator::QueueCopies(absl::Span<const Relocation> moves) {
  for (Alias& alias : aliases_) {
    if (!alias.zeroes) continue;
    const DriverResult result =
        driver_->MemsetD8Async(address_space_->AddressOf(alias.vg), 0,
                               address_space_->granule_bytes(), stream_);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemsetD8Async");
    }
    alias.zeroes = false;
  }
  for (const Relocation& move : moves) {
    if (move.extents.empty()) continue;
    const VgIndex through =
        move.through.is_none() ? AliasOf(move.to) : move.through;
    const DevicePtr source = address_space_->AddressOf(move.vg);
    const DevicePtr host = address_space_->AddressOf(through);
    for (const OffsetInterval& extent : move.extents) {
      const uint64_t offset_bytes = QuantaToBytes(extent.lo);
      const DriverResult result =
          driver_->MemcpyDtoDAsync(host + offset_bytes, source + offset_bytes,
                                   QuantaToBytes(extent.quanta()), stream_);
      if (result != DriverResult::kSuccess) {
        return ToStatus(result, "cuMemcpyDtoDAsync");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Relocator::ConfirmCopies() {
  const absl::Status status =
      ToStatus(driver_->EventRecord(event_, stream_), "cuEventRecord");
  if (!status.ok()) return status;
  // The host itself confirms the copies: remapping is ordered by nothing else.
  return ToStatus(driver_->EventSynchronize(event_), "cuEventSynchronize");
}

absl::Status Relocator::Remap(absl::Span<const Relocation> moves) {
  // In one change, so that either all is undone or nothing has to be.
  changes_.clear();
  for (const Relocation& move : moves) {
    changes_.push_back(Change(move.vg, move.to));
  }
  for (const Alias& alias : aliases_) {
    changes_.push_back(Change(alias.vg, GranuleId()));
  }
  if (changes_.empty()) return absl::OkStatus();
  return mappings_->Apply(changes_);
}

bool Relocator::WaitForCopiesInFlight() {
  for (int i = 0; i < kTriesOnTheWayBack; ++i) {
    if (driver_->StreamSynchronize(stream_) == DriverResult::kSuccess) {
      return true;
    }
  }
  return false;
}

void Relocator::AbandonMoves(absl::Span<const Relocation> moves,
                             const absl::Status& cause) {
  for (const Relocation& move : moves) {
    mappings_->Abandon(move.vg, cause);
    if (!move.through.is_none()) mappings_->Abandon(move.through, cause);
  }
}

void Relocator::DropAliases(const absl::Status& cause) {
  const std::vector<VgIndex>& lost = mappings_->lost_vgs();
  for (const Alias& alias : aliases_) {
    if (alias.vg.is_none()) continue;  // never taken
    // What the mapping table has lost is nobody's any more.
    if (std::find(lost.begin(), lost.end(), alias.vg) != lost.end()) continue;
    const bool is_mapped = !mappings_->granule(alias.vg).is_none();
    if (!is_mapped || (copies_have_ended_ && UnmapAlias(alias.vg))) {
      GiveBack(alias.vg);
    } else {
      mappings_->Abandon(alias.vg, cause);
    }
  }
}

bool Relocator::UnmapAlias(VgIndex vg) {
  const MappingChange unmap = Change(vg, GranuleId());
  for (int i = 0; i < kTriesOnTheWayBack; ++i) {
    if (mappings_->Apply({unmap}).ok()) return true;
  }
  return false;
}

void Relocator::GiveBack(VgIndex vg) {
  VgRange range;
  range.first = vg;
  range.count = 1;
  address_space_->Give(range);
}

}  // namespace firn
