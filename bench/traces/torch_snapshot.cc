// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_snapshot.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/byte_source.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/torch_pairing.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;
// Traces may last this long, so that sums of times stay in range.
constexpr uint64_t kMaxTraceUs = uint64_t{1} << 62;

// What HashedDraw draws.
constexpr uint64_t kTrainingLength = 1;
constexpr uint64_t kEvaluationLength = 2;

absl::StatusOr<TorchProgram> ReadProgram(absl::string_view file) {
  absl::StatusOr<std::string> data = ReadAllBytes(file, kMaxFileBytes);
  if (!data.ok()) return data.status();
  absl::StatusOr<std::vector<TorchTraceEntry>> entries =
      ReadTorchSnapshot(file, *std::move(data));
  if (!entries.ok()) return entries.status();
  return CompileTorchProgram(*entries);
}

absl::Status CheckDuration(const TraceSpec& spec, const TorchOptions& options,
                           const TorchProgram& program) {
  const auto duration_us = static_cast<uint64_t>(program.duration_us());
  if (options.loops == 1 && options.eval_every == 0 &&
      options.checkpoint_every == 0) {
    if (duration_us <= kMaxTraceUs) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path, ": the recording lasts ", duration_us,
                     " us; at most 2^62 us"));
  }
  // A loop, an evaluation and a checkpoint of two entries a block.
  const absl::uint128 loop_us =
      absl::uint128(4) * (duration_us + program.operations.size() + 2);
  if (loop_us * options.loops <= kMaxTraceUs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      spec.path, ": ", options.loops, " loops of a recording that lasts ",
      duration_us, " us would last more than 2^62 us; give fewer loops"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> TorchSnapshot::Open(
    const TraceSpec& spec) {
  absl::StatusOr<TorchOptions> options = ReadTorchOptions(spec);
  if (!options.ok()) return options.status();
  absl::StatusOr<TorchProgram> program = ReadProgram(spec.path);
  if (!program.ok()) return program.status();
  absl::Status status = CheckDuration(spec, *options, *program);
  if (!status.ok()) return status;
  std::vector<TorchSizeLaw> laws;
  if (!options->pair.empty()) {
    absl::StatusOr<TorchProgram> pair = ReadProgram(options->pair);
    if (!pair.ok()) return pair.status();
    absl::StatusOr<std::vector<TorchSizeLaw>> paired =
        PairPrograms(options->lengths, *program, *pair);
    if (!paired.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec.path, ": key pair=", Quoted(options->pair),
          ": not the same program at the lengths ", options->lengths.own,
          " and ", options->lengths.pair, ": ", paired.status().message()));
    }
    laws = *std::move(paired);
  }
  return std::unique_ptr<TraceSource>(
      new TorchSnapshot(spec, *options, *std::move(program), std::move(laws)));
}

TorchSnapshot::TorchSnapshot(const TraceSpec& spec, const TorchOptions& options,
                             TorchProgram program,
                             std::vector<TorchSizeLaw> laws)
    : name_(spec.text),
      path_(spec.path),
      options_(options),
      program_(std::move(program)),
      laws_(std::move(laws)) {
  for (const uint32_t block : program_.left_alive) {
    if (laws_.empty() || laws_[block].form() == TorchSizeLaw::Form::kState) {
      state_.push_back(block);
    }
  }
  if (!program_.operations.empty()) {
    entry_us_ = std::max(int64_t{1},
                         program_.duration_us() /
                             static_cast<int64_t>(program_.operations.size()));
  }
  Enter(Phase::kLeftOver);
}

absl::StatusOr<bool> TorchSnapshot::Next(TraceEvent* event) {
  while (phase_ != Phase::kEnd) {
    absl::StatusOr<bool> moved = Move(event);
    if (!moved.ok() || *moved) return moved;
  }
  return false;
}

absl::StatusOr<bool> TorchSnapshot::Move(TraceEvent* event) {
  switch (phase_) {
    case Phase::kLeftOver:
      if (loop_ > 0 && next_ < program_.left_over.size()) {
        const uint32_t block = program_.left_over[next_++];
        event->time_us = start_us_;
        return Free(LoopKey(loop_ - 1, block), program_.blocks[block].stream,
                    event);
      }
      break;
    case Phase::kTraining:
      if (next_ < program_.operations.size()) return Train(event);
      break;
    case Phase::kEvaluation:
      if (next_ < program_.forward_operations || !kept_.empty()) {
        return Evaluate(event);
      }
      break;
    case Phase::kCheckpoint:
      if (next_ < 2 * state_.size()) return WriteCheckpoint(event);
      break;
    case Phase::kEnd:
      return false;
  }
  EnterNextPhase();
  return false;
}

absl::StatusOr<bool> TorchSnapshot::Train(TraceEvent* event) {
  const TorchOperation& operation = program_.operations[next_++];
  event->time_us = start_us_ + operation.offset_us;
  switch (operation.kind) {
    case TraceEventKind::kAllocate:
      return Allocate(LoopKey(loop_, operation.block), operation.block,
                      operation.stream, event);
    case TraceEventKind::kFree:
      return Free(LoopKey(loop_, operation.block), operation.stream, event);
    default:
      break;
  }
  if (loop_ > 0 && operation.block != TorchOperation::kNoBlock) {
    return Free(LoopKey(loop_ - 1, operation.block), operation.stream, event);
  }
  event->kind = TraceEventKind::kUnknownFree;
  event->stream = operation.stream;
  event->id = 0;
  event->bytes = operation.bytes;
  return true;
}

absl::StatusOr<bool> TorchSnapshot::Evaluate(TraceEvent* event) {
  const bool at_end = next_ == program_.forward_operations;
  // An eviction happens at the time of the allocation before it.
  const size_t last = next_ == 0 ? 0 : next_ - 1;
  if (at_end || kept_.size() > kEvaluationKeeps) {
    const uint32_t block = kept_.front();
    kept_.pop_front();
    event->time_us = start_us_ + program_.operations[last].offset_us;
    return Free(PhaseKey(block), program_.blocks[block].stream, event);
  }
  const TorchOperation& operation = program_.operations[next_++];
  if (operation.kind == TraceEventKind::kUnknownFree) return false;
  event->time_us = start_us_ + operation.offset_us;
  if (operation.kind == TraceEventKind::kFree) {
    return Free(PhaseKey(operation.block), operation.stream, event);
  }
  if (program_.blocks[operation.block].freed_by >=
      program_.forward_operations) {
    kept_.push_back(operation.block);
  }
  return Allocate(PhaseKey(operation.block), operation.block, operation.stream,
                  event);
}

absl::StatusOr<bool> TorchSnapshot::WriteCheckpoint(TraceEvent* event) {
  const uint32_t block = state_[next_ % state_.size()];
  const bool copies = next_ < state_.size();
  event->time_us = start_us_ + static_cast<int64_t>(next_) * entry_us_;
  ++next_;
  const uint32_t stream = program_.blocks[block].stream;
  if (copies) return Allocate(PhaseKey(block), block, stream, event);
  return Free(PhaseKey(block), stream, event);
}

void TorchSnapshot::EnterNextPhase() {
  switch (phase_) {
    case Phase::kLeftOver:
      return Enter(Phase::kTraining);
    case Phase::kTraining:
      start_us_ += program_.duration_us() + 1;
      if (IsDue(options_.eval_every)) return Enter(Phase::kEvaluation);
      [[fallthrough]];
    case Phase::kEvaluation:
      if (phase_ == Phase::kEvaluation && program_.forward_operations > 0) {
        start_us_ +=
            program_.operations[program_.forward_operations - 1].offset_us + 1;
      }
      if (IsDue(options_.checkpoint_every)) return Enter(Phase::kCheckpoint);
      [[fallthrough]];
    case Phase::kCheckpoint:
      if (phase_ == Phase::kCheckpoint) {
        start_us_ += static_cast<int64_t>(2 * state_.size()) * entry_us_;
      }
      ++loop_;
      return Enter(loop_ < options_.loops ? Phase::kLeftOver : Phase::kEnd);
    case Phase::kEnd:
      return;
  }
}

void TorchSnapshot::Enter(Phase phase) {
  phase_ = phase;
  next_ = 0;
  if (laws_.empty()) return;
  const uint64_t purpose =
      phase == Phase::kEvaluation ? kEvaluationLength : kTrainingLength;
  length_ = options_.jitter[HashedDraw(options_.seed, loop_, purpose) %
                            options_.jitter.size()];
}

uint64_t TorchSnapshot::LoopKey(uint64_t loop, uint32_t block) const {
  return (loop % 2) << 32 | block;
}

uint64_t TorchSnapshot::PhaseKey(uint32_t block) const {
  return uint64_t{2} << 32 | block;
}

absl::StatusOr<bool> TorchSnapshot::Allocate(uint64_t key, uint32_t block,
                                             uint32_t stream,
                                             TraceEvent* event) {
  event->kind = TraceEventKind::kAllocate;
  event->stream = stream;
  event->bytes = laws_.empty()
                     ? program_.blocks[block].bytes
                     : laws_[block].BytesAt(options_.lengths, length_);
  absl::StatusOr<uint64_t> id = live_.Add(key, event->bytes);
  if (!id.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": entry ", program_.blocks[block].entry,
                     " of the trace: size: ", id.status().message()));
  }
  event->id = *id;
  return true;
}

bool TorchSnapshot::Free(uint64_t key, uint32_t stream, TraceEvent* event) {
  const std::optional<LiveBlock> block = live_.Remove(key);
  event->kind = TraceEventKind::kFree;
  event->stream = stream;
  event->id = block->id;
  event->bytes = block->bytes;
  return true;
}

absl::Status TorchSnapshot::Rewind() {
  loop_ = 0;
  start_us_ = 0;
  kept_.clear();
  live_.Clear();
  Enter(Phase::kLeftOver);
  return absl::OkStatus();
}

}  // namespace firn::bench
