// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/access_history.h"

#include <algorithm>
#include <iterator>

namespace firn::cpu {
namespace {

bool SameWork(const MemoryAccess& a, const MemoryAccess& b) {
  return a.stream_id == b.stream_id && a.position == b.position;
}

bool SameAccess(const MemoryAccess& a, const MemoryAccess& b) {
  return SameWork(a, b) && a.base == b.base && a.writes == b.writes;
}

// Grows `*conflict`, the first one found, by `bytes` at `offset_bytes` if they
// continue it.
void NoteConflict(const MemoryAccess& earlier, uint64_t offset_bytes,
                  uint64_t bytes, std::optional<AccessConflict>* conflict) {
  if (!conflict->has_value()) {
    *conflict = AccessConflict{earlier, offset_bytes, bytes};
  } else if (SameAccess((*conflict)->earlier, earlier) &&
             (*conflict)->offset_bytes + (*conflict)->bytes == offset_bytes) {
    (*conflict)->bytes += bytes;
  }
}

}  // namespace

bool AccessHistory::SameRecords(const Segment& a, const Segment& b) {
  return std::equal(a.records.begin(), a.records.end(), b.records.begin(),
                    b.records.end(), [](const Record& x, const Record& y) {
                      return SameAccess(x.access, y.access) &&
                             x.superseder_base == y.superseder_base;
                    });
}

const AccessHistory::Record* AccessHistory::FindConflict(
    const Segment& segment, const WorkPast& past, const MemoryAccess& access) {
  for (const Record& record : segment.records) {
    if (record.access.writes != access.writes &&
        record.access.base != access.base && !past.Has(record.access)) {
      return &record;
    }
  }
  return nullptr;
}

// A record R is there for later accesses of the other kind, through any alias
// but its own, by work that is not ordered after R. Such work is not ordered
// after anything that is itself after R either. So R is redundant once a record
// of its kind that is after it will be met instead, whatever the alias: one
// through R's own alias, or two through different ones. A redundant record that
// itself makes others redundant may go, too: what replaces it is after them.
void AccessHistory::AddTo(Segment* segment, const WorkPast& past,
                          const MemoryAccess& access) {
  auto& records = segment->records;
  const auto is_redundant = [&](Record& record) {
    if (record.access.writes != access.writes) return false;
    if (SameAccess(record.access, access)) return true;
    if (!past.Has(record.access)) return false;
    if (record.access.base == access.base) return true;
    if (record.superseder_base.value_or(access.base) != access.base) {
      return true;
    }
    record.superseder_base = access.base;
    return false;
  };
  // By hand: std::remove_if may copy its predicate, and must not be given one
  // that changes the elements.
  size_t kept = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (is_redundant(records[i])) continue;
    if (kept != i) records[kept] = records[i];
    ++kept;
  }
  records.resize(kept);
  records.push_back(Record{access, std::nullopt});
}

AccessHistory::Segments::iterator AccessHistory::SplitAt(
    uint64_t offset_bytes) {
  const auto next = segments_.lower_bound(offset_bytes);
  if (next == segments_.begin()) return next;
  Segment& covering = std::prev(next)->second;
  if (covering.end_bytes <= offset_bytes) return next;
  const auto tail = segments_.emplace_hint(next, offset_bytes, covering);
  covering.end_bytes = offset_bytes;
  return tail;
}

void AccessHistory::Merge(uint64_t first_bytes, uint64_t last_bytes) {
  auto it = segments_.lower_bound(first_bytes);
  if (it != segments_.begin()) --it;
  while (it != segments_.end()) {
    const auto next = std::next(it);
    if (next == segments_.end() || next->first > last_bytes) return;
    if (it->second.end_bytes == next->first &&
        SameRecords(it->second, next->second)) {
      it->second.end_bytes = next->second.end_bytes;
      segments_.erase(next);
    } else {
      it = next;
    }
  }
}

std::optional<AccessConflict> AccessHistory::Add(const WorkPast& past,
                                                 const MemoryAccess& access,
                                                 uint64_t offset_bytes,
                                                 uint64_t bytes) {
  std::optional<AccessConflict> conflict;
  if (bytes == 0) return conflict;
  const uint64_t end_bytes = offset_bytes + bytes;
  SplitAt(end_bytes);
  auto it = SplitAt(offset_bytes);
  for (uint64_t at_bytes = offset_bytes; at_bytes < end_bytes; ++it) {
    // The gap before the next segment becomes one.
    const uint64_t next_bytes =
        it == segments_.end() ? end_bytes : std::min(it->first, end_bytes);
    if (at_bytes < next_bytes) {
      it = segments_.emplace_hint(it, at_bytes, Segment{next_bytes, {}});
    }
    Segment& segment = it->second;
    if (const Record* record = FindConflict(segment, past, access)) {
      NoteConflict(record->access, at_bytes, segment.end_bytes - at_bytes,
                   &conflict);
    }
    AddTo(&segment, past, access);
    at_bytes = segment.end_bytes;
  }
  Merge(offset_bytes, end_bytes);
  return conflict;
}

void AccessHistory::ForgetStreams(
    const absl::flat_hash_set<uint64_t>& stream_ids) {
  for (auto it = segments_.begin(); it != segments_.end();) {
    auto& records = it->second.records;
    records.erase(
        std::remove_if(records.begin(), records.end(),
                       [&](const Record& record) {
                         return stream_ids.contains(record.access.stream_id);
                       }),
        records.end());
    it = records.empty() ? segments_.erase(it) : std::next(it);
  }
  Merge(0, UINT64_MAX);
}

size_t AccessHistory::record_count() const {
  size_t count = 0;
  for (const auto& [offset_bytes, segment] : segments_) {
    count += segment.records.size();
  }
  return count;
}

}  // namespace firn::cpu
