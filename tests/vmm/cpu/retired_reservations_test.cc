// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What becomes of addresses that are given back while devices work.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "firn/vmm/cpu/real_storage.h"
#include "firn/vmm/cpu/work_in_flight.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"
#include "tests/vmm/cpu/stream_scene.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

using cpu::RealStorage;

int64_t BudgetUsed() { return cpu::KernelMappingBudget::OfProcess().used(); }

// A storage that is told how far the work is.
class RetiredReservationsTest : public ::testing::Test {
 protected:
  RetiredReservationsTest() {
    auto backing = cpu::Backing::Create(kMemoryGranule, /*poison=*/false);
    EXPECT_TRUE(backing.ok()) << backing.status();
    storage_ = std::make_unique<RealStorage>(
        kMemoryGranule, *std::move(backing), &guard_, [this] { return work_; });
  }

  DevicePtr Reserve(uint64_t granules, DevicePtr hint = 0,
                    uint64_t alignment_bytes = kMemoryGranule) {
    DevicePtr address = 0;
    cpu::StorageRegion* region = nullptr;
    EXPECT_TRUE(storage_
                    ->Reserve(granules * kMemoryGranule, alignment_bytes, hint,
                              &address, &region)
                    .ok());
    EXPECT_NE(region, nullptr);
    return address;
  }
  void Unreserve(DevicePtr address, uint64_t granules) {
    storage_->Unreserve(address, granules * kMemoryGranule);
  }
  // Retires as many as are kept, one granule each.
  void RetireMany() {
    DevicePtr addresses[RealStorage::kKeptReservations];
    for (DevicePtr& address : addresses) address = Reserve(1);
    for (const DevicePtr address : addresses) Unreserve(address, 1);
  }
  static bool IsKept(DevicePtr address) {
    return KernelMappingsIn(address, kMemoryGranule) != 0;
  }

  cpu::FaultGuard guard_;
  cpu::WorkInFlight work_;
  std::unique_ptr<RealStorage> storage_;
};

TEST_F(RetiredReservationsTest, IdleDevicesGiveAddressesBackAtOnce) {
  work_ = {7, 7};
  const DevicePtr address = Reserve(2);
  Unreserve(address, 2);
  EXPECT_FALSE(IsKept(address));
}

TEST_F(RetiredReservationsTest, TheyAreKeptUntilTheWorkQueuedBeforeIsOver) {
  work_ = {8, 7};
  const DevicePtr first = Reserve(2);
  const DevicePtr second = Reserve(2);
  Unreserve(first, 2);
  work_ = {20, 7};
  Unreserve(second, 2);
  EXPECT_TRUE(IsKept(first));
  // There is always some work. (Large, so that nothing comes where they were.)
  work_ = {30, 19};
  Reserve(1000);
  EXPECT_FALSE(IsKept(first));
  EXPECT_TRUE(IsKept(second));
  work_ = {40, 20};
  Reserve(1000);
  EXPECT_FALSE(IsKept(second));
}

TEST_F(RetiredReservationsTest, FewAreNotUsedAgain) {
  work_ = {1, 0};
  const DevicePtr address = Reserve(1);
  Unreserve(address, 1);
  EXPECT_NE(Reserve(1), address);
  EXPECT_NE(Reserve(1, address), address);
}

TEST_F(RetiredReservationsTest, ManyAreUsedAgainAndCostNoMore) {
  work_ = {1, 0};
  RetireMany();
  const int64_t used = BudgetUsed();
  for (int i = 0; i < 1000; ++i) Unreserve(Reserve(1), 1);
  EXPECT_EQ(BudgetUsed(), used);
}

TEST_F(RetiredReservationsTest, TheOneUsedAgainIsLargeAndAlignedEnough) {
  work_ = {1, 0};
  RetireMany();
  const DevicePtr large = Reserve(100);
  const DevicePtr aligned = Reserve(3, 0, uint64_t{1} << 30);
  const DevicePtr odd = Reserve(3);
  ASSERT_NE(odd % (uint64_t{1} << 30), 0u);
  Unreserve(large, 100);
  Unreserve(aligned, 3);
  Unreserve(odd, 3);
  EXPECT_EQ(Reserve(50), large);
  const DevicePtr fresh = Reserve(101);
  EXPECT_NE(fresh, large);
  EXPECT_EQ(Reserve(2, 0, uint64_t{1} << 30), aligned);
  EXPECT_EQ(Reserve(2), odd);
  // Given back, it is as large as it was.
  Unreserve(large, 50);
  EXPECT_EQ(Reserve(90), large);
}

TEST_F(RetiredReservationsTest, AHintIsFollowedAmongThem) {
  work_ = {1, 0};
  const DevicePtr address = Reserve(1);
  RetireMany();
  Unreserve(address, 1);
  EXPECT_EQ(Reserve(1, address), address);
}

TEST_F(RetiredReservationsTest, MemoryMappedWhereTheyWereIsReached) {
  work_ = {1, 0};
  RetireMany();
  DevicePtr address = 0;
  cpu::AccessRun run;
  ASSERT_TRUE(
      storage_
          ->Reserve(kMemoryGranule, kMemoryGranule, 0, &address, &run.region)
          .ok());
  ASSERT_TRUE(storage_->Allocate(1, &run.place).ok());
  run.granules = 1;
  run.mappings = 1;
  run.after = AccessFlags::kReadWrite;
  ASSERT_TRUE(storage_->SetAccess(run).ok());
  ByteAt(address) = 5;
  EXPECT_EQ(ByteAt(address), 5);
}

TEST(RetiredReservationsOfADeviceTest, AStreamThatWaitsDoesNotUseUpAddresses) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr flag = device.NewMemory();
  device.Write(flag, {0, 0, 0, 0});
  StreamHandle stream = nullptr;
  ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(device->StreamWaitValue32(stream, flag, 1, 0), kOk);
  const int64_t used = BudgetUsed();
  for (int i = 0; i < 3000; ++i) {
    EXPECT_EQ(device->MemAddressFree(device.Reserve(1), device.granule_bytes()),
              kOk);
  }
  EXPECT_LE(BudgetUsed(),
            used + static_cast<int64_t>(RealStorage::kKeptReservations));
  device.Write(flag, {1, 0, 0, 0});
  EXPECT_EQ(device->StreamSynchronize(stream), kOk);
}

TEST(RetiredReservationsOfADeviceTest, LoadThatNeverEndsDoesNotKeepThem) {
  CpuTestDevice device(SmallRealOptions());
  StreamHandle streams[2] = {};
  for (StreamHandle& stream : streams) {
    ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking), kOk);
  }
  Gate gates[2];
  const auto hold_up = [&](int i) {
    EXPECT_EQ(device->LaunchKernel(streams[i], {},
                                   [gate = &gates[i]] { gate->Pass(); }),
              kOk);
  };
  hold_up(0);
  const DevicePtr kept = device.Reserve(1);
  const int64_t used = BudgetUsed();
  EXPECT_EQ(device->MemAddressFree(kept, device.granule_bytes()), kOk);
  hold_up(1);
  device.Reserve(1);
  EXPECT_EQ(BudgetUsed(), used + 1);
  gates[0].Open();
  EXPECT_EQ(device->StreamSynchronize(streams[0]), kOk);
  // The other stream is still at work.
  device.Reserve(1);
  EXPECT_EQ(BudgetUsed(), used + 1);
  gates[1].Open();
}

}  // namespace
}  // namespace firn::cpu_testing
