// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/min_capacity.h"

#include "absl/status/status.h"
#include "bench/replay/capacity.h"

namespace firn::bench {
namespace {

constexpr uint64_t kMillion = 1'000'000;
constexpr uint64_t kStepMillionths = 5'000;

}  // namespace

absl::StatusOr<uint64_t> FindMinCapacity(
    uint64_t peak_live_bytes, uint64_t granule_bytes,
    const std::function<absl::StatusOr<bool>(uint64_t)>& fits) {
  const auto capacity_at = [&](uint64_t step) {
    return CapacityOfPeakMultiple(kMillion + step * kStepMillionths,
                                  peak_live_bytes, granule_bytes);
  };
  // Several steps may round to one number of granules: ask about it once.
  uint64_t too_small_bytes = 0;
  uint64_t fitting_bytes = ~uint64_t{0};
  const auto step_fits = [&](uint64_t step) -> absl::StatusOr<bool> {
    const uint64_t capacity_bytes = capacity_at(step);
    if (capacity_bytes <= too_small_bytes) return false;
    if (capacity_bytes >= fitting_bytes) return true;
    absl::StatusOr<bool> answer = fits(capacity_bytes);
    if (!answer.ok()) return answer;
    (*answer ? fitting_bytes : too_small_bytes) = capacity_bytes;
    return answer;
  };

  uint64_t step = 0;       // the least known to fit, in the end
  uint64_t next_step = 0;  // the least that may fit
  while (true) {
    absl::StatusOr<bool> answer = step_fits(step);
    if (!answer.ok()) return answer.status();
    if (*answer) break;
    if (capacity_at(step) >= kLargestCapacityBytes) {
      return absl::OutOfRangeError("the trace fits into no capacity");
    }
    next_step = step + 1;
    step = step == 0 ? 1 : step * 2;
  }
  while (next_step < step) {
    const uint64_t middle = next_step + (step - next_step) / 2;
    absl::StatusOr<bool> answer = step_fits(middle);
    if (!answer.ok()) return answer.status();
    if (*answer) {
      step = middle;
    } else {
      next_step = middle + 1;
    }
  }
  return capacity_at(step);
}

}  // namespace firn::bench
