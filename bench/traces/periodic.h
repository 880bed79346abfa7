// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:periodic: the worst case of memory that cannot move. One block in P of a
// size survives, so that every granule may be left with one of them.
//
// One round for each size of `block_bytes` and each P of `periods`: fill
// `live_bytes` with blocks of the size; free all but every P-th of them, in
// order of allocation; probe; allocate blocks of `refill_bytes` while live
// memory stays within `live_bytes`; probe; free everything, in order of
// allocation. One event every 10 us. Nothing is drawn.

#ifndef FIRN_BENCH_TRACES_PERIODIC_H_
#define FIRN_BENCH_TRACES_PERIODIC_H_

#include <cstddef>
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

struct PeriodicOptions {
  uint64_t live_bytes = uint64_t{2} << 30;
  std::vector<uint64_t> block_bytes = {uint64_t{64} << 10, uint64_t{256} << 10,
                                       uint64_t{3} << 20};
  std::vector<uint64_t> periods = {2, 8, 32, 128};
  uint64_t refill_bytes = uint64_t{20} << 20;
};

// Thread safety: none.
class Periodic : public PacedSource {
 public:
  Periodic(absl::string_view name, const PeriodicOptions& options);

  // Keys: live, block_bytes, period, refill; seed, which changes nothing.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  enum class Part : uint8_t { kFill, kDieOff, kRefill, kFree };

  void Fill(uint64_t block_bytes);
  void DieOff(uint64_t period);
  void Refill();

  const PeriodicOptions options_;
  size_t round_ = 0;
  Part part_ = Part::kFill;     // of the round
  std::vector<BlockRef> live_;  // in order of allocation
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_PERIODIC_H_
