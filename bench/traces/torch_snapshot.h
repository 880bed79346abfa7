// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plays a PyTorch memory snapshot (torch_entries.h) as a trace, once or in
// loops. Memory does not grow with the loops.
//
// A loop plays the recorded program (torch_program.h) at the recorded times.
// The first meets frees of unknown addresses, which are events of their own
// kind; every later one first frees, in order of allocation, what is left over
// from the one before, and its unknown frees free what that one left alive. A
// loop lasts as long as the recording, whatever its length in tokens, and what
// comes next starts 1 us after its last event.
//
// With `pair`, every loop draws its sequence length from `jitter`, and sizes
// follow from the two recordings (torch_size_law.h). Without, all loops are
// alike.
//
// After every `eval_every`-th loop an evaluation plays the forward part of the
// program at the recorded times, at a length of its own. A block that training
// keeps for the backward pass is freed once more than kEvaluationKeeps of that
// kind are live, the oldest first; the rest goes at the end, after which what
// comes next starts 1 us later. Unknown frees are left out.
//
// After every `checkpoint_every`-th loop a checkpoint copies the state, block
// by block in order of allocation, and then frees the copies in that order,
// each after the mean time between two entries of the recording. State is what
// the loop leaves alive, with `pair` only blocks whose size is the same in
// both. Parameters were allocated before recording began, so they are not in
// it.

#ifndef FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_
#define FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/live_blocks.h"
#include "bench/traces/torch_entries.h"
#include "bench/traces/torch_options.h"
#include "bench/traces/torch_program.h"
#include "bench/traces/torch_size_law.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Thread safety: none.
class TorchSnapshot : public TraceSource {
 public:
  // Results that are inputs of what comes next, and residuals.
  static constexpr size_t kEvaluationKeeps = 8;

  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

  absl::string_view name() const override { return name_; }
  absl::StatusOr<bool> Next(TraceEvent* event) override;
  absl::Status Rewind() override;

 private:
  enum class Phase : uint8_t {
    kLeftOver,
    kTraining,
    kEvaluation,
    kCheckpoint,
    kEnd,
  };

  // `laws` is empty or holds one for each block.
  TorchSnapshot(const TraceSpec& spec, const TorchOptions& options,
                TorchProgram program, std::vector<TorchSizeLaw> laws);

  // One move of the phase: true for an event, false where there was none.
  absl::StatusOr<bool> Move(TraceEvent* event);
  absl::StatusOr<bool> Train(TraceEvent* event);
  absl::StatusOr<bool> Evaluate(TraceEvent* event);
  absl::StatusOr<bool> WriteCheckpoint(TraceEvent* event);
  void EnterNextPhase();
  void Enter(Phase phase);
  bool IsDue(uint64_t every) const {
    return every > 0 && (loop_ + 1) % every == 0;
  }

  // Whose block is meant: one of this or of the loop before, or another copy.
  uint64_t LoopKey(uint64_t loop, uint32_t block) const;
  uint64_t PhaseKey(uint32_t block) const;
  absl::StatusOr<bool> Allocate(uint64_t key, uint32_t block, uint32_t stream,
                                TraceEvent* event);
  bool Free(uint64_t key, uint32_t stream, TraceEvent* event);

  const std::string name_;
  const std::string path_;
  const TorchOptions options_;
  const TorchProgram program_;
  const std::vector<TorchSizeLaw> laws_;
  std::vector<uint32_t> state_;  // blocks that a checkpoint copies
  int64_t entry_us_ = 1;         // mean time of an entry

  Phase phase_ = Phase::kLeftOver;
  size_t next_ = 0;  // of what the phase goes through
  uint64_t loop_ = 0;
  int64_t start_us_ = 0;       // of the phase
  uint64_t length_ = 0;        // of the phase
  std::deque<uint32_t> kept_;  // by an evaluation, oldest first
  LiveBlocks live_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_
