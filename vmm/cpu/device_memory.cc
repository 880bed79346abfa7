// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reservations, mappings and access; handles and questions have files of their
// own.

#include "firn/vmm/cpu/device_memory.h"

#include <algorithm>
#include <utility>

#include "firn/vmm/cpu/argument_rules.h"
#include "firn/vmm/cpu/host_memory.h"

namespace firn::cpu {
namespace {

constexpr const char* kFlagsRule = "flags must be 0";

}  // namespace

DeviceMemory::DeviceMemory(const MemoryOptions& options,
                           std::unique_ptr<Storage> storage)
    : storage_(std::move(storage)),
      addresses_(options.granularity_bytes),
      options_(options),
      granularity_bytes_(options.granularity_bytes),
      memories_(storage_.get(), options.device_count, options.device_granules) {
}

Verdict DeviceMemory::Reserve(DevicePtr* address, size_t bytes,
                              size_t alignment_bytes, DevicePtr hint,
                              uint64_t flags) {
  if (address == nullptr) {
    return RefuseValue("there must be a place for the address");
  }
  const Verdict checked =
      CheckReserve(bytes, alignment_bytes, hint, flags, HostPageBytes());
  if (!checked.ok()) return checked;
  MutexLock lock(&mutex_);
  const uint64_t aligned_to =
      std::max<uint64_t>(alignment_bytes, granularity_bytes_);
  DevicePtr reserved = 0;
  StorageRegion* region = nullptr;
  const Verdict verdict =
      storage_->Reserve(bytes, aligned_to, hint, &reserved, &region);
  if (!verdict.ok()) return verdict;
  addresses_.AddReservation(reserved, bytes, region);
  *address = reserved;
  return Allow();
}

Verdict DeviceMemory::Unreserve(DevicePtr address, size_t bytes) {
  MutexLock lock(&mutex_);
  ReservedRange* reservation = nullptr;
  const Verdict found =
      addresses_.FindReservation(address, bytes, &reservation);
  if (!found.ok()) return found;
  if (reservation->mapped_granules() != 0) {
    if (!has(CpuDefect::kFreeWhileMappedAllowed)) {
      return RefuseValue("everything in the reservation must be unmapped");
    }
    const Verdict unmapped =
        UnmapAllIn(SlotRange{reservation, 0, reservation->granules()});
    if (!unmapped.ok()) return unmapped;
  }
  addresses_.RemoveReservation(reservation);
  storage_->Unreserve(address, bytes);
  return Allow();
}

inline AccessRun DeviceMemory::RunAt(const SlotRange& range, uint64_t first,
                                     const AccessChange& change) const {
  AccessRun run;
  run.region = range.reservation->region();
  run.first = first;
  for (uint64_t i = first; i < range.end(); ++i) {
    const Slot& slot = range.Get(i);
    if (!slot.mapped()) break;
    const StoragePlace& place =
        handles_.handle(slot.handle_index()).target.place;
    const uint64_t granule = place.first_granule + slot.position();
    const AccessFlags before = slot.access().any();
    const AccessFlags after = change.Apply(slot.access()).any();
    if (i == first) {
      run.place = StoragePlace{place.file, granule};
      run.before = before;
      run.after = after;
    } else if (place.file != run.place.file ||
               granule != run.place.first_granule + run.granules ||
               before != run.before || after != run.after) {
      break;
    }
    ++run.granules;
    if (slot.begins()) ++run.mappings;
  }
  return run;
}

inline Verdict DeviceMemory::ChangeAccess(const SlotRange& range,
                                          const AccessChange& change) {
  int64_t added = 0;
  for (uint64_t i = range.first; i < range.end(); ++i) {
    const Slot& slot = range.Get(i);
    if (!slot.begins()) continue;
    const AccessSet before = slot.access();
    if (before.any() != AccessFlags::kNone) --added;
    if (change.Apply(before).any() != AccessFlags::kNone) ++added;
  }
  if (added > 0 && static_cast<uint64_t>(accessible_mappings_ + added) >
                       options_.max_mappings) {
    return Refuse(DriverResult::kOutOfMemory,
                  "no more mappings may be accessible than the driver's limit");
  }
  for (uint64_t first = range.first; first < range.end();) {
    if (!range.Get(first).mapped()) {
      ++first;
      continue;
    }
    const AccessRun run = RunAt(range, first, change);
    const Verdict verdict = storage_->SetAccess(run);
    if (!verdict.ok()) {
      RestoreAccess(range, first, change);
      return verdict;
    }
    first += run.granules;
  }
  addresses_.ChangeAccess(range, change);
  accessible_mappings_ += added;
  return Allow();
}

Verdict DeviceMemory::Map(DevicePtr address, size_t bytes, size_t offset_bytes,
                          PhysicalHandle handle, uint64_t flags) {
  if (offset_bytes != 0) return RefuseValue("the offset must be 0");
  if (flags != 0) return RefuseValue(kFlagsRule);
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return RefuseValue(kHandleRule);
  SlotRange range;
  const Verdict found = addresses_.FindGranules(address, bytes, &range);
  if (!found.ok()) return found;
  const uint64_t granules = handles_.handle(index).target.granules;
  if (range.count != granules &&
      (range.count > granules || !has(CpuDefect::kPartialMapAllowed))) {
    return RefuseValue(
        "the byte count must be that of the memory, which is mapped whole");
  }
  for (uint64_t i = range.first; i < range.end(); ++i) {
    if (!range.Get(i).mapped()) continue;
    if (!has(CpuDefect::kMapOverMappedAllowed)) {
      return RefuseValue("nothing must be mapped in the range yet");
    }
    const Verdict unmapped = UnmapAllIn(range);
    if (!unmapped.ok()) return unmapped;
    break;
  }
  const AccessSet last_access = range.Get(range.first).access();
  addresses_.Map(range, index);
  handles_.AddMapping(index);
  ++mappings_;
  if (has(CpuDefect::kAccessSurvivesRemap)) {
    // Where it cannot be given, the driver happens to be right.
    static_cast<void>(ChangeAccess(range, AccessChange::To(last_access)));
  }
  return Allow();
}

inline Verdict DeviceMemory::RemoveAccess(const SlotRange& range) {
  // All in one call, from the first granule that has access to the last, since
  // it can fail. Where the granules lie does not matter.
  uint64_t first = range.end();
  uint64_t end = range.end();
  int64_t mappings = 0;
  for (uint64_t i = range.first; i < range.end(); ++i) {
    const Slot& slot = range.Get(i);
    if (slot.access().any() == AccessFlags::kNone) continue;
    first = std::min(first, i);
    end = i + 1;
    if (slot.begins()) ++mappings;
  }
  if (first == range.end()) return Allow();
  return storage_->RemoveAccess(range.reservation->region(), first, end - first,
                                mappings);
}

inline Verdict DeviceMemory::UnmapRange(const SlotRange& range) {
  const Verdict removed = RemoveAccess(range);
  if (!removed.ok()) return removed;
  const uint64_t epoch = unmap_epoch() + 1;
  for (uint64_t i = range.first; i < range.end(); ++i) {
    const Slot& slot = range.Get(i);
    if (!slot.begins()) continue;
    --mappings_;
    if (slot.access().any() != AccessFlags::kNone) --accessible_mappings_;
    const uint32_t index = slot.handle_index();
    if (handles_.DropMapping(index)) DropHandle(index);
  }
  addresses_.Unmap(range, epoch);
  unmap_epoch_.store(epoch, std::memory_order_relaxed);
  return Allow();
}

Verdict DeviceMemory::Unmap(DevicePtr address, size_t bytes) {
  MutexLock lock(&mutex_);
  SlotRange range;
  if (has(CpuDefect::kSubRangeUnmapAllowed)) {
    const Verdict found = addresses_.FindGranules(address, bytes, &range);
    if (!found.ok()) return found;
    SplitAt(range.reservation, range.first);
    SplitAt(range.reservation, range.end());
  }
  const Verdict found = addresses_.FindMappings(address, bytes, &range);
  if (!found.ok()) return found;
  return UnmapRange(range);
}

Verdict DeviceMemory::UnmapAllIn(const SlotRange& range) {
  SplitAt(range.reservation, range.first);
  SplitAt(range.reservation, range.end());
  for (uint64_t first = range.first; first < range.end();) {
    uint64_t end = first;
    while (end < range.end() && range.Get(end).mapped()) ++end;
    if (end > first) {
      const Verdict unmapped =
          UnmapRange(SlotRange{range.reservation, first, end - first});
      if (!unmapped.ok()) return unmapped;
    }
    first = end + 1;
  }
  return Allow();
}

void DeviceMemory::SplitAt(ReservedRange* reservation, uint64_t granule) {
  if (granule >= reservation->granules()) return;
  const Slot& slot = reservation->Get(granule);
  if (!slot.continues()) return;
  handles_.AddMapping(slot.handle_index());
  ++mappings_;
  if (slot.access().any() != AccessFlags::kNone) {
    ++accessible_mappings_;
    storage_->SplitMapping(reservation->region());
  }
  addresses_.Split(reservation, granule);
}

Verdict DeviceMemory::SetAccess(DevicePtr address, size_t bytes,
                                const AccessDesc* descs, size_t count) {
  if (has(CpuDefect::kPeerForgotten)) count = std::min<size_t>(count, 1);
  AccessChange change;
  const Verdict checked =
      CheckAccessDescs(descs, count, options_.device_count, &change);
  if (!checked.ok()) return checked;
  MutexLock lock(&mutex_);
  SlotRange range;
  const Verdict found = has(CpuDefect::kHoleInSetAccessAllowed)
                            ? addresses_.FindUncut(address, bytes, &range)
                            : addresses_.FindMappings(address, bytes, &range);
  if (!found.ok()) return found;
  if (!options_.peer_access || change.names(kHostLocation)) {
    const Verdict allowed = CheckOwners(range, change);
    if (!allowed.ok()) return allowed;
  }
  return ChangeAccess(range, change);
}

Verdict DeviceMemory::CheckOwners(const SlotRange& range,
                                  const AccessChange& change) const {
  for (uint64_t i = range.first; i < range.end(); ++i) {
    const Slot& slot = range.Get(i);
    if (!slot.begins()) continue;
    const Verdict allowed =
        CheckAccessors(change, MemoryOf(slot).info.prop.location,
                       options_.device_count, options_.peer_access);
    if (!allowed.ok()) return allowed;
  }
  return Allow();
}

void DeviceMemory::RestoreAccess(const SlotRange& range, uint64_t end,
                                 const AccessChange& change) {
  const SlotRange changed{range.reservation, range.first, end - range.first};
  for (uint64_t first = changed.first; first < changed.end();) {
    if (!changed.Get(first).mapped()) {
      ++first;
      continue;
    }
    AccessRun run = RunAt(changed, first, change);
    std::swap(run.before, run.after);
    // It takes away what was given, or changes it back: that takes no more
    // kernel mappings than there were.
    static_cast<void>(storage_->SetAccess(run));
    first += run.granules;
  }
}

}  // namespace firn::cpu
