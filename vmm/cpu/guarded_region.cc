// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/guarded_region.h"

#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/spare_kernel_mappings.h"

namespace firn::cpu {

GuardedRegion::GuardedRegion(DevicePtr base, uint64_t bytes,
                             uint64_t granularity_bytes, const Backing* backing)
    : base_(base),
      bytes_(bytes),
      granularity_bytes_(granularity_bytes),
      granules_(bytes / granularity_bytes +
                (bytes % granularity_bytes != 0 ? 1 : 0)),
      notes_(static_cast<uint8_t*>(calloc(granules_, sizeof(uint8_t)))),
      backing_(backing) {}

bool GuardedRegion::AllowReadOnly() {
  if (places_ != nullptr) return true;
  places_.reset(
      static_cast<StoragePlace*>(calloc(granules_, sizeof(StoragePlace))));
  return places_ != nullptr;
}

void GuardedRegion::SetReadOnly(uint64_t first, uint64_t granules,
                                const StoragePlace& place) {
  SetAccess(first, granules, AccessFlags::kRead);
  for (uint64_t i = 0; i < granules; ++i) {
    places_[first + i] = StoragePlace{place.file, place.first_granule + i};
  }
}

bool GuardedRegion::HasScratchIn(uint64_t first, uint64_t granules) const {
  for (uint64_t i = first; i < first + granules; ++i) {
    if (is_scratch(i)) return true;
  }
  return false;
}

bool GuardedRegion::GoesOn(uint64_t granule) const {
  if (granule + 1 >= granules_ || notes_[granule] != notes_[granule + 1]) {
    return false;
  }
  if (!accessible(granule)) return true;
  const StoragePlace& place = places_[granule];
  const StoragePlace& next = places_[granule + 1];
  return place.file == next.file &&
         place.first_granule + 1 == next.first_granule;
}

bool GuardedRegion::MapScratchAt(uint64_t granule, bool row) {
  uint64_t first = granule;
  uint64_t end = granule + 1;
  if (row) {
    while (first > 0 && GoesOn(first - 1)) --first;
    while (GoesOn(end - 1)) ++end;
  }
  const DevicePtr address = AddressOf(first);
  const uint64_t bytes = BytesOf(first, end);
  const bool mapped = WithSpareMappings([&] {
    if (!accessible(first)) return MapScratch(address, bytes);
    const StoragePlace& place = places_[first];
    return MapScratchOfFile(address, bytes, place.file,
                            place.first_granule * granularity_bytes_);
  });
  if (!mapped) return false;
  for (uint64_t i = first; i < end; ++i) notes_[i] |= kScratch;
  const bool is_first = scratch_first_ == scratch_end_;
  scratch_first_ = is_first ? first : std::min(scratch_first_, first);
  scratch_end_ = is_first ? end : std::max(scratch_end_, end);
  return true;
}

bool GuardedRegion::PutBackRow(uint64_t first, uint64_t end) const {
  const DevicePtr address = AddressOf(first);
  return WithSpareMappings([&] {
    if (!accessible(first)) {
      return MapInaccessible(address, BytesOf(first, end));
    }
    return backing_->MapAt(address, places_[first], end - first, access(first));
  });
}

bool GuardedRegion::PutBackScratch() {
  bool complete = true;
  for (uint64_t first = scratch_first_; first < scratch_end_;) {
    if (!is_scratch(first)) {
      ++first;
      continue;
    }
    uint64_t end = first + 1;
    while (GoesOn(end - 1)) ++end;
    if (PutBackRow(first, end)) {
      for (uint64_t i = first; i < end; ++i) notes_[i] &= kAccessMask;
    } else {
      CloseHole(AddressOf(first), BytesOf(first, end));
      complete = false;
    }
    first = end;
  }
  if (complete) scratch_first_ = scratch_end_ = 0;
  return complete;
}

}  // namespace firn::cpu
