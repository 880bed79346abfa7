// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/training.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/traces/live_blocks.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 20;
constexpr double kUsPerDay = 86'400e6;
constexpr uint64_t kNarrow = 2;  // bytes of a 16-bit number
constexpr uint64_t kWide = 4;    // bytes of a 32-bit number
// A 32-bit copy and two moments.
constexpr uint64_t kOptimizerBytes = 12;

// No less than what can be live at a time.
double MostLiveBytes(const TrainingOptions& o) {
  const uint64_t longest =
      *std::max_element(o.sequence_tokens.begin(), o.sequence_tokens.end());
  const auto tokens = static_cast<double>(2 * o.batch * longest);
  const auto hidden = static_cast<double>(o.hidden);
  const double scores = static_cast<double>(o.heads * longest) * 8;
  const double layer =
      tokens * (32 * hidden + scores) + 12 * hidden * hidden * 32;
  return static_cast<double>(o.layers) * layer +
         tokens * static_cast<double>(o.vocabulary) * 8;
}

}  // namespace

void ReadStepKeys(TraceKeys* keys, TrainingOptions* options) {
  TrainingOptions& o = *options;
  o.step_ms = keys->Count("step_ms", o.step_ms, 0, 3'600'000);
  o.layers = keys->Count("layers", o.layers, 1, 1'000);
  o.hidden = keys->Count("hidden", o.hidden, 1, 100'000);
  o.heads = keys->Count("heads", o.heads, 1, 1'000);
  o.vocabulary = keys->Count("vocab", o.vocabulary, 1, 10'000'000);
  o.batch = keys->Count("batch", o.batch, 1, 10'000);
  o.accumulate = keys->Count("accumulate", o.accumulate, 1, 1'000);
  o.shards = keys->Count("shards", o.shards, 1, 100'000);
}

absl::Status CheckLiveBytes(const TraceSpec& spec,
                            const TrainingOptions& options) {
  if (MostLiveBytes(options) <=
      static_cast<double>(LiveBlocks::kMaxLiveBytes)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      spec.path,
      ": the keys layers, hidden, heads, vocab, batch and seq ask for more "
      "than 4 EiB of live memory"));
}

Training::Training(absl::string_view name, const TrainingOptions& options)
    : PacedSource(name, kUsPerEvent), options_(options), random_(options.seed) {
  const auto events = static_cast<int64_t>(EventsPerStep());
  step_us_ = kUsPerEvent * events;
  if (options_.step_ms > 0) {
    step_us_ = static_cast<int64_t>(options_.step_ms) * 1000;
    set_us_per_event(std::max(int64_t{1}, step_us_ / events));
  }
}

absl::StatusOr<std::unique_ptr<TraceSource>> Training::Open(
    const TraceSpec& spec) {
  TrainingOptions o;
  TraceKeys keys(spec, "gen:training");
  // No run has so many steps, so this is the key's absence.
  const uint64_t steps =
      keys.Count("steps", kMaxTrainingSteps + 1, 1, kMaxTrainingSteps);
  o.days = keys.Real("days", o.days, 0, 3650);
  ReadStepKeys(&keys, &o);
  o.sequence_tokens =
      keys.CountList("seq", o.sequence_tokens, 1, kMaxTrainingTokens);
  o.eval_every = keys.Count("eval_every", o.eval_every, 0, kMaxTrainingSteps);
  o.checkpoint_every =
      keys.Count("checkpoint_every", o.checkpoint_every, 0, kMaxTrainingSteps);
  o.seed = keys.Count("seed", o.seed, 0, ~uint64_t{0});
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  if (steps <= kMaxTrainingSteps) {
    if (o.days > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.path, ": give key steps or key days, not both"));
    }
    o.steps = steps;
  }
  if (absl::Status status = CheckLiveBytes(spec, o); !status.ok()) {
    return status;
  }
  return std::make_unique<Training>(spec.text, o);
}

absl::StatusOr<bool> Training::FillChunk() {
  if (!started_) {
    started_ = true;
    AllocateState();
    next_step_us_ = time_us();
    return true;
  }
  if (micro_batch_ == 0) {
    if (!HasStep()) {
      if (state_.empty()) return false;
      GiveAll(&state_);
      return true;
    }
    WaitUntil(next_step_us_);
    next_step_us_ = time_us() + step_us_;
  }
  MicroBatch();
  if (++micro_batch_ == options_.accumulate) EndStep();
  return true;
}

bool Training::HasStep() const {
  if (options_.days == 0) return step_ < options_.steps;
  return static_cast<double>(std::max(time_us(), next_step_us_)) <
         options_.days * kUsPerDay;
}

void Training::AllocateState() {
  const uint64_t parameters =
      std::max(uint64_t{1}, ParametersPerLayer() / options_.shards);
  for (uint64_t layer = 0; layer < options_.layers; ++layer) {
    state_.push_back(Take(parameters * kNarrow));
    state_.push_back(Take(parameters * kOptimizerBytes));
  }
}

void Training::EndStep() {
  UpdateParameters();
  micro_batch_ = 0;
  ++step_;
  if (options_.eval_every > 0 && step_ % options_.eval_every == 0) Evaluate();
  if (options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0) {
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

// Without evaluation and checkpoint: the calls of Take and Give above.
uint64_t Training::EventsPerStep() const {
  const uint64_t gather = options_.shards > 1 ? 2 : 0;
  const uint64_t forward = 12 + gather;   // 8 saved, 2 temporaries
  const uint64_t backward = 26 + gather;  // 3 each for what was saved
  // The first micro-batch's backward pass also allocates a gradient a layer.
  const uint64_t micro_batch = options_.layers * (forward + backward) + 6;
  const uint64_t update = 4 * options_.layers;
  return options_.accumulate * micro_batch + update;
}

uint64_t Training::DrawSequence() {
  return options_
      .sequence_tokens[random_.Below(options_.sequence_tokens.size())];
}

void Training::GiveAll(std::vector<BlockRef>* blocks) {
  for (; !blocks->empty(); blocks->pop_back()) Give(blocks->back());
}

absl::Status Training::Restart() {
  random_ = SeededRandom(options_.seed);
  started_ = false;
  step_ = 0;
  micro_batch_ = 0;
  state_.clear();
  gradients_.clear();
  return absl::OkStatus();
}

}  // namespace firn::bench
