// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/idle_share.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/small_random.h"

namespace firn::bench {
namespace {

// Applies what the share wants to `idle`; returns how many blocks it took.
int Settle(IdleShare* share, std::set<uint64_t>* idle) {
  int changes = 0;
  while (const std::optional<IdleShare::Change> change = share->Next()) {
    ++changes;
    if (change->is_idle) {
      EXPECT_TRUE(idle->insert(change->address).second);
    } else {
      EXPECT_EQ(idle->erase(change->address), 1u);
    }
  }
  return changes;
}

TEST(IdleShareTest, TheOldestBlocksAreIdle) {
  IdleShare share(0.5);
  std::set<uint64_t> idle;
  for (const uint64_t address : std::vector<uint64_t>{70, 20, 90, 40, 50}) {
    share.Add(address);
    Settle(&share, &idle);
  }
  EXPECT_EQ(idle, (std::set<uint64_t>{70, 20}));
  EXPECT_EQ(share.idle_blocks(), 2u);
}

TEST(IdleShareTest, WhereAnIdleBlockIsFreedTheNextOldestFollows) {
  IdleShare share(0.5);
  std::set<uint64_t> idle;
  for (const uint64_t address : std::vector<uint64_t>{1, 2, 3, 4, 5})
    share.Add(address);
  Settle(&share, &idle);
  share.Remove(1);
  idle.erase(1);
  Settle(&share, &idle);
  EXPECT_EQ(idle, (std::set<uint64_t>{2, 3}));
}

TEST(IdleShareTest, WhereAnActiveBlockIsFreedTheYoungestIdleOneIsInUseAgain) {
  IdleShare share(0.5);
  std::set<uint64_t> idle;
  for (const uint64_t address : std::vector<uint64_t>{1, 2, 3, 4})
    share.Add(address);
  Settle(&share, &idle);
  share.Remove(4);
  const std::optional<IdleShare::Change> change = share.Next();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->address, 2u);
  EXPECT_FALSE(change->is_idle);
  EXPECT_FALSE(share.Next().has_value());
}

TEST(IdleShareTest, NoneOrAllOfThem) {
  IdleShare none(0);
  IdleShare all(1);
  std::set<uint64_t> idle;
  for (const uint64_t address : std::vector<uint64_t>{1, 2, 3}) {
    none.Add(address);
    all.Add(address);
    EXPECT_FALSE(none.Next().has_value());
    EXPECT_EQ(Settle(&all, &idle), 1);
  }
  all.Remove(3);
  EXPECT_FALSE(all.Next().has_value());
}

TEST(IdleShareTest, UnknownBlocksAreNoMatter) {
  IdleShare share(1);
  share.Remove(7);
  EXPECT_FALSE(share.Next().has_value());
}

TEST(IdleShareTest, OneBlockAtMostChangesSidesPerEvent) {
  for (const double fraction : {0.05, 0.35, 0.75, 0.999}) {
    IdleShare share(fraction);
    std::set<uint64_t> idle;
    std::vector<uint64_t> live;  // oldest first
    testing::SmallRandom random(17);
    for (uint64_t event = 0; event < 3000; ++event) {
      if (live.empty() || random.Below(100) < (event < 1500 ? 60u : 40u)) {
        live.push_back(event % 64 == 0 ? 1'000'000 + event : event);
        share.Add(live.back());
      } else {
        const auto freed =
            live.begin() + static_cast<std::ptrdiff_t>(random.Below(
                               static_cast<uint32_t>(live.size())));
        share.Remove(*freed);
        idle.erase(*freed);
        live.erase(freed);
      }
      EXPECT_LE(Settle(&share, &idle), 1);
      const auto wanted = static_cast<std::ptrdiff_t>(
          fraction * static_cast<double>(live.size()));
      ASSERT_EQ(idle, std::set<uint64_t>(live.begin(), live.begin() + wanted))
          << "after event " << event;
    }
  }
}

}  // namespace
}  // namespace firn::bench
