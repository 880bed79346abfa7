// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Base of the generators whose events follow one another at a fixed pace.

#ifndef FIRN_BENCH_TRACES_PACED_SOURCE_H_
#define FIRN_BENCH_TRACES_PACED_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/traces/chunked_source.h"

namespace firn::bench {

// Thread safety: none.
class PacedSource : public ChunkedSource {
 public:
  absl::Status Rewind() override {
    time_us_ = 0;
    return ChunkedSource::Rewind();
  }

 protected:
  PacedSource(absl::string_view name, int64_t us_per_event)
      : ChunkedSource(name), us_per_event_(us_per_event) {}

  BlockRef Take(uint64_t bytes) { return {EmitAllocate(Tick(), bytes), bytes}; }
  void Give(const BlockRef& block) { EmitFree(Tick(), block.id, block.bytes); }
  // Leaves none in `blocks`.
  void GiveInOrder(std::vector<BlockRef>* blocks) {
    for (const BlockRef& block : *blocks) Give(block);
    blocks->clear();
  }
  void Probe() { EmitProbe(Tick()); }

  // When the next event happens.
  int64_t time_us() const { return time_us_; }
  // Idles until then.
  void WaitUntil(int64_t time_us) {
    if (time_us > time_us_) time_us_ = time_us;
  }
  void set_us_per_event(int64_t us) { us_per_event_ = us; }

 private:
  int64_t Tick() {
    const int64_t now_us = time_us_;
    time_us_ += us_per_event_;
    return now_us;
  }

  int64_t us_per_event_;
  int64_t time_us_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_PACED_SOURCE_H_
