// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the history of a pool and its snapshots say is live.

#ifndef FIRN_TESTS_CORE_PROPERTY_HISTORY_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_HISTORY_ACCOUNT_H_

#include <cstdint>
#include <map>

#include "tests/core/property/account.h"

namespace firn::testing::property {

class HistoryAccount : public Account {
 public:
  // Of the pool's history.
  static constexpr uint32_t kEntries = 1 << 14;

  void Added(const LiveBlock& block) override;
  void Removed(const LiveBlock& block) override;
  // Now and then: a replay ends with what is live, if it begins with nothing;
  // and so does a snapshot, whose blocks leave no gaps.
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;

 private:
  absl::Status CheckHistory(const History& history) const;
  absl::Status CheckSnapshot(const MemorySnapshot& snapshot) const;

  std::map<uint64_t, uint64_t> live_;  // bytes by address
  uint64_t operations_ = 0;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_HISTORY_ACCOUNT_H_
