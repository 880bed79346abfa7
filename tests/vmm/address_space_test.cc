// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/address_space.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
  StingyDriver(Driver* base, uint64_t most_granules)
      : DriverWrapper(base), most_granules_(most_granules) {}

  DriverResult MemAddressReserve(DevicePtr* address, size_t bytes,
                                 size_t alignment_bytes, DevicePtr hint,
                                 uint64_t flags) override {
    asked_granules_.push_back(bytes / kTestGranuleBytes);
    if (bytes > most_granules_ * kTestGranuleBytes) {
      return DriverResult::kOutOfMemory;
    }
    return DriverWrapper::MemAddressReserve(address, bytes, alignment_bytes,
                                            hint, flags);
  }
  const std::vector<uint64_t>& asked_granules() const {
    return asked_granules_;
  }

 private:
  const uint64_t most_granules_;
  std::vector<uint64_t> asked_granules_;
};

class AddressSpaceTest : public ::testing::Test {
 protected:
  std::unique_ptr<CpuDriver> device_ = MakeTestDevice(CpuStorage::kGhost, 1);
};

TEST_F(AddressSpaceTest, ReservesWhatIsAskedForAlignedToTheGranule) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(device_.get(), kTestGranuleBytes, 12, 1));
  EXPECT_EQ(space->vg_count(), 12u);
  EXPECT_EQ(space->granule_bytes(), kTestGranuleBytes);
  EXPECT_NE(space->base(), 0u);
  EXPECT_EQ(space->base() % kTestGranuleBytes, 0u);
  EXPECT_EQ(space->free().vg_count(), 12u);
  EXPECT_EQ(space->free().range_count(), 1u);
}

TEST_F(AddressSpaceTest, GranulesLargerThanTheDevicesAreAlignedToo) {
  constexpr uint64_t kLarge = uint64_t{4} << 20;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto space,
                            AddressSpace::Reserve(device_.get(), kLarge, 3, 3));
  EXPECT_EQ(space->base() % kLarge, 0u);
  EXPECT_THAT(space->VgOf(space->base() + 3 * kLarge - 1),
              Optional(VgIndex(2)));
}

TEST_F(AddressSpaceTest, AskForHalfUntilTheDriverGrantsIt) {
  StingyDriver driver(device_.get(), 30);
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&driver, kTestGranuleBytes, 100, 10));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 25));
  EXPECT_EQ(space->vg_count(), 25u);
  EXPECT_EQ(space->free().vg_count(), 25u);
}

TEST_F(AddressSpaceTest, TheLastTryIsTheLeastThatWillDo) {
  StingyDriver driver(device_.get(), 40);
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(&driver, kTestGranuleBytes, 100, 40));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 40));
  EXPECT_EQ(space->vg_count(), 40u);
}

TEST_F(AddressSpaceTest, RefusalOfTheLeastIsReturned) {
  StingyDriver driver(device_.get(), 39);
  EXPECT_THAT(AddressSpace::Reserve(&driver, kTestGranuleBytes, 100, 40),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cuMemAddressReserve")));
  EXPECT_THAT(driver.asked_granules(), ElementsAre(100, 50, 40));
}

TEST_F(AddressSpaceTest, OtherRefusalsAreReturnedAtOnce) {
  FaultingDriver driver(device_.get());
  driver.FailFrom(0, DriverResult::kNotPermitted);
  EXPECT_THAT(AddressSpace::Reserve(&driver, kTestGranuleBytes, 100, 1),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(driver.calls(), 1u);
}

TEST_F(AddressSpaceTest, EveryAddressBelongsToTheGranuleThatItLiesIn) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(device_.get(), kTestGranuleBytes, 5, 5));
  EXPECT_EQ(space->AddressOf(VgIndex(0)), space->base());
  for (uint32_t i = 0; i < 5; ++i) {
    const DevicePtr address = space->AddressOf(VgIndex(i));
    EXPECT_EQ(address, space->base() + i * kTestGranuleBytes);
    EXPECT_THAT(space->VgOf(address), Optional(VgIndex(i)));
    EXPECT_THAT(space->VgOf(address + kTestGranuleBytes - 1),
                Optional(VgIndex(i)));
  }
  EXPECT_EQ(space->VgOf(space->base() - 1), std::nullopt);
  EXPECT_EQ(space->VgOf(space->base() + 5 * kTestGranuleBytes), std::nullopt);
  EXPECT_EQ(space->VgOf(0), std::nullopt);
  EXPECT_EQ(space->VgOf(~DevicePtr{0}), std::nullopt);
}

// More than 4 GiB of addresses: products of 32-bit counts would wrap.
TEST_F(AddressSpaceTest, LargeReservationsCountBytesIn64Bits) {
  constexpr uint32_t kCount = 1u << 18;  // 16 GiB
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(device_.get(), kTestGranuleBytes, kCount, kCount));
  const DevicePtr last = space->AddressOf(VgIndex(kCount - 1));
  EXPECT_EQ(last - space->base(), (uint64_t{16} << 30) - kTestGranuleBytes);
  EXPECT_THAT(space->VgOf(last), Optional(VgIndex(kCount - 1)));
}

TEST_F(AddressSpaceTest, TakenRangesAreFreeAgainWhenGiven) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(device_.get(), kTestGranuleBytes, 10, 10));
  space->Take(Vgs(2, 3));
  EXPECT_EQ(space->free().vg_count(), 7u);
  EXPECT_EQ(space->free().Find(VgIndex(2)), std::nullopt);
  space->Give(Vgs(2, 3));
  EXPECT_THAT(space->free().Find(VgIndex(2)), Optional(Eq(Vgs(0, 10))));
}

TEST_F(AddressSpaceTest, TakeHighestTakesFromTheTopUntilNothingIsLeft) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      const auto space,
      AddressSpace::Reserve(device_.get(), kTestGranuleBytes, 4, 4));
  space->Take(Vgs(2, 1));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(3)));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(1)));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(0)));
  EXPECT_EQ(space->TakeHighest(), std::nullopt);
  space->Give(Vgs(2, 1));
  EXPECT_THAT(space->TakeHighest(), Optional(VgIndex(2)));
}

TEST_F(AddressSpaceTest, TheReservationEndsWithTheObject) {
  DevicePtr base = 0;
  {
    FIRN_ASSERT_OK_AND_ASSIGN(
        const auto space,
        AddressSpace::Reserve(device_.get(), kTestGranuleBytes, 4, 4));
    base = space->base();
  }
  EXPECT_NE(device_->MemAddressFree(base, 4 * kTestGranuleBytes),
            DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn::testing
