// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory snapshot that PyTorch writes (torch.cuda.memory._dump_snapshot
// after _record_memory_history), replayed once.
//
// Used are the alloc and free_completed entries of one device: the only one, or
// the one with most of them. All other entries are about the caching allocator
// itself. Sizes are those of the entries; blocks that were live when recording
// began are left out, so a free may be of an unknown address: an event of its
// own kind. An allocation at a live address means that the recorder's ring
// buffer lost the free between: the old block is freed at that moment.
//
// Time starts at 0 with the first entry used. Snapshots of older versions carry
// no times: there every entry takes a microsecond.

#ifndef FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_
#define FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/live_blocks.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// One entry of a snapshot's trace.
struct TorchTraceEntry {
  bool allocates = false;
  uint32_t number = 0;  // within its device's list
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  int64_t time_us = 0;  // as recorded
};

// Reads a snapshot out of `data`, the contents of `file`. InvalidArgument
// names the file and the entry.
absl::StatusOr<std::vector<TorchTraceEntry>> ReadTorchSnapshot(
    absl::string_view file, std::string data);

// Thread safety: none.
class TorchSnapshot : public TraceSource {
 public:
  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

  absl::string_view name() const override { return name_; }
  absl::StatusOr<bool> Next(TraceEvent* event) override;
  absl::Status Rewind() override;

 private:
  TorchSnapshot(const TraceSpec& spec, std::vector<TorchTraceEntry> entries);

  std::string name_;
  std::string path_;
  std::vector<TorchTraceEntry> entries_;
  size_t next_ = 0;  // of entries_
  int64_t time_us_ = 0;
  LiveBlocks live_;
  HandleNumbers streams_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_SNAPSHOT_H_
