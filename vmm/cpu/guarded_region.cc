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

}  // namespace firn::cpu
