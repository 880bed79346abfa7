// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool must say and hold, kept beside it.

#ifndef FIRN_TESTS_CORE_PROPERTY_SHADOW_H_
#define FIRN_TESTS_CORE_PROPERTY_SHADOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/domain.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"
#include "tests/support/filled_blocks.h"

namespace firn::testing::property {

struct LiveBlock {
  FilledBlock content;
  // Where its last use is queued.
  StreamHandle stream = nullptr;
  uint64_t generation = 0;
  Tag tag = Tag::kUntagged;
  DomainId domain = DomainId::kDefault;
  MemoryClass memory_class = MemoryClass::kMovable;
  // Others may hold on to its granules.
  bool is_exported = false;
};

// Counters of PoolStats that follow from the calls made.
struct ExpectedFigures {
  uint64_t live_bytes = 0;
  uint64_t live_allocations = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t failed_allocations = 0;
  uint64_t refused_frees = 0;
};

// What of the statistics differs, as "name: value -> value"; empty if nothing.
std::string Difference(const PoolStats& before, const PoolStats& after);

class Shadow {
 public:
  // Internal: it overlaps a block that lives.
  absl::Status Add(const LiveBlock& block);
  void Remove(size_t index);

  std::vector<LiveBlock>& blocks() { return blocks_; }
  const std::vector<LiveBlock>& blocks() const { return blocks_; }
  // The live block that starts at the address, or nullptr.
  LiveBlock* Find(const void* ptr);
  // Addresses freed lately, the latest last; they may live again.
  const std::deque<void*>& freed() const { return freed_; }
  // A pattern that no block has had.
  uint64_t NextSeed() { return ++last_seed_; }
  std::vector<FilledBlock> Contents() const;

  void CountFailedAllocation() { ++expected_.failed_allocations; }
  void CountRefusedFree() { ++expected_.refused_frees; }
  const ExpectedFigures& expected() const { return expected_; }

  // Compares `stats` with what is expected, with themselves and with what they
  // were when this was called last.
  absl::Status CheckFigures(const PoolStats& stats);

 private:
  std::vector<LiveBlock> blocks_;
  std::map<uintptr_t, size_t> by_address_;  // index into blocks_
  std::deque<void*> freed_;
  uint64_t last_seed_ = 0;
  ExpectedFigures expected_;
  PoolStats last_stats_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_SHADOW_H_
