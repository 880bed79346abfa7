// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a piece of device work stands in the order that streams, events and
// waits of the host make: a vector clock over streams.

#ifndef FIRN_VMM_CPU_WORK_ORDER_H_
#define FIRN_VMM_CPU_WORK_ORDER_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"

namespace firn::cpu {

// By stream id: all work up to this position (from 1) was complete.
using SeenWork = absl::flat_hash_map<uint64_t, uint64_t>;

// One piece of work, `position` of stream `stream_id`, and what was complete
// before it began. What is not ordered before it need not be complete, even if
// it happens to be.
struct WorkOrder {
  uint64_t stream_id = 0;
  uint64_t position = 0;
  // What the owner of the streams said when the work was queued (a launch of a
  // graph queues its work anew).
  uint64_t queued_stamp = 0;
  // May be null: nothing but its own stream's earlier work.
  std::shared_ptr<const SeenWork> seen;

  // Whether that piece of work was ordered before this one.
  bool IsAfter(uint64_t other_stream, uint64_t other_position) const {
    if (other_stream == stream_id) return other_position < position;
    if (seen == nullptr) return false;
    const auto it = seen->find(other_stream);
    return it != seen->end() && it->second >= other_position;
  }
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_WORK_ORDER_H_
