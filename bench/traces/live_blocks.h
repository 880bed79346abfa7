// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns the pointers and streams of a recorded trace into the small numbers of
// TraceEvent.

#ifndef FIRN_BENCH_TRACES_LIVE_BLOCKS_H_
#define FIRN_BENCH_TRACES_LIVE_BLOCKS_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "bench/traces/block_ids.h"

namespace firn::bench {

struct LiveBlock {
  uint64_t id = 0;
  uint64_t bytes = 0;
};

// The blocks of a trace that are live, by pointer. Thread safety: none.
class LiveBlocks {
 public:
  // A sum of live blocks beyond this is a damaged trace; below it no policy
  // can overflow when it rounds a size up.
  static constexpr uint64_t kMaxLiveBytes = uint64_t{1} << 62;

  bool Contains(uint64_t pointer) const { return blocks_.contains(pointer); }
  // The new block's id; `pointer` must not be live. InvalidArgument where live
  // memory would pass kMaxLiveBytes.
  absl::StatusOr<uint64_t> Add(uint64_t pointer, uint64_t bytes);
  // Nothing where `pointer` is not live.
  std::optional<LiveBlock> Remove(uint64_t pointer);
  void Clear();

 private:
  absl::flat_hash_map<uint64_t, LiveBlock> blocks_;
  BlockIds ids_;
  uint64_t live_bytes_ = 0;
};

// Numbers handles, such as those of streams or threads, in the order in which
// they are met; the handle 0 (the default stream) is 0. Thread safety: none.
class HandleNumbers {
 public:
  uint32_t NumberOf(uint64_t handle);
  void Clear() { numbers_.clear(); }

 private:
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_LIVE_BLOCKS_H_
