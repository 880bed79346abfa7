// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Remembers what was unmapped in reservations that are gone: an address that is
// reserved anew has a history.

#ifndef FIRN_VMM_CPU_REMOVED_UNMAPS_H_
#define FIRN_VMM_CPU_REMOVED_UNMAPS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Keeps one number for each reservation: of granules that came and went at
// different times, the latest unmap counts. Keeps a bounded number of ranges:
// of addresses that it no longer knows, it says the latest that may be true. So
// an unmap is never missed, and none is made up for work that was queued after
// the ranges forgotten were unmapped.
//
// Thread safety: none.
class RemovedUnmaps {
 public:
  static constexpr size_t kMaxRanges = 1024;

  // [base, base + bytes) was last unmapped at `epoch`, no earlier than any part
  // of it before.
  void Add(DevicePtr base, uint64_t bytes, uint64_t epoch);
  // When anything in the range was last unmapped, at the latest; 0 if never.
  uint64_t LatestIn(DevicePtr base, uint64_t bytes) const;

  size_t ranges() const { return ranges_.size(); }

 private:
  struct Range {
    DevicePtr end = 0;
    uint64_t epoch = 0;
  };
  using RangeMap = absl::btree_map<DevicePtr, Range>;

  // The first range that ends behind `address`.
  RangeMap::const_iterator FirstBehind(DevicePtr address) const;
  void Cut(DevicePtr base, DevicePtr end);
  void ForgetOlderHalf();

  // By first address; disjoint.
  RangeMap ranges_;
  // Of all that is in no range.
  uint64_t forgotten_epoch_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_REMOVED_UNMAPS_H_
