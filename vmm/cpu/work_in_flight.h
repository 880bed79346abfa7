// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How far the work of all streams is, for who wants to know when all that was
// queued before some moment is over.

#ifndef FIRN_VMM_CPU_WORK_IN_FLIGHT_H_
#define FIRN_VMM_CPU_WORK_IN_FLIGHT_H_

#include <cstdint>

namespace firn::cpu {

// Pieces of work are counted in the order in which they were queued.
struct WorkInFlight {
  // How many were queued so far.
  uint64_t queued = 0;
  // How many are over that were queued before all that are not.
  uint64_t over = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_WORK_IN_FLIGHT_H_
