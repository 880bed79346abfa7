// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/work_clock.h"

#include <algorithm>
#include <utility>

namespace firn::cpu {

bool Knows(const WorkClock& clock, uint64_t stream_id, uint64_t position) {
  if (position == 0) return true;
  if (clock == nullptr) return false;
  const auto it = clock->find(stream_id);
  return it != clock->end() && it->second >= position;
}

bool KnowsAll(const WorkClock& clock, const WorkClock& other) {
  if (other == nullptr || clock == other) return true;
  if (clock == nullptr) return false;
  return std::all_of(other->begin(), other->end(), [&](const auto& entry) {
    return Knows(clock, entry.first, entry.second);
  });
}

WorkClock Join(const WorkClock& a, const WorkClock& b) {
  if (KnowsAll(a, b)) return a;
  if (KnowsAll(b, a)) return b;
  auto joined = std::make_shared<SeenWork>(*a);
  for (const auto& [stream_id, position] : *b) {
    uint64_t& known = (*joined)[stream_id];
    known = std::max(known, position);
  }
  return joined;
}

WorkClock Join(const WorkClock& clock, uint64_t stream_id, uint64_t position) {
  if (Knows(clock, stream_id, position)) return clock;
  auto joined = clock == nullptr ? std::make_shared<SeenWork>()
                                 : std::make_shared<SeenWork>(*clock);
  (*joined)[stream_id] = position;
  return joined;
}

WorkClock Restrict(const WorkClock& clock,
                   absl::FunctionRef<bool(uint64_t stream_id)> keep) {
  if (clock == nullptr ||
      std::all_of(clock->begin(), clock->end(),
                  [&](const auto& entry) { return keep(entry.first); })) {
    return clock;
  }
  auto kept = std::make_shared<SeenWork>();
  for (const auto& [stream_id, position] : *clock) {
    if (keep(stream_id)) kept->emplace(stream_id, position);
  }
  return kept;
}

}  // namespace firn::cpu
