// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What bad accesses do: the device is lost, the process is not.

#include "firn/vmm/cpu/fault_guard.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/guarded_region.h"
#include "firn/vmm/cpu/host_mapping.h"
#include "firn/vmm/cpu/sticky_error.h"
#include "firn/vmm/cpu/storage.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kIllegal = DriverResult::kIllegalAddress;

// Not inlined: compilers know that nothing lies at the address 64.
__attribute__((noinline)) void Store(DevicePtr address, uint8_t value) {
  *static_cast<volatile uint8_t*>(ToPointer(address)) = value;
}
uint8_t Load(DevicePtr address) {
  return *static_cast<volatile uint8_t*>(ToPointer(address));
}

class IllegalAccessTest : public ::testing::Test {
 protected:
  // Runs `body` as a kernel that declares nothing.
  DriverResult Run(std::function<void()> body) {
    EXPECT_EQ(device_->LaunchKernel(nullptr, {}, std::move(body)), kOk);
    return device_->CtxSynchronize();
  }
  // Runs a kernel that declares `range`; tells whether the body ran.
  bool RunDeclared(KernelRange range) {
    bool ran = false;
    EXPECT_EQ(device_->LaunchKernel(nullptr, {range}, [&ran] { ran = true; }),
              kOk);
    result_ = device_->CtxSynchronize();
    return ran;
  }

  CpuTestDevice device_{SmallRealOptions()};
  DriverResult result_ = kOk;
};

TEST_F(IllegalAccessTest, AWriteToUnmappedMemoryLosesTheDevice) {
  const DevicePtr base = device_.NewMemory();
  device_.Unmap(base);
  bool ended = false;
  EXPECT_EQ(Run([&] {
              Store(base, 1);
              ended = true;
            }),
            kIllegal);
  EXPECT_TRUE(ended);
}

TEST_F(IllegalAccessTest, AReadOfUnmappedMemoryLosesTheDevice) {
  const DevicePtr base = device_.Reserve(1);
  EXPECT_EQ(Run([&] { Load(base); }), kIllegal);
}

TEST_F(IllegalAccessTest, MemoryWithoutAccessLosesTheDeviceAndShowsNothing) {
  const DevicePtr base = device_.NewMemory();
  device_.SetAccess(base, 1, AccessFlags::kNone);
  uint8_t seen = 1;
  EXPECT_EQ(Run([&] { seen = Load(base); }), kIllegal);
  EXPECT_EQ(seen, 0);
}

TEST_F(IllegalAccessTest, AReadOfReadOnlyMemoryIsFine) {
  const DevicePtr base = device_.NewMemory();
  device_.Write(base, {17});
  device_.SetAccess(base, 1, AccessFlags::kRead);
  uint8_t seen = 0;
  EXPECT_EQ(Run([&] { seen = Load(base); }), kOk);
  EXPECT_EQ(seen, 17);
}

TEST_F(IllegalAccessTest, AWriteToReadOnlyMemoryLosesTheDevice) {
  const DevicePtr base = device_.NewMemory(2);
  device_.SetAccess(base, 1, AccessFlags::kRead);
  EXPECT_EQ(Run([&] { Store(device_.At(base, 1), 1); }), kOk);
  EXPECT_EQ(Run([&] {
              Load(base);
              Store(base, 1);
              Store(base + 8192, 1);
            }),
            kIllegal);
}

TEST_F(IllegalAccessTest, TheTailOfAReservationIsGuarded) {
  DevicePtr base = 0;
  ASSERT_EQ(device_->MemAddressReserve(&base, device_.granule_bytes() + 4096, 0,
                                       0, 0),
            kOk);
  EXPECT_EQ(Run([&] { Store(device_.At(base, 1) + 4095, 1); }), kIllegal);
}

TEST_F(IllegalAccessTest, AKernelThatRunsOverAllAddressesEnds) {
  const DevicePtr base = device_.Reserve(4096);
  EXPECT_EQ(Run([&] {
              for (uint64_t i = 0; i < 4096; i += 2) {
                Store(device_.At(base, i), 1);
              }
            }),
            kIllegal);
  EXPECT_LT(KernelMappingsIn(base, 4096 * device_.granule_bytes()), 1000);
}

TEST_F(IllegalAccessTest, ADeclaredRangeIsCheckedBeforeTheBodyRuns) {
  const DevicePtr base = device_.NewMemory(2);
  device_.SetAccess(base, 1, AccessFlags::kRead);
  const uint64_t bytes = 2 * device_.granule_bytes();
  EXPECT_TRUE(RunDeclared({base, bytes, /*writes=*/false}));
  EXPECT_EQ(result_, kOk);
  EXPECT_FALSE(RunDeclared({base, bytes, /*writes=*/true}));
  EXPECT_EQ(result_, kIllegal);
}

TEST_F(IllegalAccessTest, ACopyWhoseMemoryGoesBeforeItRunsLosesTheDevice) {
  const DevicePtr base = device_.NewMemory();
  std::atomic<bool> go{false};
  StreamHandle stream = nullptr;
  ASSERT_EQ(device_->StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(device_->LaunchKernel(stream, {},
                                  [&] {
                                    while (!go) std::this_thread::yield();
                                  }),
            kOk);
  ASSERT_EQ(device_->MemsetD8Async(base, 0, device_.granule_bytes(), stream),
            kOk);
  device_.Unmap(base);
  go = true;
  EXPECT_EQ(device_->StreamSynchronize(stream), kIllegal);
}

TEST_F(IllegalAccessTest, AnUnmapUnderARunningKernelLosesTheDevice) {
  const DevicePtr base = device_.NewMemory();
  std::atomic<bool> started{false};
  std::atomic<bool> stop{false};
  ASSERT_EQ(device_->LaunchKernel(
                nullptr, {KernelRange{base, device_.granule_bytes(), true}},
                [&] {
                  while (!stop) {
                    Store(base, 1);
                    started = true;
                  }
                  Store(base, 1);
                }),
            kOk);
  while (!started) std::this_thread::yield();
  // Takes effect at once, whatever runs.
  device_.Unmap(base);
  stop = true;
  EXPECT_EQ(device_->CtxSynchronize(), kIllegal);
}

TEST_F(IllegalAccessTest, AddressesFreedUnderARunningKernelStayGuarded) {
  const DevicePtr base = device_.NewMemory();
  std::atomic<bool> started{false};
  std::atomic<bool> stop{false};
  ASSERT_EQ(device_->LaunchKernel(nullptr, {},
                                  [&] {
                                    started = true;
                                    while (!stop) std::this_thread::yield();
                                    Store(base, 1);
                                  }),
            kOk);
  while (!started) std::this_thread::yield();
  device_.Unmap(base);
  EXPECT_EQ(device_->MemAddressFree(base, device_.granule_bytes()), kOk);
  stop = true;
  EXPECT_EQ(device_->CtxSynchronize(), kIllegal);
}

TEST_F(IllegalAccessTest, EveryCallReportsALostDevice) {
  const DevicePtr base = device_.NewMemory(2);
  const PhysicalHandle spare = device_.Create();
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  ASSERT_EQ(device_->StreamCreate(&stream, kStreamDefault), kOk);
  ASSERT_EQ(device_->EventCreate(&event, kEventDefault), kOk);
  const DevicePtr bare = device_.Reserve(1);
  ASSERT_EQ(Run([&] { Store(bare, 1); }), kIllegal);

  CpuDriver& d = *device_;
  const AllocationProp prop = DeviceProp();
  const MemLocation location{LocationType::kDevice, 0};
  const AccessDesc desc{location, AccessFlags::kRead};
  const uint64_t bytes = device_.granule_bytes();
  size_t number = 0;
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  AccessFlags flags = AccessFlags::kNone;
  uint64_t id = 0;
  CaptureStatus capture = CaptureStatus::kNone;
  char host = 0;
  EXPECT_EQ(
      d.MemGetAllocationGranularity(&number, &prop, GranularityKind::kMinimum),
      kIllegal);
  EXPECT_EQ(d.MemAddressReserve(&address, bytes, 0, 0, 0), kIllegal);
  EXPECT_EQ(d.MemAddressFree(bare, bytes), kIllegal);
  EXPECT_EQ(d.MemCreate(&handle, bytes, &prop, 0), kIllegal);
  EXPECT_EQ(d.MemRelease(spare), kIllegal);
  EXPECT_EQ(d.MemMap(bare, bytes, 0, spare, 0), kIllegal);
  EXPECT_EQ(d.MemUnmap(base, bytes), kIllegal);
  EXPECT_EQ(d.MemSetAccess(base, bytes, &desc, 1), kIllegal);
  EXPECT_EQ(d.MemGetAccess(&flags, &location, base), kIllegal);
  EXPECT_EQ(d.MemRetainAllocationHandle(&handle, base), kIllegal);
  EXPECT_EQ(d.MemGetInfo(&number, &number), kIllegal);
  EXPECT_EQ(d.MemcpyDtoDAsync(base, base + bytes, 1, stream), kIllegal);
  EXPECT_EQ(d.MemcpyHtoDAsync(base, &host, 1, stream), kIllegal);
  EXPECT_EQ(d.MemcpyDtoHAsync(&host, base, 1, stream), kIllegal);
  EXPECT_EQ(d.MemsetD8Async(base, 0, 1, stream), kIllegal);
  EXPECT_EQ(d.LaunchKernel(stream, {}, [] {}), kIllegal);
  EXPECT_EQ(d.StreamCreate(&stream, kStreamDefault), kIllegal);
  EXPECT_EQ(d.StreamQuery(stream), kIllegal);
  EXPECT_EQ(d.StreamSynchronize(stream), kIllegal);
  EXPECT_EQ(d.StreamGetId(stream, &id), kIllegal);
  EXPECT_EQ(d.StreamIsCapturing(stream, &capture), kIllegal);
  EXPECT_EQ(d.StreamWaitEvent(stream, event, 0), kIllegal);
  EXPECT_EQ(d.EventCreate(&event, kEventDefault), kIllegal);
  EXPECT_EQ(d.EventRecord(event, stream), kIllegal);
  EXPECT_EQ(d.EventQuery(event), kIllegal);
  EXPECT_EQ(d.EventSynchronize(event), kIllegal);
  EXPECT_EQ(d.EventDestroy(event), kIllegal);
  EXPECT_EQ(d.StreamDestroy(stream), kIllegal);
  EXPECT_EQ(d.CtxSynchronize(), kIllegal);
  EXPECT_EQ(d.identity().backend, "cpu");
}

TEST_F(IllegalAccessTest, ALostDeviceRunsNoMoreOfItsQueue) {
  const DevicePtr bare = device_.Reserve(1);
  bool ran = false;
  EXPECT_EQ(device_->LaunchKernel(nullptr, {},
                                  [&] {
                                    // Long enough for the next to be queued.
                                    usleep(20000);
                                    Store(bare, 1);
                                  }),
            kOk);
  EXPECT_EQ(device_->LaunchKernel(nullptr, {}, [&] { ran = true; }), kOk);
  EXPECT_EQ(device_->CtxSynchronize(), kIllegal);
  EXPECT_FALSE(ran);
}

TEST_F(IllegalAccessTest, AnotherDeviceGoesOn) {
  CpuTestDevice other(SmallRealOptions());
  const DevicePtr memory = other.NewMemory();
  other.Write(memory, {1, 2, 3});
  const DevicePtr bare = device_.Reserve(1);
  EXPECT_EQ(Run([&] { Store(bare, 1); }), kIllegal);
  EXPECT_EQ(other.Read(memory, 3), (std::vector<uint8_t>{1, 2, 3}));
}

// The handler's decisions, without real faults: one granule of each access.
class FaultGuardTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 3 * 4096;

  FaultGuardTest() {
    EXPECT_TRUE(cpu::ReserveAddresses(kBytes, 4096, 0, &base_));
    auto backing = cpu::Backing::Create(4096, /*poison=*/false);
    EXPECT_TRUE(backing.ok()) << backing.status();
    backing_ = *std::move(backing);
    EXPECT_TRUE(backing_->Allocate(1, &place_).ok());
    region_ = std::make_unique<cpu::GuardedRegion>(base_, kBytes, 4096,
                                                   backing_.get());
    EXPECT_TRUE(region_->AllowReadOnly());
    region_->SetReadOnly(1, 1, place_);
    region_->SetAccess(2, 1, AccessFlags::kReadWrite);
    guard_.Add(region_.get());
  }
  ~FaultGuardTest() override {
    guard_.Remove(region_.get());
    cpu::ReleaseAddresses(base_, kBytes);
  }

  cpu::StickyError error_;
  cpu::FaultGuard guard_;
  std::unique_ptr<cpu::Backing> backing_;
  // Of granule 1.
  cpu::StoragePlace place_;
  DevicePtr base_ = 0;
  std::unique_ptr<cpu::GuardedRegion> region_;
};

TEST_F(FaultGuardTest, AFaultOutsideDeviceWorkIsNotHandled) {
  EXPECT_FALSE(cpu::FaultGuard::HandleFault(base_));
  { cpu::FaultGuard::Scope scope(&guard_, &error_); }
  EXPECT_FALSE(cpu::FaultGuard::HandleFault(base_));
  EXPECT_FALSE(error_.latched());
}

TEST_F(FaultGuardTest, AFaultOutsideEveryRegionIsNotHandled) {
  cpu::FaultGuard::Scope scope(&guard_, &error_);
  EXPECT_FALSE(cpu::FaultGuard::HandleFault(base_ + kBytes));
  EXPECT_FALSE(cpu::FaultGuard::HandleFault(base_ - 1));
  EXPECT_FALSE(error_.latched());
}

TEST_F(FaultGuardTest, AFaultThatAccessGivenMeanwhileSettlesIsTriedAgain) {
  cpu::FaultGuard::Scope scope(&guard_, &error_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 8192));
  }
  EXPECT_FALSE(error_.latched());
}

TEST_F(FaultGuardTest, AFaultOfReadableMemoryIsTriedOnceThenIsAWrite) {
  cpu::FaultGuard::Scope scope(&guard_, &error_);
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 4096));
  EXPECT_FALSE(error_.latched());
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 4104));
  EXPECT_FALSE(error_.latched());
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 4104));
  EXPECT_EQ(error_.get(), kIllegal);
  EXPECT_TRUE(region_->is_scratch(1));
  EXPECT_EQ(region_->access(1), AccessFlags::kRead);
  EXPECT_EQ(scope.fault_address(), base_ + 4104);
}

TEST_F(FaultGuardTest, AScratchPageIsNoFaultForTheNextThread) {
  cpu::FaultGuard::Scope scope(&guard_, &error_);
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 1));
  EXPECT_EQ(error_.get(), kIllegal);
  Store(base_ + 1, 5);
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 2));
  EXPECT_EQ(Load(base_ + 1), 5);
}

TEST_F(FaultGuardTest, AScratchPageThatIsNotThereAfterAllIsMadeAgain) {
  cpu::FaultGuard::Scope scope(&guard_, &error_);
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 1));
  ASSERT_TRUE(cpu::MapInaccessible(base_, 4096));
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 1));
  EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 1));
  Store(base_ + 1, 5);
}

TEST_F(FaultGuardTest, ScratchPagesGoWithTheWork) {
  for (int round = 0; round < 2; ++round) {
    cpu::StickyError error;
    {
      cpu::FaultGuard::Scope scope(&guard_, &error);
      EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_));
      EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 4096));
      EXPECT_TRUE(cpu::FaultGuard::HandleFault(base_ + 4096));
      Store(base_, 5);
      Store(base_ + 4096, 5);
      EXPECT_TRUE(region_->HasScratchIn(0, 2));
    }
    EXPECT_EQ(error.get(), kIllegal);
    EXPECT_FALSE(region_->HasScratchIn(0, 3));
    EXPECT_EQ(Load(base_ + 4096), 0);
  }
  EXPECT_EQ(region_->access(0), AccessFlags::kNone);
  EXPECT_EQ(region_->access(1), AccessFlags::kRead);
  EXPECT_EQ(region_->access(2), AccessFlags::kReadWrite);
}

TEST(GhostIllegalAccessTest, ADeclaredRangeThatIsNotMappedLosesTheDevice) {
  CpuTestDevice device(GhostOptions());
  const DevicePtr base = device.Reserve(1);
  EXPECT_EQ(device->LaunchKernel(
                nullptr, {KernelRange{base, 1, /*writes=*/false}}, [] {}),
            kOk);
  EXPECT_EQ(device->CtxSynchronize(), kIllegal);
}

}  // namespace
}  // namespace firn::cpu_testing
