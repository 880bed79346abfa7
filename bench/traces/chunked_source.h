// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Base of the sources that make events up: a derived class fills one chunk
// after the other (a request, a training step), and Next hands them out.

#ifndef FIRN_BENCH_TRACES_CHUNKED_SOURCE_H_
#define FIRN_BENCH_TRACES_CHUNKED_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/block_ids.h"
#include "bench/traces/trace.h"

namespace firn::bench {

struct BlockRef {
  uint64_t id = 0;
  uint64_t bytes = 0;
};

// Thread safety: none.
class ChunkedSource : public TraceSource {
 public:
  absl::string_view name() const override { return name_; }
  absl::StatusOr<bool> Next(TraceEvent* event) override;
  absl::Status Rewind() override;

 protected:
  explicit ChunkedSource(absl::string_view name) : name_(name) {}

  // Adds events by the calls below, in order of time; false at the end. A
  // chunk may be empty.
  virtual absl::StatusOr<bool> FillChunk() = 0;
  // Puts the derived class back to where it started; all ids are free again.
  virtual absl::Status Restart() = 0;

  uint64_t EmitAllocate(int64_t time_us, uint64_t bytes) {
    const uint64_t id = ids_.Take();
    chunk_.push_back({TraceEventKind::kAllocate, 0, 0, time_us, id, bytes});
    return id;
  }
  void EmitFree(int64_t time_us, uint64_t id, uint64_t bytes) {
    chunk_.push_back({TraceEventKind::kFree, 0, 0, time_us, id, bytes});
    ids_.Return(id);
  }
  void EmitProbe(int64_t time_us) {
    chunk_.push_back({TraceEventKind::kProbe, 0, 0, time_us, 0, 0});
  }
  size_t chunk_events() const { return chunk_.size(); }

 private:
  std::string name_;
  std::vector<TraceEvent> chunk_;
  size_t next_ = 0;  // of chunk_
  BlockIds ids_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_CHUNKED_SOURCE_H_
