// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who accessed which bytes of one piece of memory through which address, as far
// as later work may still be unordered with it.

#ifndef FIRN_VMM_CPU_ACCESS_HISTORY_H_
#define FIRN_VMM_CPU_ACCESS_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "firn/vmm/cpu/work_order.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// By a piece of work to some bytes of the memory.
struct MemoryAccess {
  uint64_t stream_id = 0;
  uint64_t position = 0;
  const char* name = nullptr;  // of the work, for reports
  // Where the memory's first byte is, or would be, in the mapping that was
  // used. Mappings that differ in this are aliases.
  DevicePtr base = 0;
  bool writes = false;
};

// What is ordered before a piece of work that begins.
struct WorkPast {
  const WorkOrder* order = nullptr;
  // Streams whose work is ordered before all work to come.
  const absl::flat_hash_set<uint64_t>* retired_streams = nullptr;

  bool Has(const MemoryAccess& access) const {
    return order->IsAfter(access.stream_id, access.position) ||
           retired_streams->contains(access.stream_id);
  }
};

// A read and a write of the same bytes through two aliases, in no order.
struct AccessConflict {
  MemoryAccess earlier;  // begun, not ordered, earlier
  uint64_t offset_bytes = 0;
  uint64_t bytes = 0;
};

// Remembers accesses, and forgets those that later ones make redundant: where
// all work is ordered, at most two reads and two writes of a byte remain.
// Thread safety: none.
class AccessHistory {
 public:
  // Notes that `access` to these bytes begins now, by work with that past, and
  // returns the first conflict with what began before.
  std::optional<AccessConflict> Add(const WorkPast& past,
                                    const MemoryAccess& access,
                                    uint64_t offset_bytes, uint64_t bytes);

  // Forgets what these streams did: all work to come is ordered after it.
  void ForgetStreams(const absl::flat_hash_set<uint64_t>& stream_ids);

  // How many accesses are remembered, for tests of how few they are.
  size_t record_count() const;

 private:
  struct Record {
    MemoryAccess access;
    // Work ordered later made the same kind of access to all these bytes
    // through another alias: the one with this base.
    std::optional<DevicePtr> superseder_base;
  };
  // Bytes that have the same accesses.
  struct Segment {
    uint64_t end_bytes = 0;
    absl::InlinedVector<Record, 2> records;
  };
  // By offset of the first byte. Nothing accessed what no segment covers.
  using Segments = std::map<uint64_t, Segment>;

  static bool SameRecords(const Segment& a, const Segment& b);
  // Of the segment's records, one that conflicts with `access`, or nullptr.
  static const Record* FindConflict(const Segment& segment,
                                    const WorkPast& past,
                                    const MemoryAccess& access);
  static void AddTo(Segment* segment, const WorkPast& past,
                    const MemoryAccess& access);

  // Makes `offset_bytes` a border, unless no segment covers it; returns the
  // first segment from there on.
  Segments::iterator SplitAt(uint64_t offset_bytes);
  // Joins segments that meet and have the same accesses: all that begin at
  // these offsets, with the one before them.
  void Merge(uint64_t first_bytes, uint64_t last_bytes);

  Segments segments_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_ACCESS_HISTORY_H_
