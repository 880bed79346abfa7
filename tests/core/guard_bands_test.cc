// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/guard_bands.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "firn/core/debug_books.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

TEST(FindDamageTest, IsNoneWhereAllBytesAreThePattern) {
  for (const size_t size : {0u, 1u, 2u, 1000u}) {
    EXPECT_EQ(FindDamage(std::vector<uint8_t>(size, 7), 7), std::nullopt);
  }
}

TEST(FindDamageTest, NamesTheFirstAndTheLastAndCounts) {
  std::vector<uint8_t> bytes(1000, 7);
  bytes[0] = 1;
  std::optional<Damage> damage = FindDamage(bytes, 7);
  ASSERT_TRUE(damage.has_value());
  EXPECT_EQ(damage->first, 0u);
  EXPECT_EQ(damage->last, 0u);
  EXPECT_EQ(damage->bytes, 1u);
  EXPECT_EQ(damage->found, 1);
  bytes[0] = 7;
  bytes[500] = 2;
  bytes[999] = 3;
  damage = FindDamage(bytes, 7);
  ASSERT_TRUE(damage.has_value());
  EXPECT_EQ(damage->first, 500u);
  EXPECT_EQ(damage->last, 999u);
  EXPECT_EQ(damage->bytes, 2u);
  EXPECT_EQ(damage->found, 2);
  // All bytes alike, but not the pattern.
  damage = FindDamage(std::vector<uint8_t>(9, 8), 7);
  ASSERT_TRUE(damage.has_value());
  EXPECT_EQ(damage->bytes, 9u);
}

TEST(GuardBandsTest, FindsWhatDiffersInMoreThanOnePiece) {
  CpuDriverOptions options;
  options.device_bytes = uint64_t{16} << 20;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(options));
  constexpr uint64_t kBytes = (uint64_t{3} << 20) + 5;
  DevicePtr address = 0;
  ASSERT_EQ(cpu->MemAlloc(&address, kBytes), DriverResult::kSuccess);
  {
    FIRN_ASSERT_OK_AND_ASSIGN(auto bands, GuardBands::Create(cpu.get()));
    FIRN_ASSERT_OK(bands->Fill(address, kGuardPattern, kBytes));
    FIRN_ASSERT_OK(bands->Fill(address, 0, 0));
    FIRN_ASSERT_OK(bands->Finish());
    FIRN_ASSERT_OK_AND_ASSIGN(auto damage,
                              bands->Find(address, kGuardPattern, kBytes));
    EXPECT_EQ(damage, std::nullopt);
    auto* const bytes =
        reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address));
    bytes[10] = 1;
    bytes[kBytes - 1] = 2;
    FIRN_ASSERT_OK_AND_ASSIGN(damage,
                              bands->Find(address, kGuardPattern, kBytes));
    ASSERT_TRUE(damage.has_value());
    EXPECT_EQ(damage->first, 10u);
    EXPECT_EQ(damage->last, kBytes - 1);
    EXPECT_EQ(damage->bytes, 2u);
    EXPECT_EQ(damage->found, 1);
  }
  EXPECT_EQ(cpu->MemFree(address), DriverResult::kSuccess);
}

TEST(DebugBooksTest, FindABlockByAnyAddressOfIt) {
  DebugBooks books;
  EXPECT_EQ(books.Find(1000), nullptr);
  DebugBlock block;
  block.start = 1000;
  block.held_bytes = 300;
  block.address = 1100;
  block.bytes = 100;
  DebugBlock* const first = books.Add(block);
  block.start = 1300;
  block.address = 1400;
  DebugBlock* const second = books.Add(block);
  EXPECT_EQ(books.Find(999), nullptr);
  EXPECT_EQ(books.Find(1000), first);
  EXPECT_EQ(books.Find(1299), first);
  EXPECT_EQ(books.Find(1300), second);
  EXPECT_EQ(books.Find(1600), nullptr);
  EXPECT_EQ(books.totals().live_guard_bytes, 400u);
  books.SetFreed(first);
  FIRN_EXPECT_OK(books.CheckInvariants());
  books.SetFreed(second);
  books.SetQuarantined(second);
  FIRN_EXPECT_OK(books.CheckInvariants());
  EXPECT_EQ(books.Freed().size(), 1u);
  EXPECT_EQ(books.totals().freed_bytes, 200u);
  EXPECT_EQ(books.totals().quarantined_held_bytes, 300u);
  books.Remove(second);
  books.Remove(first);
  FIRN_EXPECT_OK(books.CheckInvariants());
  EXPECT_EQ(books.totals().freed_blocks, 0u);
}

}  // namespace
}  // namespace firn
