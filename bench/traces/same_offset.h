// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:same_offset: the worst case of merging granules at fixed offsets. All
// survivors lie at the same offset of their granule, so no two of them can
// share one, unless placement was spread beforehand: with b blocks a granule, b
// times the granules that the live bytes need.
//
// For each size of `block_bytes`, b = granule / size, there are `rounds`
// rounds. Round r = 0, 1 ...: fill the whole granules within `live_bytes`, b
// blocks each; free all but the blocks whose number, in order of allocation, is
// floor(r b / rounds) modulo b: where blocks lie side by side from the start of
// a granule, those at one offset, another each round; probe; allocate blocks of
// a granule each while live memory stays within `live_bytes`; probe; free
// everything, in order of allocation. One event every 10 us. Nothing is drawn.

#ifndef FIRN_BENCH_TRACES_SAME_OFFSET_H_
#define FIRN_BENCH_TRACES_SAME_OFFSET_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/paced_source.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

struct SameOffsetOptions {
  uint64_t live_bytes = uint64_t{2} << 30;
  std::vector<uint64_t> block_bytes = {uint64_t{64} << 10, uint64_t{256} << 10};
  uint64_t granule_bytes = uint64_t{2} << 20;
  uint64_t rounds = 4;
};

// Thread safety: none.
class SameOffset : public PacedSource {
 public:
  SameOffset(absl::string_view name, const SameOffsetOptions& options);

  // Keys: live, block_bytes, granule, rounds; seed, which changes nothing. A
  // granule must be a multiple of each block.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  void FillAndDieOff(uint64_t block_bytes, uint64_t round);
  void Refill();

  const SameOffsetOptions options_;
  uint64_t round_ = 0;          // counted over all sizes
  std::vector<BlockRef> live_;  // within a round, in order of allocation
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SAME_OFFSET_H_
