// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers for live blocks: small, used again once returned.

#ifndef FIRN_BENCH_TRACES_BLOCK_IDS_H_
#define FIRN_BENCH_TRACES_BLOCK_IDS_H_

#include <cstdint>
#include <vector>

namespace firn::bench {

// Thread safety: none.
class BlockIds {
 public:
  // The number returned last, else the least never given out.
  uint64_t Take() {
    if (returned_.empty()) return next_++;
    const uint64_t id = returned_.back();
    returned_.pop_back();
    return id;
  }
  void Return(uint64_t id) { returned_.push_back(id); }
  void Clear() {
    returned_.clear();
    next_ = 0;
  }

 private:
  std::vector<uint64_t> returned_;
  uint64_t next_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_BLOCK_IDS_H_
