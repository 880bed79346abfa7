// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:robson: sizes that double while every other block dies, so that each hole
// is one block too small for the next size. Memory that neither moves nor is
// given back grows by half of the live memory a size. After the programs by
// which J. M. Robson bounded any allocator that does not move (Worst case
// fragmentation of first fit and best fit storage allocation strategies, 1977).
//
// One round for each size from `min_bytes`, doubled while it is at most
// `max_bytes`: allocate blocks of the size while live memory stays within
// `live_bytes`; free every second of all live blocks, in order of allocation,
// beginning with the second; probe. Where a first fit lies side by side, the
// holes between survivors of size s after n rounds are (2^n - 1) s, and the
// next size is 2^n s. At the end everything is freed, in order of allocation.
// One event every 10 us. Nothing is drawn.

#ifndef FIRN_BENCH_TRACES_ROBSON_H_
#define FIRN_BENCH_TRACES_ROBSON_H_

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

struct RobsonOptions {
  uint64_t live_bytes = uint64_t{2} << 30;
  uint64_t min_bytes = uint64_t{4} << 10;
  uint64_t max_bytes = uint64_t{32} << 20;
};

// Thread safety: none.
class Robson : public PacedSource {
 public:
  Robson(absl::string_view name, const RobsonOptions& options);

  // Keys: live, min, max; seed, which changes nothing.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  void Fill();
  void DieOff();

  const RobsonOptions options_;
  uint64_t block_bytes_;        // of the round
  std::vector<BlockRef> live_;  // in order of allocation
  uint64_t live_bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_ROBSON_H_
