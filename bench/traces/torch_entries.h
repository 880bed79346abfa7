// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the memory snapshot that PyTorch writes
// (torch.cuda.memory._dump_snapshot after _record_memory_history).
//
// Used are the alloc and free_completed entries of one device: the only one, or
// the one with most of them. All other entries are about the caching allocator
// itself. Entries of no bytes are left out.

#ifndef FIRN_BENCH_TRACES_TORCH_ENTRIES_H_
#define FIRN_BENCH_TRACES_TORCH_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// One entry of a snapshot's trace.
struct TorchTraceEntry {
  bool allocates = false;
  uint32_t number = 0;  // within its device's list
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  // As recorded. Snapshots of older versions carry no times: there every entry
  // takes a microsecond.
  int64_t time_us = 0;
};

// Reads a snapshot out of `data`, the contents of `file`. InvalidArgument
// names the file and the entry.
absl::StatusOr<std::vector<TorchTraceEntry>> ReadTorchSnapshot(
    absl::string_view file, std::string data);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_ENTRIES_H_
