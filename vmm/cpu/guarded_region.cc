// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/guarded_region.h"

namespace firn::cpu {
namespace {

uint8_t* AllocateZeros(uint64_t count) {
  void* const zeros = calloc(count, sizeof(uint8_t));
  // As operator new would end: there is no memory for a few kilobytes.
  if (zeros == nullptr) abort();
  return static_cast<uint8_t*>(zeros);
}

}  // namespace

GuardedRegion::GuardedRegion(DevicePtr base, uint64_t bytes,
                             uint64_t granularity_bytes)
    : base_(base),
      bytes_(bytes),
      granularity_bytes_(granularity_bytes),
      granules_((bytes + granularity_bytes - 1) / granularity_bytes),
      access_(AllocateZeros(granules_)) {}

void GuardedRegion::SetAccess(uint64_t first, uint64_t granules,
                              AccessFlags access) {
  for (uint64_t i = first; i < first + granules; ++i) {
    access_[i] = static_cast<uint8_t>(access);
  }
}

int64_t GuardedRegion::GapsAdded(uint64_t first, uint64_t granules,
                                 bool accessible_after) const {
  // A gap is counted at its first granule: one without access whose
  // predecessor has access or does not exist. The range can change that for
  // its own granules and for the one behind it.
  const uint64_t end = first + granules;
  int64_t before = 0;
  bool previous = first == 0 || accessible(first - 1);
  for (uint64_t i = first; i < end; ++i) {
    if (!accessible(i) && previous) ++before;
    previous = accessible(i);
  }
  const bool gap_behind = end < granules_ && !accessible(end);
  if (gap_behind && previous) ++before;

  int64_t after = 0;
  if (!accessible_after && (first == 0 || accessible(first - 1))) ++after;
  if (gap_behind && accessible_after) ++after;
  return after - before;
}

}  // namespace firn::cpu
