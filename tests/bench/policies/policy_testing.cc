// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/policies/policy_testing.h"

#include <iterator>
#include <map>
#include <random>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn::bench {
namespace {

using ::firn::testing::StatusIs;

// The live blocks, seen from outside.
class ShadowBlocks {
 public:
  explicit ShadowBlocks(uint64_t addresses_end)
      : addresses_end_(addresses_end) {}

  void Add(uint64_t address, uint64_t bytes) {
    const auto [block, is_new] = blocks_.emplace(address, bytes);
    ASSERT_TRUE(is_new) << address;
    live_bytes_ += bytes;
    if (address >= addresses_end_) return;
    if (const auto next = std::next(block); next != blocks_.end()) {
      ASSERT_LE(address + bytes, next->first);
    }
    if (block != blocks_.begin()) {
      const auto previous = std::prev(block);
      ASSERT_LE(previous->first + previous->second, address);
    }
  }
  // Takes one out and gives its address.
  uint64_t Remove(uint64_t number) {
    auto block = blocks_.begin();
    std::advance(block, number);
    const uint64_t address = block->first;
    live_bytes_ -= block->second;
    blocks_.erase(block);
    return address;
  }
  uint64_t count() const { return blocks_.size(); }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  const uint64_t addresses_end_;
  std::map<uint64_t, uint64_t> blocks_;  // bytes by address
  uint64_t live_bytes_ = 0;
};

}  // namespace

void RunRandomBlocks(const RandomBlocks& run, Policy* policy) {
  ShadowBlocks blocks(run.addresses_end);
  uint64_t failed = 0;
  std::mt19937_64 random(run.seed);
  for (int i = 0; i < run.steps; ++i) {
    const auto stream = static_cast<uint32_t>(random() % run.streams);
    if (blocks.count() == 0 || random() % 100 < run.allocate_percent) {
      const uint64_t bytes =
          1 +
          random() % (uint64_t{1} << (random() % (run.most_bytes_log2 + 1)));
      const absl::StatusOr<uint64_t> address = policy->Allocate(bytes, stream);
      if (!address.ok()) {
        ASSERT_THAT(address.status(),
                    StatusIs(absl::StatusCode::kResourceExhausted));
        ++failed;
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(blocks.Add(*address, bytes));
    } else {
      FIRN_ASSERT_OK(
          policy->Free(blocks.Remove(random() % blocks.count()), stream));
    }
    const PolicyUsage usage = policy->usage();
    ASSERT_GE(usage.used_bytes, blocks.live_bytes());
    ASSERT_GE(usage.held_bytes, usage.used_bytes);
    ASSERT_LE(usage.held_bytes, run.capacity_bytes);
  }
  EXPECT_GT(failed, 0u);
  while (blocks.count() > 0) FIRN_ASSERT_OK(policy->Free(blocks.Remove(0), 0));
}

}  // namespace firn::bench
