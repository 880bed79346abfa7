// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/held_stream.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "firn/vmm/driver.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"

namespace firn::testing {
namespace {

using ::testing::Each;

class HeldStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FIRN_ASSERT_OK(memory_.table().Apply({MapTo(0, memory_.granule(0))}));
    memory_.Write(0, 1);
  }
  void TearDown() override { EXPECT_TRUE(memory_.CloseLeavesNothing()); }

  Driver* device() { return memory_.device(); }
  uint64_t bytes() const { return memory_.granule_bytes(); }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/1, /*vg_count=*/1};
};

TEST_F(HeldStreamTest, WorkIsInFlightUntilItIsReleased) {
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), 0x77),
            DriverResult::kSuccess);
  EXPECT_EQ(device()->StreamQuery(held.stream()), DriverResult::kNotReady);
  EXPECT_EQ(memory_.Read(0), memory_.Pattern(1));
  EXPECT_EQ(device()->StreamQuery(held.stream()), DriverResult::kNotReady);
  held.Release();
  EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
  EXPECT_EQ(device()->StreamQuery(held.stream()), DriverResult::kSuccess);
  EXPECT_THAT(memory_.Read(0), Each(0x77777777u));
}

TEST_F(HeldStreamTest, WithoutHoldNothingIsHeld) {
  HeldStream held(device());
  ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), 0x11),
            DriverResult::kSuccess);
  EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
  EXPECT_THAT(memory_.Read(0), Each(0x11111111u));
}

TEST_F(HeldStreamTest, AStreamIsHeldAgainAfterItsRelease) {
  HeldStream held(device());
  for (const uint8_t value : {1, 2, 3}) {
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), value),
              DriverResult::kSuccess);
    EXPECT_EQ(device()->StreamQuery(held.stream()), DriverResult::kNotReady);
    held.Release();
    EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
    EXPECT_THAT(memory_.Read(0), Each(value * 0x01010101u));
  }
}

TEST_F(HeldStreamTest, OneReleaseEndsAllThatIsHeld) {
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes()), DriverResult::kSuccess);
  held.Release();
  EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
}

TEST_F(HeldStreamTest, AnotherThreadMayReleaseWhatThisOneWaitsFor) {
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), 0x22),
            DriverResult::kSuccess);
  std::thread releaser([&held] { held.Release(); });
  EXPECT_EQ(held.Wait(), DriverResult::kSuccess);
  releaser.join();
  EXPECT_THAT(memory_.Read(0), Each(0x22222222u));
}

TEST_F(HeldStreamTest, TheEndOfTheObjectIsTheEndOfItsWork) {
  {
    HeldStream held(device());
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), 0x33),
              DriverResult::kSuccess);
  }
  EXPECT_THAT(memory_.Read(0), Each(0x33333333u));
}

TEST_F(HeldStreamTest, WorkOutlivesItsStream) {
  {
    HeldStream held(device());
    ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
    ASSERT_EQ(held.Touch(memory_.AddressOf(0), bytes(), 0x44),
              DriverResult::kSuccess);
    ASSERT_EQ(held.DestroyStream(), DriverResult::kSuccess);
    EXPECT_EQ(held.stream(), nullptr);
    EXPECT_EQ(memory_.Read(0), memory_.Pattern(1));
  }
  EXPECT_THAT(memory_.Read(0), Each(0x44444444u));
}

TEST_F(HeldStreamTest, ALostDeviceIsNotWaitedFor) {
  FaultingDriver faults(device());
  std::optional<HeldStream> held(&faults);
  ASSERT_EQ(held->Hold(), DriverResult::kSuccess);
  const StreamHandle stream = held->stream();
  faults.FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_EQ(held->Hold(), DriverResult::kIllegalAddress);
  EXPECT_EQ(held->Touch(memory_.AddressOf(0), bytes()),
            DriverResult::kIllegalAddress);
  EXPECT_EQ(held->Wait(), DriverResult::kIllegalAddress);
  held.reset();
  EXPECT_EQ(device()->StreamSynchronize(stream), DriverResult::kSuccess);
  EXPECT_EQ(device()->StreamDestroy(stream), DriverResult::kSuccess);
}

}  // namespace
}  // namespace firn::testing
