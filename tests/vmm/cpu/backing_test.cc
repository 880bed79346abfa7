// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/backing.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/file_size_limit.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

using cpu::StoragePlace;
using ::testing::HasSubstr;

class BackingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backing = cpu::Backing::Create(kMemoryGranule, /*poison=*/false);
    ASSERT_TRUE(backing.ok()) << backing.status();
    backing_ = *std::move(backing);
  }
  cpu::Verdict AllocateFile(uint64_t granules, StoragePlace* place) {
    cpu::SharedMemoryInfo info;
    info.granularity_bytes = kMemoryGranule;
    info.bytes = granules * kMemoryGranule;
    info.prop = ShareablePropAt(Device(0));
    return backing_->AllocateFile(info, place);
  }
  static void ExpectRefused(const cpu::Verdict& verdict) {
    EXPECT_EQ(TestMemory::Check(verdict), DriverResult::kOutOfMemory);
    EXPECT_THAT(verdict.rule, HasSubstr("RLIMIT_FSIZE"));
  }

  std::unique_ptr<cpu::Backing> backing_;
};

TEST_F(BackingTest, StaysBelowTheLimitOfFileSizes) {
  const FileSizeLimit limit(10 * kMemoryGranule + 1000);
  StoragePlace nine;
  StoragePlace place;
  ASSERT_TRUE(backing_->Allocate(9, &nine).ok());
  ExpectRefused(backing_->Allocate(2, &place));
  ASSERT_TRUE(backing_->Allocate(1, &place).ok());
  ExpectRefused(backing_->Allocate(1, &place));
  // A refusal takes nothing.
  backing_->Free(nine, 9);
  ASSERT_TRUE(backing_->Allocate(9, &place).ok());
}

TEST_F(BackingTest, SharedMemoryStaysBelowTheLimitOfFileSizes) {
  const FileSizeLimit limit(10 * kMemoryGranule);
  StoragePlace place;
  // What describes it needs room, too.
  ExpectRefused(AllocateFile(10, &place));
  ASSERT_TRUE(AllocateFile(9, &place).ok());
  backing_->Free(place, 9);
}

TEST_F(BackingTest, GrowsAgainOnceTheLimitIsRaised) {
  StoragePlace place;
  {
    const FileSizeLimit limit(kMemoryGranule);
    ASSERT_TRUE(backing_->Allocate(1, &place).ok());
  }
  EXPECT_TRUE(backing_->Allocate(100, &place).ok());
}

}  // namespace
}  // namespace firn::cpu_testing
