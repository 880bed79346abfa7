// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/steady.h"

#include "absl/status/status.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/training.h"

namespace firn::bench {

absl::StatusOr<std::unique_ptr<TraceSource>> OpenSteady(const TraceSpec& spec) {
  TrainingOptions options;
  options.eval_every = 0;
  options.checkpoint_every = 0;
  TraceKeys keys(spec, "gen:steady");
  options.steps = keys.Count("steps", options.steps, 1, kMaxTrainingSteps);
  ReadStepKeys(&keys, &options);
  options.sequence_tokens = {keys.Count("seq", 512, 1, kMaxTrainingTokens)};
  keys.UnusedSeed();
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  if (absl::Status status = CheckLiveBytes(spec, options); !status.ok()) {
    return status;
  }
  return std::make_unique<Training>(spec.text, options);
}

}  // namespace firn::bench
