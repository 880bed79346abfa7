// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The prefixes that a server keeps for later requests: the allocations of
// requests that ended, in order of last use.

#ifndef FIRN_BENCH_TRACES_RETAINED_PREFIXES_H_
#define FIRN_BENCH_TRACES_RETAINED_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace firn::bench {

// Of keys and values, in whole units (kv_options.h).
struct KvAllocation {
  uint32_t id = 0;
  uint32_t units = 0;
};

struct RetainedPrefix {
  uint32_t model = 0;
  uint64_t bytes = 0;
  std::vector<KvAllocation> allocations;  // in order of the tokens
};

// Thread safety: none.
class RetainedPrefixes {
 public:
  explicit RetainedPrefixes(size_t models) : by_model_(models) {}

  // As the one used last.
  void Add(RetainedPrefix prefix);
  size_t count(uint32_t model) const { return by_model_[model].size(); }
  // Takes out the model's prefix number `pick` (below count(model), in no
  // order that means anything).
  RetainedPrefix Take(uint32_t model, size_t pick);
  // Takes out the one not used for longest. REQUIRES: bytes() > 0.
  RetainedPrefix TakeOldest();
  // Of all prefixes together.
  uint64_t bytes() const { return bytes_; }
  void Clear();

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Slot {
    RetainedPrefix prefix;
    size_t older = kNone;  // slots
    size_t newer = kNone;
    size_t in_model = 0;  // its place in by_model_
  };

  RetainedPrefix Remove(size_t slot);

  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
  std::vector<std::vector<size_t>> by_model_;  // slots
  size_t oldest_ = kNone;
  size_t newest_ = kNone;
  uint64_t bytes_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_RETAINED_PREFIXES_H_
