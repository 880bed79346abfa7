// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:sawtooth: fill memory with blocks of log-uniform sizes, free most of them
// at random, and again.
//
// Each of `cycles` cycles allocates blocks, their sizes drawn log-uniformly
// from `min_bytes` to `max_bytes`, until the next would take live memory beyond
// `live_bytes`; then it draws the share `freed` of the live blocks and frees
// them in random order, and a probe follows. At the end everything is freed.
// One event every 10 us.

#ifndef FIRN_BENCH_TRACES_SAWTOOTH_H_
#define FIRN_BENCH_TRACES_SAWTOOTH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/paced_source.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

struct SawtoothOptions {
  uint64_t live_bytes = uint64_t{8} << 30;
  uint64_t min_bytes = uint64_t{4} << 10;
  uint64_t max_bytes = uint64_t{16} << 20;
  double freed = 0.9;
  uint64_t cycles = 50;
  uint64_t seed = 1;
};

// Thread safety: none.
class Sawtooth : public PacedSource {
 public:
  Sawtooth(absl::string_view name, const SawtoothOptions& options);

  // Keys: live, min, max, freed, cycles, seed.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  // Frees `count` live blocks drawn at random.
  void FreeAtRandom(uint64_t count);

  const SawtoothOptions options_;
  SeededRandom random_;
  std::vector<BlockRef> live_;
  uint64_t live_bytes_ = 0;
  uint64_t cycle_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SAWTOOTH_H_
