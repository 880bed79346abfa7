// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:mixed: days of a device that many kinds of work share, small blocks and
// large ones, most for minutes and some for hours.
//
// Blocks arrive at random (Poisson), at a rate that swings over 24 h between a
// quarter of its most, at first, and its most. At the most some `live_bytes`
// are live: a tenth of that in blocks of 512 B to 1 MiB, the rest half and half
// in blocks of 1 to 64 and of 64 to 512 MiB, each drawn log-uniformly. Nine in
// ten live for two minutes in the mean, the tenth for two hours, both
// exponentially. At the end everything is freed.

#ifndef FIRN_BENCH_TRACES_MIXED_H_
#define FIRN_BENCH_TRACES_MIXED_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/chunked_source.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

struct MixedOptions {
  double days = 3;
  uint64_t live_bytes = uint64_t{8} << 30;
  uint64_t seed = 1;
};

// Thread safety: none.
class Mixed : public ChunkedSource {
 public:
  Mixed(absl::string_view name, const MixedOptions& options);

  // Keys: days, live, seed.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  struct Death {
    int64_t time_us = 0;
    BlockRef block;
    // The earliest first; of equals the block with the least id.
    friend bool operator>(const Death& a, const Death& b) {
      return a.time_us != b.time_us ? a.time_us > b.time_us
                                    : a.block.id > b.block.id;
    }
  };

  double DrawExponential(double mean);
  uint64_t DrawBytes();
  void FreeUntil(int64_t time_us);

  const MixedOptions options_;
  // Arrivals a microsecond at most of each band of sizes, and of all.
  std::array<double, 3> rates_ = {};
  double rate_ = 0;
  SeededRandom random_;
  double time_us_ = 0;
  std::priority_queue<Death, std::vector<Death>, std::greater<Death>> deaths_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_MIXED_H_
