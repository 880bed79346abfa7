// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The fuzzer's entry by itself, with bytes that nobody has chosen well: it
// compiles, takes anything, and finds nothing.

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/operation.h"
#include "tests/core/property/setting.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

namespace firn::testing::property {
namespace {

int Feed(const std::vector<uint8_t>& bytes) {
  return LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

TEST(PoolFuzzTest, TakesNothingAndTheSameByteOverAndOver) {
  EXPECT_EQ(Feed({}), 0);
  for (const unsigned value : {0x00u, 0x01u, 0x55u, 0x7fu, 0x80u, 0xffu}) {
    for (const size_t length : {1u, 2u, 64u, 1500u}) {
      const auto byte = static_cast<uint8_t>(value);
      EXPECT_EQ(Feed(std::vector<uint8_t>(length, byte)), 0);
    }
  }
}

TEST(PoolFuzzTest, TakesCountingBytes) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < 4096; ++i) {
    bytes.push_back(static_cast<uint8_t>(i * 7 + i / 256));
  }
  EXPECT_EQ(Feed(bytes), 0);
}

TEST(PoolFuzzTest, TakesRandomBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    std::vector<uint8_t> bytes(random() % 2000);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    ASSERT_EQ(Feed(bytes), 0) << "string " << i;
  }
}

// Whatever two bytes decide which operation it is; the rest of it is zero.
TEST(PoolFuzzTest, BytesReachEveryOperation) {
  std::set<size_t> reached;
  for (unsigned value = 0; value < 65536; ++value) {
    const uint8_t bytes[] = {static_cast<uint8_t>(value >> 8),
                             static_cast<uint8_t>(value)};
    ByteChoices choices(bytes);
    reached.insert(DrawOperation(choices, Setting(), Phase::kChurn).index());
  }
  EXPECT_EQ(reached.size(), std::variant_size_v<Operation>);
}

TEST(ByteChoicesTest, TakesAsManyBytesAsABoundNeeds) {
  const uint8_t bytes[] = {7, 1, 2, 9};
  ByteChoices choices(bytes);
  EXPECT_EQ(choices.Below(1), 0u);
  EXPECT_EQ(choices.Below(256), 7u);
  EXPECT_EQ(choices.Below(65536), 0x102u);
  EXPECT_EQ(choices.Below(5), 4u);
  EXPECT_TRUE(choices.empty());
  EXPECT_EQ(choices.Below(5), 0u);
  EXPECT_EQ(choices.Between(3, 9), 3u);
}

}  // namespace
}  // namespace firn::testing::property
