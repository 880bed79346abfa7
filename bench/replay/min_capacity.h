// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The least device in which a trace fits.

#ifndef FIRN_BENCH_REPLAY_MIN_CAPACITY_H_
#define FIRN_BENCH_REPLAY_MIN_CAPACITY_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace firn::bench {

// Looks for the least multiple of the peak, in steps of 0.005, whose capacity
// `fits`: up from 1.0 by doubling steps, then by bisection. `fits` is asked
// once about a capacity in bytes, and its errors end the search; it is taken
// to be false below a capacity where it is false. OutOfRange when even
// kLargestCapacityBytes do not fit.
absl::StatusOr<uint64_t> FindMinCapacity(
    uint64_t peak_live_bytes, uint64_t granule_bytes,
    const std::function<absl::StatusOr<bool>(uint64_t)>& fits);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_MIN_CAPACITY_H_
