// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on what is known to be complete: snapshots that are shared and
// never change, and are copied only where something is to be added.

#ifndef FIRN_VMM_CPU_WORK_CLOCK_H_
#define FIRN_VMM_CPU_WORK_CLOCK_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "firn/vmm/cpu/work_order.h"

namespace firn::cpu {

// nullptr: nothing is known.
using WorkClock = std::shared_ptr<const SeenWork>;

// Whether `clock` has the first `position` operations of the stream.
bool Knows(const WorkClock& clock, uint64_t stream_id, uint64_t position);
// Whether `clock` has all that `other` has.
bool KnowsAll(const WorkClock& clock, const WorkClock& other);

// What either has; `a` or `b` itself where it is enough.
WorkClock Join(const WorkClock& a, const WorkClock& b);
WorkClock Join(const WorkClock& clock, uint64_t stream_id, uint64_t position);

// Only the streams for which `keep` holds; `clock` itself where that is all.
WorkClock Restrict(const WorkClock& clock,
                   absl::FunctionRef<bool(uint64_t stream_id)> keep);

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_WORK_CLOCK_H_
