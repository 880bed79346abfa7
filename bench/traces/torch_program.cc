// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_program.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "bench/traces/live_blocks.h"

namespace firn::bench {
namespace {

// Turns addresses into blocks, entry by entry.
class Compiler {
 public:
  explicit Compiler(TorchProgram* program) : program_(program) {}

  void Add(const TorchTraceEntry& entry, int64_t since_first_us) {
    TorchOperation operation;
    operation.stream = streams_.NumberOf(entry.stream);
    // Clocks of several threads: time that falls stands still instead.
    offset_us_ = std::max(offset_us_, since_first_us);
    operation.offset_us = offset_us_;
    const auto live = live_.find(entry.address);
    if (live != live_.end()) {
      TorchBlock& block = program_->blocks[live->second];
      block.freed_by = static_cast<uint32_t>(program_->operations.size());
      operation.kind = TraceEventKind::kFree;
      operation.block = live->second;
      operation.bytes = block.bytes;
      program_->operations.push_back(operation);
      live_.erase(live);
      if (!entry.allocates) return;
    }
    operation.bytes = entry.bytes;
    if (entry.allocates) {
      operation.kind = TraceEventKind::kAllocate;
      operation.block = static_cast<uint32_t>(program_->blocks.size());
      live_.emplace(entry.address, operation.block);
      program_->blocks.push_back(
          {entry.bytes, operation.stream, entry.number, TorchBlock::kNever});
    } else {
      operation.kind = TraceEventKind::kUnknownFree;
      operation.block = TorchOperation::kNoBlock;
    }
    program_->operations.push_back(operation);
  }

 private:
  TorchProgram* program_;
  absl::flat_hash_map<uint64_t, uint32_t> live_;  // blocks by address
  HandleNumbers streams_;
  int64_t offset_us_ = 0;
};

// Finds what is left alive, and which of it the unknown frees take.
void MatchUnknownFrees(TorchProgram* program) {
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> alive;  // by size
  for (uint32_t i = 0; i < program->blocks.size(); ++i) {
    const TorchBlock& block = program->blocks[i];
    if (block.freed_by != TorchBlock::kNever) continue;
    program->left_alive.push_back(i);
    alive[block.bytes].push_back(i);
  }
  absl::flat_hash_map<uint64_t, size_t> unknown;  // frees by size
  for (const TorchOperation& operation : program->operations) {
    if (operation.kind == TraceEventKind::kUnknownFree) {
      ++unknown[operation.bytes];
    }
  }
  absl::flat_hash_map<uint64_t, size_t> next;  // of alive, by size
  for (const auto& [bytes, blocks] : alive) {
    const auto found = unknown.find(bytes);
    const size_t frees = found == unknown.end() ? 0 : found->second;
    next[bytes] = blocks.size() - std::min(blocks.size(), frees);
    program->left_over.insert(
        program->left_over.end(), blocks.begin(),
        blocks.begin() + static_cast<std::ptrdiff_t>(next[bytes]));
  }
  std::sort(program->left_over.begin(), program->left_over.end());
  for (TorchOperation& operation : program->operations) {
    if (operation.kind != TraceEventKind::kUnknownFree) continue;
    const auto blocks = alive.find(operation.bytes);
    if (blocks == alive.end()) continue;
    size_t& taken = next[operation.bytes];
    if (taken < blocks->second.size()) {
      operation.block = blocks->second[taken++];
    }
  }
}

size_t ForwardOperations(const TorchProgram& program) {
  // 128 bits, as nothing is known about the sum of recorded sizes.
  absl::uint128 live = 0;
  absl::uint128 most = 0;
  size_t forward = 0;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const TorchOperation& operation = program.operations[i];
    if (operation.kind == TraceEventKind::kUnknownFree) continue;
    const TorchBlock& block = program.blocks[operation.block];
    if (block.freed_by == TorchBlock::kNever) continue;
    if (operation.kind == TraceEventKind::kFree) {
      live -= block.bytes;
      continue;
    }
    live += block.bytes;
    if (live > most) {
      most = live;
      forward = i + 1;
    }
  }
  return forward;
}

}  // namespace

TorchProgram CompileTorchProgram(absl::Span<const TorchTraceEntry> entries) {
  TorchProgram program;
  program.operations.reserve(entries.size());
  Compiler compiler(&program);
  for (const TorchTraceEntry& entry : entries) {
    compiler.Add(entry, entry.time_us - entries.front().time_us);
  }
  MatchUnknownFrees(&program);
  program.forward_operations = ForwardOperations(program);
  return program;
}

}  // namespace firn::bench
