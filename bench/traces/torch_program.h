// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a PyTorch memory snapshot recorded, as a program that can be played many
// times over: operations on numbered blocks in place of addresses.
//
// Blocks that were live when recording began are not known, so a free may be of
// an unknown address. An allocation at a live address means that the recorder's
// ring buffer lost the free between: the old block is freed at that moment.
//
// Looped, the program frees in one loop what the loop before left alive. Which
// block an unknown free means is told by size: of the blocks of its size that
// the recording leaves alive, the unknown frees take those allocated last, in
// the order of allocation. (What lives longest across the seam was allocated
// last: gradients come before the optimizer's state.) What no unknown free
// takes is left over and freed as the next loop starts.

#ifndef FIRN_BENCH_TRACES_TORCH_PROGRAM_H_
#define FIRN_BENCH_TRACES_TORCH_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "bench/traces/torch_entries.h"
#include "bench/traces/trace.h"

namespace firn::bench {

struct TorchOperation {
  static constexpr uint32_t kNoBlock = ~uint32_t{0};

  // An allocation, a free, or a free of an unknown address.
  TraceEventKind kind = TraceEventKind::kAllocate;
  uint32_t stream = 0;  // numbered in the order of use; 0 is the default
  // Of an unknown free: the block of the loop before that it frees, or none.
  uint32_t block = kNoBlock;
  uint64_t bytes = 0;     // as recorded
  int64_t offset_us = 0;  // since the first operation; never falls
};

struct TorchBlock {
  static constexpr uint32_t kNever = ~uint32_t{0};

  uint64_t bytes = 0;  // as recorded
  uint32_t stream = 0;
  uint32_t entry = 0;          // of the snapshot
  uint32_t freed_by = kNever;  // number of the operation
};

struct TorchProgram {
  std::vector<TorchOperation> operations;
  std::vector<TorchBlock> blocks;    // in the order of allocation
  std::vector<uint32_t> left_alive;  // blocks that no operation frees
  std::vector<uint32_t> left_over;   // those no unknown free takes either
  // The operations up to the first at which most bytes are live of those blocks
  // that the program itself frees: of a training step its forward part, at
  // whose end all activations are held.
  size_t forward_operations = 0;

  int64_t duration_us() const {
    return operations.empty() ? 0 : operations.back().offset_us;
  }
};

TorchProgram CompileTorchProgram(absl::Span<const TorchTraceEntry> entries);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_PROGRAM_H_
