// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How large a device a replay has: given in bytes, or by the trace's peak.

#ifndef FIRN_BENCH_REPLAY_CAPACITY_H_
#define FIRN_BENCH_REPLAY_CAPACITY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

struct Capacity {
  enum class Kind {
    kBytes,
    kPeakMultiple,  // of the trace's peak live bytes
    kMinimum,       // the least in which no allocation fails
  };

  Kind kind = Kind::kBytes;
  uint64_t bytes = uint64_t{80} << 30;  // of kBytes
  uint64_t peak_millionths = 0;         // of kPeakMultiple
};

// No device is larger, and sums of capacities stay within 64 bits.
inline constexpr uint64_t kLargestCapacityBytes = uint64_t{1} << 46;

// "80GiB", "1.02x" or "min".
absl::StatusOr<Capacity> ParseCapacity(absl::string_view text);

// floor(multiple * peak / granule) granules, at least ceil(peak / granule) and
// at least one, in bytes. REQUIRES: the peak is at most kLargestCapacityBytes.
uint64_t CapacityOfPeakMultiple(uint64_t peak_millionths,
                                uint64_t peak_live_bytes,
                                uint64_t granule_bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_CAPACITY_H_
