// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/address_space.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "firn/vmm/driver.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

// Grants at most so many granules, and notes what it is asked for.
class StingyDriver : public DriverWrapper {
 public:
  StingyDriver(Driver* base, uint64_t granule_bytes, uint64_t most_granules)
      : DriverWrapper(base),
        granule_bytes_(granule_bytes),
        most_granules_(most_granules) {}

  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    asked_granules_.push_back(bytes / granule_bytes_);
    if (bytes > most_granules_ * granule_bytes_) {
      return DriverResult::kOutOfMemory;
    }
    return DriverWrapper::MemAddressReserve(address, bytes, alignment_bytes,
                                            hint, flags);
  }
  const std::vector<uint64_t>& asked_granules() const {
    return asked_granules_;
  }

 private:
  const uint64_t granule_bytes_;
  const uint64_t most_granules_;
  std::vector<uint64_t> asked_granules_;
};

class AddressSpaceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(device_.empty()) << "left: " << device_.Describe();
  }

  const std::unique_ptr<DeviceSet> devices_ = TestDevices();
  const uint64_t granule_bytes_ = devices_->granule_bytes;
  LedgerDriver device_{devices_->drivers[0].get()};
};

TEST_F(AddressSpaceTest, ReservesWhatIsAskedForAlignedToTheGranule) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space, AddressSpace::Reserve(&device_, granule_bytes_, 12, 1));
  EXPECT_EQ(space->vg_count(), 12u);
  EXPECT_EQ(space->granule_bytes(), granule_bytes_);
  EXPECT_NE(space->base(), 0u);
  EXPECT_EQ(space->base() % granule_bytes_, 0u);
  EXPECT_EQ(space->free().vg_count(), 12u);
  EXPECT_EQ(space->free().range_count(), 1u);
}

TEST_F(AddressSpaceTest, GranulesLargerThanTheDevicesAreAlignedToo) {
  constexpr uint64_t kLarge = uint64_t{4} << 20;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto space,
                            AddressSpace::Reserve(&device_, kLarge, 3, 3));
  EXPECT_EQ(space->base() % kLarge, 0u);
  EXPECT_THAT(space->VgOf(space->base() + 3 * kLarge - 1),
              Optional(VgIndex(2)));
}

TEST_F(AddressSpaceTest, AskForHalfUntilTheDriverGrantsIt) {
  StingyDriver driver(&device_, granule_bytes_, 30);
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&driver, granule_bytes_, 100, 10));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 25));
  EXPECT_EQ(space->vg_count(), 25u);
  EXPECT_EQ(space->free().vg_count(), 25u);
}

TEST_F(AddressSpaceTest, TheLastTryIsTheLeastThatWillDo) {
  StingyDriver driver(&device_, granule_bytes_, 40);
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&driver, granule_bytes_, 100, 40));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 40));
  EXPECT_EQ(space->vg_count(), 40u);
}

TEST_F(AddressSpaceTest, RefusalOfTheLeastIsReturned) {
  StingyDriver driver(&device_, granule_bytes_, 39);
  EXPECT_THAT(AddressSpace::Reserve(&driver, granule_bytes_, 100, 40),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cuMemAddressReserve")));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 40));
}

TEST_F(AddressSpaceTest, OtherRefusalsAreReturnedAtOnce) {
  FaultingDriver driver(&device_);
  driver.FailFrom(0, DriverResult::kNotPermitted);
  EXPECT_THAT(AddressSpace::Reserve(&driver, granule_bytes_, 100, 1),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(driver.calls(), 1u);
}

TEST_F(AddressSpaceTest, EveryAddressBelongsToTheGranuleThatItLiesIn) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space, AddressSpace::Reserve(&device_, granule_bytes_, 5, 5));
  EXPECT_EQ(space->AddressOf(VgIndex(0)), space->base());
  for (uint32_t i = 0; i < 5; ++i) {
    const DevicePtr address = space->AddressOf(VgIndex(i));
    EXPECT_EQ(address, space->base() + i * granule_bytes_);
    EXPECT_THAT(space->VgOf(address), Optional(VgIndex(i)));
    EXPECT_THAT(space->VgOf(address + granule_bytes_ - 1),
                Optional(VgIndex(i)));
  }
  EXPECT_EQ(space->VgOf(space->base() - 1), std::nullopt);
  EXPECT_EQ(space->VgOf(space->base() + 5 * granule_bytes_), std::nullopt);
  EXPECT_EQ(space->VgOf(0), std::nullopt);
  EXPECT_EQ(space->VgOf(~DevicePtr{0}), std::nullopt);
}

// More than 4 GiB of addresses: products of 32-bit counts would wrap.
TEST_F(AddressSpaceTest, LargeReservationsCountBytesIn64Bits) {
  constexpr uint64_t kBytes = uint64_t{16} << 30;
  const auto count = static_cast<uint32_t>(kBytes / granule_bytes_);
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&device_, granule_bytes_, count, count));
  const DevicePtr last = space->AddressOf(VgIndex(count - 1));
  EXPECT_EQ(last - space->base(), kBytes - granule_bytes_);
  EXPECT_THAT(space->VgOf(last), Optional(VgIndex(count - 1)));
}

TEST_F(AddressSpaceTest, TakenRangesAreFreeAgainWhenGiven) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&device_, granule_bytes_, 10, 10));
  space->Take(Vgs(2, 3));
  EXPECT_EQ(space->free().vg_count(), 7u);
  EXPECT_EQ(space->free().Find(VgIndex(2)), std::nullopt);
  space->Give(Vgs(2, 3));
  EXPECT_THAT(space->free().Find(VgIndex(2)), Optional(Eq(Vgs(0, 10))));
}

TEST_F(AddressSpaceTest, TakeHighestTakesFromTheTopUntilNothingIsLeft) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space, AddressSpace::Reserve(&device_, granule_bytes_, 4, 4));
  space->Take(Vgs(2, 1));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(3)));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(1)));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(0)));
  EXPECT_EQ(space->TakeHighest(), std::nullopt);
  space->Give(Vgs(2, 1));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(2)));
}

TEST_F(AddressSpaceTest, TheReservationEndsWithTheObject) {
  {
    FIRN_ASSERT_OK_AND_ASSIGN(
        const auto space,
        AddressSpace::Reserve(&device_, granule_bytes_, 4, 4));
    EXPECT_FALSE(device_.empty());
  }
  EXPECT_TRUE(device_.empty()) << "left: " << device_.Describe();
}

}  // namespace
}  // namespace firn::testing
