// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/training.h"

#include <algorithm>

#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 20;
constexpr uint64_t kNarrow = 2;  // bytes of a 16-bit number
constexpr uint64_t kWide = 4;    // bytes of a 32-bit number
// A 32-bit copy and two moments.
constexpr uint64_t kOptimizerBytes = 12;

}  // namespace

Training::Training(absl::string_view name, const TrainingOptions& options)
    : ChunkedSource(name), options_(options), random_(options.seed) {}

absl::StatusOr<std::unique_ptr<TraceSource>> Training::Open(
    const TraceSpec& spec) {
  TrainingOptions o;
  TraceKeys keys(spec, "gen:training");
  o.steps = keys.Count("steps", o.steps, 1, 1'000'000'000);
  o.layers = keys.Count("layers", o.layers, 1, 1'000);
  o.hidden = keys.Count("hidden", o.hidden, 1, 100'000);
  o.heads = keys.Count("heads", o.heads, 1, 1'000);
  o.vocabulary = keys.Count("vocab", o.vocabulary, 1, 10'000'000);
  o.batch = keys.Count("batch", o.batch, 1, 10'000);
  o.sequence_tokens = keys.CountList("seq", o.sequence_tokens, 1, 100'000);
  o.accumulate = keys.Count("accumulate", o.accumulate, 1, 1'000);
  o.shards = keys.Count("shards", o.shards, 1, 100'000);
  o.eval_every = keys.Count("eval_every", o.eval_every, 0, 1'000'000'000);
  o.checkpoint_every =
      keys.Count("checkpoint_every", o.checkpoint_every, 0, 1'000'000'000);
  o.seed = keys.Count("seed", o.seed, 0, ~uint64_t{0});
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  return std::make_unique<Training>(spec.text, o);
}

absl::StatusOr<bool> Training::FillChunk() {
  if (step_ > options_.steps) return false;
  if (step_ == 0) {
    const uint64_t parameters =
        std::max(uint64_t{1}, ParametersPerLayer() / options_.shards);
    for (uint64_t layer = 0; layer < options_.layers; ++layer) {
      state_.push_back(Take(parameters * kNarrow));
      state_.push_back(Take(parameters * kOptimizerBytes));
    }
  }
  if (step_ == options_.steps) {
    GiveAll(&state_);
  } else {
    Step();
  }
  ++step_;
  return true;
}

void Training::Step() {
  for (uint64_t i = 0; i < options_.accumulate; ++i) MicroBatch();
  UpdateParameters();
  const uint64_t done = step_ + 1;
  if (options_.eval_every > 0 && done % options_.eval_every == 0) Evaluate();
  if (options_.checkpoint_every > 0 && done % options_.checkpoint_every == 0) {
    WriteCheckpoint();
  }
}

void Training::MicroBatch() {
  const uint64_t sequence = DrawSequence();
  const uint64_t tokens = options_.batch * sequence;
  std::vector<std::vector<BlockRef>> saved(options_.layers);
  for (std::vector<BlockRef>& layer : saved) {
    ForwardLayer(tokens, sequence, &layer);
  }
  const BlockRef logits = Take(tokens * options_.vocabulary * kNarrow);
  const BlockRef wide_logits = Take(tokens * options_.vocabulary * kWide);
  const BlockRef logits_gradient = Take(tokens * options_.vocabulary * kNarrow);
  Give(wide_logits);
  Give(logits);
  Give(logits_gradient);
  for (uint64_t layer = options_.layers; layer-- > 0;) {
    BackwardLayer(&saved[layer]);
  }
}

void Training::ForwardLayer(uint64_t tokens, uint64_t sequence_tokens,
                            std::vector<BlockRef>* saved) {
  BlockRef gathered;
  if (options_.shards > 1) gathered = Take(ParametersPerLayer() * kNarrow);
  const uint64_t row = tokens * options_.hidden * kNarrow;
  const uint64_t scores = tokens * options_.heads * sequence_tokens;
  saved->push_back(Take(row));      // first norm
  saved->push_back(Take(3 * row));  // queries, keys, values
  const BlockRef wide_scores = Take(scores * kWide);
  saved->push_back(Take(scores * kNarrow));  // probabilities
  Give(wide_scores);
  saved->push_back(Take(row));  // attention's result
  const BlockRef projected = Take(row);
  saved->push_back(Take(row));  // second norm
  Give(projected);
  saved->push_back(Take(4 * row));  // before the activation
  saved->push_back(Take(4 * row));  // after it
  saved->push_back(Take(row));      // result
  if (options_.shards > 1) Give(gathered);
}

void Training::BackwardLayer(std::vector<BlockRef>* saved) {
  BlockRef gathered;
  if (options_.shards > 1) gathered = Take(ParametersPerLayer() * kNarrow);
  const BlockRef weight_gradient = Take(ParametersPerLayer() * kNarrow);
  // Each activation's gradient is as large as it, and made before the one of
  // the activation after it is dropped.
  BlockRef later;
  while (!saved->empty()) {
    const BlockRef gradient = Take(saved->back().bytes);
    if (later.bytes > 0) Give(later);
    later = gradient;
    Give(saved->back());
    saved->pop_back();
  }
  Give(later);
  if (gradients_.size() < options_.layers) {
    // The first micro-batch goes through the layers from the last to the first.
    gradients_.push_back(Take(
        std::max(uint64_t{1}, ParametersPerLayer() / options_.shards) * kWide));
  }
  Give(weight_gradient);
  if (options_.shards > 1) Give(gathered);
}

void Training::UpdateParameters() {
  for (const BlockRef& gradient : gradients_) Give(Take(gradient.bytes));
  GiveAll(&gradients_);
}

void Training::Evaluate() {
  const uint64_t sequence = DrawSequence();
  const uint64_t tokens = 2 * options_.batch * sequence;
  std::vector<BlockRef> earlier;
  for (uint64_t i = 0; i < options_.layers; ++i) {
    std::vector<BlockRef> layer;
    ForwardLayer(tokens, sequence, &layer);
    // Only the result goes on to the next layer.
    const BlockRef result = layer.back();
    layer.pop_back();
    GiveAll(&layer);
    GiveAll(&earlier);
    earlier.push_back(result);
  }
  const BlockRef logits = Take(tokens * options_.vocabulary * kNarrow);
  GiveAll(&earlier);
  Give(logits);
}

void Training::WriteCheckpoint() {
  std::vector<BlockRef> copies;
  for (uint64_t i = 0; i < options_.layers; ++i) {
    const BlockRef gathered = Take(ParametersPerLayer() * kNarrow);
    copies.push_back(Take(ParametersPerLayer() * kWide));
    Give(gathered);
  }
  GiveAll(&copies);
}

uint64_t Training::ParametersPerLayer() const {
  return 12 * options_.hidden * options_.hidden;
}

uint64_t Training::DrawSequence() {
  return options_
      .sequence_tokens[random_.Below(options_.sequence_tokens.size())];
}

BlockRef Training::Take(uint64_t bytes) {
  time_us_ += kUsPerEvent;
  return {EmitAllocate(time_us_ - kUsPerEvent, bytes), bytes};
}

void Training::Give(const BlockRef& block) {
  time_us_ += kUsPerEvent;
  EmitFree(time_us_ - kUsPerEvent, block.id, block.bytes);
}

void Training::GiveAll(std::vector<BlockRef>* blocks) {
  for (; !blocks->empty(); blocks->pop_back()) Give(blocks->back());
}

absl::Status Training::Restart() {
  random_ = SeededRandom(options_.seed);
  step_ = 0;
  time_us_ = 0;
  state_.clear();
  gradients_.clear();
  return absl::OkStatus();
}

}  // namespace firn::bench
