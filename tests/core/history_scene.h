// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a history says is live and mapped, for comparison with what is.

#ifndef FIRN_TESTS_CORE_HISTORY_SCENE_H_
#define FIRN_TESTS_CORE_HISTORY_SCENE_H_

#include <cstdint>
#include <map>
#include <set>

#include "firn/core/history.h"
#include "gtest/gtest.h"

namespace firn::testing {

struct ReplayedHistory {
  std::map<uint64_t, uint64_t> live;     // bytes by address
  std::map<uint64_t, uint64_t> pending;  // likewise, freed and not done
  std::map<uint64_t, uint32_t> mapped;   // granule by address
  uint64_t failures = 0;
};

// Expects of a whole history that the events of each block and of each virtual
// granule follow upon each other; of one whose beginning was overwritten, that
// they do so after the first of each.
inline ReplayedHistory Replay(const History& history) {
  ReplayedHistory replayed;
  std::set<uint64_t> seen;
  const bool is_whole = history.overwritten == 0;
  int64_t time_ns = 0;
  for (const HistoryEvent& event : history.events) {
    EXPECT_GE(event.time_ns, time_ns);
    time_ns = event.time_ns;
    switch (event.kind) {
      case HistoryKind::kAllocate:
        EXPECT_TRUE(replayed.live.emplace(event.address, event.bytes).second)
            << "allocated twice: " << event.address;
        replayed.pending.erase(event.address);
        seen.insert(event.address);
        break;
      case HistoryKind::kFree:
      case HistoryKind::kFreeRequested: {
        const auto found = replayed.live.find(event.address);
        if (found != replayed.live.end()) {
          EXPECT_EQ(found->second, event.bytes);
          replayed.live.erase(found);
        } else {
          EXPECT_TRUE(!is_whole && !seen.contains(event.address))
              << "freed, but not live: " << event.address;
        }
        seen.insert(event.address);
        if (event.kind == HistoryKind::kFreeRequested) {
          replayed.pending.emplace(event.address, event.bytes);
        }
        break;
      }
      case HistoryKind::kFreeCompleted:
        EXPECT_TRUE(replayed.pending.erase(event.address) == 1 || !is_whole);
        break;
      case HistoryKind::kAllocateFailure:
        ++replayed.failures;
        break;
      case HistoryKind::kMap:
        EXPECT_TRUE(
            replayed.mapped.emplace(event.address, event.to_granule).second);
        break;
      case HistoryKind::kUnmap:
        EXPECT_TRUE(replayed.mapped.erase(event.address) == 1 || !is_whole);
        break;
      case HistoryKind::kMove:
        if (is_whole) {
          EXPECT_EQ(replayed.mapped[event.address], event.from_granule);
        }
        replayed.mapped[event.address] = event.to_granule;
        break;
      case HistoryKind::kPassBegin:
      case HistoryKind::kPassEnd:
        break;
    }
  }
  return replayed;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_HISTORY_SCENE_H_
