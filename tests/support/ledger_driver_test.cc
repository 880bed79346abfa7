// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/ledger_driver.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_device.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr DriverResult kSuccess = DriverResult::kSuccess;

class LedgerDriverTest : public ::testing::Test {
 protected:
  void TearDown() override {
    faults_.Reset();
    EXPECT_THAT(ledger_.CleanUp(), IsEmpty());
    EXPECT_TRUE(ledger_.empty()) << ledger_.Describe();
  }

  // A granule mapped at an address of its own.
  void MapOne() {
    const AllocationProp prop = MovableProp(0);
    ASSERT_EQ(ledger_.MemAddressReserve(&address_, bytes_, bytes_, 0, 0),
              kSuccess);
    ASSERT_EQ(ledger_.MemCreate(&handle_, bytes_, &prop, 0), kSuccess);
    ASSERT_EQ(ledger_.MemMap(address_, bytes_, 0, handle_, 0), kSuccess);
  }

  std::unique_ptr<DeviceSet> devices_ = TestDevices();
  const uint64_t bytes_ = devices_->granule_bytes;
  FaultingDriver faults_{devices_->drivers[0].get()};
  LedgerDriver ledger_{&faults_};
  DevicePtr address_ = 0;
  PhysicalHandle handle_ = 0;
};

TEST_F(LedgerDriverTest, ANewLedgerIsEmpty) {
  EXPECT_TRUE(ledger_.empty());
  EXPECT_EQ(ledger_.Describe(), "nothing");
}

TEST_F(LedgerDriverTest, WhatIsMadeIsThereUntilItIsGivenBack) {
  MapOne();
  EXPECT_FALSE(ledger_.empty());
  const auto range =
      absl::StrCat("(0x", absl::Hex(address_), " + ", bytes_, ")");
  EXPECT_EQ(ledger_.Describe(),
            absl::StrCat("1 reservation ", range, ", 1 mapping ", range,
                         ", 1 handle"));
  ASSERT_EQ(ledger_.MemUnmap(address_, bytes_), kSuccess);
  EXPECT_EQ(ledger_.Describe(),
            absl::StrCat("1 reservation ", range, ", 1 handle"));
  ASSERT_EQ(ledger_.MemRelease(handle_), kSuccess);
  ASSERT_EQ(ledger_.MemAddressFree(address_, bytes_), kSuccess);
  EXPECT_TRUE(ledger_.empty()) << ledger_.Describe();
}

TEST_F(LedgerDriverTest, AllocationsAreThereUntilTheyAreFreed) {
  ASSERT_EQ(ledger_.MemAlloc(&address_, 1000), kSuccess);
  EXPECT_EQ(ledger_.Describe(),
            absl::StrCat("1 allocation (0x", absl::Hex(address_), " + 1000)"));
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_NE(ledger_.MemFree(address_), kSuccess);
  EXPECT_FALSE(ledger_.empty());
  ASSERT_EQ(ledger_.MemFree(address_), kSuccess);
  EXPECT_TRUE(ledger_.empty());
  ASSERT_EQ(ledger_.MemAlloc(&address_, 1000), kSuccess);
}

TEST_F(LedgerDriverTest, AReferenceMoreIsAReleaseMore) {
  MapOne();
  PhysicalHandle again = 0;
  const AccessDesc access = ReadWriteAccess(0);
  ASSERT_EQ(ledger_.MemSetAccess(address_, bytes_, &access, 1), kSuccess);
  ASSERT_EQ(ledger_.MemRetainAllocationHandle(&again, address_), kSuccess);
  EXPECT_EQ(again, handle_);
  ASSERT_EQ(ledger_.MemRelease(handle_), kSuccess);
  EXPECT_THAT(ledger_.Describe(), HasSubstr("1 handle"));
  ASSERT_EQ(ledger_.MemRelease(handle_), kSuccess);
  EXPECT_THAT(ledger_.Describe(), Not(HasSubstr("handle")));
}

TEST_F(LedgerDriverTest, StreamsAndEventsAreThereUntilTheyAreDestroyed) {
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  ASSERT_EQ(ledger_.StreamCreate(&stream, kStreamNonBlocking), kSuccess);
  ASSERT_EQ(ledger_.EventCreate(&event, kEventDisableTiming), kSuccess);
  EXPECT_EQ(ledger_.Describe(), "1 stream, 1 event");
  ASSERT_EQ(ledger_.StreamDestroy(stream), kSuccess);
  ASSERT_EQ(ledger_.EventDestroy(event), kSuccess);
  EXPECT_TRUE(ledger_.empty());
}

TEST_F(LedgerDriverTest, WhatTheDriverDoesNotTakeBackIsStillThere) {
  MapOne();
  const std::string before = ledger_.Describe();
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_NE(ledger_.MemUnmap(address_, bytes_), kSuccess);
  EXPECT_EQ(ledger_.Describe(), before);
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_NE(ledger_.MemRelease(handle_), kSuccess);
  EXPECT_EQ(ledger_.Describe(), before);
  faults_.FailNth(0, DriverResult::kUnknown);
  EXPECT_NE(ledger_.MemAddressFree(address_, bytes_), kSuccess);
  EXPECT_EQ(ledger_.Describe(), before);
}

TEST_F(LedgerDriverTest, WhatTheDriverDidNotMakeIsNotThere) {
  faults_.FailFrom(0, DriverResult::kOutOfMemory);
  const AllocationProp prop = MovableProp(0);
  StreamHandle stream = nullptr;
  EXPECT_NE(ledger_.MemAddressReserve(&address_, bytes_, bytes_, 0, 0),
            kSuccess);
  EXPECT_NE(ledger_.MemCreate(&handle_, bytes_, &prop, 0), kSuccess);
  EXPECT_NE(ledger_.StreamCreate(&stream, kStreamNonBlocking), kSuccess);
  EXPECT_TRUE(ledger_.empty());
}

TEST_F(LedgerDriverTest, CleanUpSaysWhichCallsWereRefused) {
  MapOne();
  // The wait for all work, then this.
  faults_.FailNth(1, DriverResult::kIllegalState);
  EXPECT_THAT(ledger_.CleanUp(),
              ::testing::Contains(HasSubstr("cuMemUnmap gave")));
  // The refusals leave it to somebody else.
  EXPECT_TRUE(ledger_.empty());
  EXPECT_EQ(faults_.MemUnmap(address_, bytes_), kSuccess);
  EXPECT_EQ(faults_.MemAddressFree(address_, bytes_), kSuccess);
}

}  // namespace
}  // namespace firn::testing
