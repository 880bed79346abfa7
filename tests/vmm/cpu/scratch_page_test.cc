// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the bad work of one device does to the memory of another with the same
// addresses: nothing that lasts.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kIllegal = DriverResult::kIllegalAddress;
constexpr uint64_t kGranule = uint64_t{64} << 10;

// Device 0 does something bad; device 1 has memory.
class ScratchPageTest : public ::testing::Test {
 protected:
  ScratchPageTest() {
    CpuDriverOptions options = SmallRealOptions();
    options.device_count = 2;
    auto devices = CpuDriver::CreateDevices(options);
    EXPECT_TRUE(devices.ok()) << devices.status();
    devices_ = *std::move(devices);
  }
  ~ScratchPageTest() override { stop_ = true; }

  CpuDriver& bad() { return *devices_[0]; }
  CpuDriver& good() { return *devices_[1]; }

  DevicePtr Reserve(uint64_t granules) {
    DevicePtr base = 0;
    EXPECT_EQ(good().MemAddressReserve(&base, granules * kGranule, 0, 0, 0),
              kOk);
    return base;
  }
  PhysicalHandle Create() {
    AllocationProp prop = DeviceProp();
    prop.location.id = 1;
    PhysicalHandle handle = 0;
    EXPECT_EQ(good().MemCreate(&handle, kGranule, &prop, 0), kOk);
    return handle;
  }
  void Map(DevicePtr address, PhysicalHandle handle) {
    EXPECT_EQ(good().MemMap(address, kGranule, 0, handle, 0), kOk);
  }
  void SetAccess(DevicePtr address, AccessFlags access) {
    const AccessDesc desc{Device(1), access};
    EXPECT_EQ(good().MemSetAccess(address, kGranule, &desc, 1), kOk);
  }
  // Creates, maps, fills with `value`, and then gives device 1 `access`.
  PhysicalHandle MapNew(DevicePtr address, uint8_t value, AccessFlags access) {
    const PhysicalHandle handle = Create();
    Map(address, handle);
    SetAccess(address, AccessFlags::kReadWrite);
    Fill(address, value);
    SetAccess(address, access);
    return handle;
  }
  void Fill(DevicePtr address, uint8_t value) {
    EXPECT_EQ(good().MemsetD8Async(address, value, kGranule, nullptr), kOk);
    EXPECT_EQ(good().StreamSynchronize(nullptr), kOk);
  }
  uint8_t Read(DevicePtr address) {
    uint8_t value = 0;
    EXPECT_EQ(good().MemcpyDtoHAsync(&value, address, 1, nullptr), kOk);
    EXPECT_EQ(good().StreamSynchronize(nullptr), kOk);
    return value;
  }
  // Through another address.
  uint8_t ReadAlias(PhysicalHandle handle) {
    const DevicePtr alias = Reserve(1);
    Map(alias, handle);
    SetAccess(alias, AccessFlags::kRead);
    return Read(alias);
  }

  void RunBadKernel(std::function<void()> body) {
    BeginBadKernel(std::move(body));
    EndBadKernel();
  }
  // Runs `body`, and keeps the kernel from ending.
  void BeginBadKernel(std::function<void()> body) {
    EXPECT_EQ(bad().EventCreate(&bad_is_over_, kEventDisableTiming), kOk);
    EXPECT_EQ(bad().LaunchKernel(nullptr, {},
                                 [this, body = std::move(body)] {
                                   while (!go_) std::this_thread::yield();
                                   body();
                                   started_ = true;
                                   while (!stop_) std::this_thread::yield();
                                 }),
              kOk);
    EXPECT_EQ(bad().EventRecord(bad_is_over_, nullptr), kOk);
    go_ = true;
    while (!started_) std::this_thread::yield();
    EXPECT_EQ(bad().StreamQuery(nullptr), kIllegal);
  }
  // A lost device does not wait for its work, so the other does.
  void EndBadKernel() {
    stop_ = true;
    EXPECT_EQ(good().StreamWaitEvent(nullptr, bad_is_over_, 0), kOk);
    EXPECT_EQ(good().StreamSynchronize(nullptr), kOk);
  }

  std::atomic<bool> go_{false};
  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  EventHandle bad_is_over_ = nullptr;
  std::vector<std::unique_ptr<CpuDriver>> devices_;
};

TEST_F(ScratchPageTest, ReadOnlyMemoryIsUnharmedByABadWrite) {
  const DevicePtr base = Reserve(4);
  const PhysicalHandle handle = MapNew(base, 0x11, AccessFlags::kRead);
  RunBadKernel([&] {
    ByteAt(base) = 7;
    ByteAt(base + kGranule - 1) = 7;
  });
  EXPECT_EQ(Read(base), 0x11);
  EXPECT_EQ(Read(base + kGranule - 1), 0x11);
  EXPECT_EQ(ReadAlias(handle), 0x11);
  // It is the memory itself that is back, not a copy.
  SetAccess(base, AccessFlags::kReadWrite);
  Fill(base, 0x22);
  EXPECT_EQ(ReadAlias(handle), 0x22);
}

TEST_F(ScratchPageTest, WhatIsInaccessibleIsSoAgainAfterABadAccess) {
  const DevicePtr base = Reserve(4);
  MapNew(base, 0x11, AccessFlags::kNone);
  RunBadKernel([&] {
    ByteAt(base) = 7;
    ByteAt(base + 3 * kGranule) = 7;
  });
  EXPECT_EQ(good().LaunchKernel(nullptr, {},
                                [&] { ByteAt(base + 3 * kGranule) = 1; }),
            kOk);
  EXPECT_EQ(good().StreamSynchronize(nullptr), kIllegal);
}

TEST_F(ScratchPageTest, MemoryMappedOverABadAccessIsMemory) {
  const DevicePtr base = Reserve(4);
  RunBadKernel([&] { ByteAt(base) = 7; });
  const PhysicalHandle handle = MapNew(base, 0x33, AccessFlags::kReadWrite);
  EXPECT_EQ(ReadAlias(handle), 0x33);
}

TEST_F(ScratchPageTest, ARunawayKernelHidesNoMemory) {
  constexpr uint64_t kReserved = 4096;
  constexpr uint64_t kWritable = 1000;
  constexpr uint64_t kReadable = 2000;
  const DevicePtr base = Reserve(kReserved);
  MapNew(base + kWritable * kGranule, 0x11, AccessFlags::kReadWrite);
  for (uint64_t i = 0; i < 3; ++i) {
    MapNew(base + (kReadable + i) * kGranule, static_cast<uint8_t>(0x20 + i),
           AccessFlags::kRead);
  }
  BeginBadKernel([&] {
    for (uint64_t i = 0; i < kReserved; i += 2) {
      if (i != kWritable) ByteAt(base + i * kGranule + 5000) = 7;
    }
  });
  EXPECT_LT(KernelMappingsIn(base, kReserved * kGranule), 1000);
  // While the kernel runs, and when it is over.
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Read(base + kWritable * kGranule), 0x11);
    EXPECT_EQ(Read(base + kReadable * kGranule), 0x20);
    EXPECT_EQ(Read(base + (kReadable + 1) * kGranule), 0x21);
    EXPECT_EQ(Read(base + (kReadable + 2) * kGranule), 0x22);
    EndBadKernel();
  }
  EXPECT_EQ(Read(base + kReadable * kGranule + 5000), 0x20);
  EXPECT_LT(KernelMappingsIn(base, kReserved * kGranule), 10);
}

TEST_F(ScratchPageTest, AccessGivenWhileBadWorkRunsIsToTheMemory) {
  const DevicePtr base = Reserve(2);
  const PhysicalHandle handle = MapNew(base, 0x11, AccessFlags::kRead);
  BeginBadKernel([&] { ByteAt(base) = 7; });
  SetAccess(base, AccessFlags::kReadWrite);
  EXPECT_EQ(Read(base), 0x11);
  Fill(base, 0x22);
  EXPECT_EQ(ReadAlias(handle), 0x22);
}

TEST_F(ScratchPageTest, MemoryUnmappedWhileBadWorkRunsStaysUnmapped) {
  const DevicePtr base = Reserve(2);
  MapNew(base, 0x11, AccessFlags::kRead);
  BeginBadKernel([&] { ByteAt(base) = 7; });
  EXPECT_EQ(good().MemUnmap(base, kGranule), kOk);
  EndBadKernel();
  EXPECT_EQ(good().LaunchKernel(nullptr, {}, [&] { ByteAt(base) = 1; }), kOk);
  EXPECT_EQ(good().StreamSynchronize(nullptr), kIllegal);
}

TEST_F(ScratchPageTest, BadAccessesDoNotUpsetTheBudgetOfKernelMappings) {
  const auto used = [] { return cpu::KernelMappingBudget::OfProcess().used(); };
  const DevicePtr base = Reserve(6);
  const int64_t reserved = used();
  const PhysicalHandle handle = Create();
  RunBadKernel([&] { ByteAt(base + 2 * kGranule) = 7; });
  Map(base + 3 * kGranule, handle);
  SetAccess(base + 3 * kGranule, AccessFlags::kReadWrite);
  // A mapping, and a gap parted in two.
  EXPECT_EQ(used(), reserved + 2);
  EXPECT_EQ(good().MemUnmap(base + 3 * kGranule, kGranule), kOk);
  EXPECT_EQ(used(), reserved);
}

TEST_F(ScratchPageTest, AChildForkedByWorkHasNoMemoryAndDiesOfIt) {
  const DevicePtr base = Reserve(1);
  MapNew(base, 0x11, AccessFlags::kReadWrite);
  int status = 0;
  EXPECT_EQ(good().LaunchKernel(nullptr, {},
                                [&] {
                                  const pid_t child = fork();
                                  if (child == 0) {
                                    // A sanitizer has something to say.
                                    close(STDERR_FILENO);
                                    alarm(10);
                                    ByteAt(base) = 1;
                                    _exit(0);
                                  }
                                  waitpid(child, &status, 0);
                                }),
            kOk);
  EXPECT_EQ(good().StreamSynchronize(nullptr), kOk);
  // It does not hang, nor go on.
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

}  // namespace
}  // namespace firn::cpu_testing
