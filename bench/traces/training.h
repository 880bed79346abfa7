// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// gen:training: the allocations of a transformer's training, step by step.
//
// State lives throughout: for each layer its share (1 / shards) of the 16-bit
// parameters and of 12 bytes a parameter of optimizer state. A step runs
// `accumulate` micro-batches, each with a sequence length drawn from `seq`:
// - forward: each layer gathers its full parameters (with more than one shard),
//   allocates the activations that backward needs and a few temporaries, and
//   drops the gathered parameters; then the logits, 16 and 32 bits wide;
// - backward: in reverse, each layer gathers its parameters, allocates the
//   gradients of its activations and frees them along with the activations;
//   its weight gradients are made whole, reduced into a shard that lives until
//   the end of the step, and freed.
// The optimizer then takes a temporary per layer and frees the gradients.
// Every `eval_every` steps an evaluation runs the forward pass with twice the
// batch and keeps nothing; every `checkpoint_every` steps a checkpoint gathers
// all parameters, 32 bits wide, layer by layer, and then frees them. 0 turns
// either off. At the end the state is freed.
//
// Time: without `step_ms`, one event every 20 us. With it, steps begin that far
// apart, and the events of a step without evaluation and checkpoint spread over
// it evenly (at least 1 us apart); what comes on top goes on at the same pace,
// and the next step begins once all is done. The run has `steps` steps, or with
// `days` all those that begin within that time.

#ifndef FIRN_BENCH_TRACES_TRAINING_H_
#define FIRN_BENCH_TRACES_TRAINING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/paced_source.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

struct TrainingOptions {
  uint64_t steps = 100;
  double days = 0;       // 0: `steps` steps
  uint64_t step_ms = 0;  // 0: a fixed pace
  uint64_t layers = 24;
  uint64_t hidden = 1024;
  uint64_t heads = 16;
  uint64_t vocabulary = 50257;
  uint64_t batch = 4;
  std::vector<uint64_t> sequence_tokens = {256, 384, 512, 640, 768, 896, 1024};
  uint64_t accumulate = 4;
  uint64_t shards = 8;
  uint64_t eval_every = 25;
  uint64_t checkpoint_every = 50;
  uint64_t seed = 1;
};

constexpr uint64_t kMaxTrainingSteps = 1'000'000'000;
constexpr uint64_t kMaxTrainingTokens = 100'000;  // of a sequence

// The keys that say what a step does: step_ms, layers, hidden, heads, vocab,
// batch, accumulate, shards.
void ReadStepKeys(TraceKeys* keys, TrainingOptions* options);

// InvalidArgument where live memory could pass LiveBlocks::kMaxLiveBytes.
absl::Status CheckLiveBytes(const TraceSpec& spec,
                            const TrainingOptions& options);

// Thread safety: none.
class Training : public PacedSource {
 public:
  Training(absl::string_view name, const TrainingOptions& options);

  // Keys: the fields of TrainingOptions, with seq for sequence_tokens and vocab
  // for vocabulary; steps or days, not both.
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  bool HasStep() const;
  void AllocateState();
  void MicroBatch();
  // What follows the micro-batches of a step.
  void EndStep();
  // Saves what backward needs in `saved`.
  void ForwardLayer(uint64_t tokens, uint64_t sequence_tokens,
                    std::vector<BlockRef>* saved);
  void BackwardLayer(std::vector<BlockRef>* saved);
  void UpdateParameters();
  void Evaluate();
  void WriteCheckpoint();

  uint64_t ParametersPerLayer() const;
  uint64_t EventsPerStep() const;
  uint64_t DrawSequence();
  // In reverse.
  void GiveAll(std::vector<BlockRef>* blocks);

  const TrainingOptions options_;
  SeededRandom random_;
  bool started_ = false;
  uint64_t step_ = 0;
  uint64_t micro_batch_ = 0;  // of the step
  int64_t step_us_;           // from one step to the next
  int64_t next_step_us_ = 0;  // when the next step may begin
  std::vector<BlockRef> state_;
  std::vector<BlockRef> gradients_;  // of each layer, within a step
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TRAINING_H_
