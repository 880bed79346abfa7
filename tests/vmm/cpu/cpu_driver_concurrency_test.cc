// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many threads use one device at once. To be run under the thread sanitizer.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;

// One thread's use of the device: places of one granule each, some of which
// show a handle whose first bytes it knows. Each step is one random operation.
class Tenant {
 public:
  Tenant(CpuTestDevice* device, uint32_t seed)
      : device_(*device), random_(seed) {
    base_ = device_.Reserve(kPlaces);
    EXPECT_EQ(device_->StreamCreate(&stream_, seed % 2), kOk);
    EXPECT_EQ(device_->EventCreate(&event_, kEventDisableTiming), kOk);
  }

  void Step() {
    const auto place = static_cast<uint64_t>(random_() % kPlaces);
    if (handles_[place] == 0) {
      Fill(place);
      return;
    }
    switch (random_() % 4) {
      case 0:
        Write(place);
        break;
      case 1:
        Check(place);
        break;
      case 2:
        Move(place, random_() % kPlaces);
        break;
      case 3:
        Drop(place);
        break;
    }
  }

  void Finish() {
    for (uint64_t place = 0; place < kPlaces; ++place) {
      if (handles_[place] == 0) continue;
      Check(place);
      Drop(place);
    }
    EXPECT_EQ(device_->EventDestroy(event_), kOk);
    EXPECT_EQ(device_->StreamDestroy(stream_), kOk);
    EXPECT_EQ(device_->MemAddressFree(base_, kPlaces * device_.granule_bytes()),
              kOk);
    EXPECT_EQ(errors_, 0);
  }

 private:
  static constexpr uint64_t kPlaces = 16;
  static constexpr uint64_t kWrittenBytes = 256;

  DevicePtr At(uint64_t place) const { return device_.At(base_, place); }

  void Fill(uint64_t place) {
    handles_[place] = device_.Create();
    device_.Map(At(place), handles_[place]);
    device_.SetAccess(At(place));
    Write(place);
  }
  void Write(uint64_t place) {
    values_[place] = static_cast<uint8_t>(random_());
    const DevicePtr address = At(place);
    const uint8_t value = values_[place];
    if (random_() % 2 == 0) {
      EXPECT_EQ(device_->MemsetD8Async(address, value, kWrittenBytes, stream_),
                kOk);
    } else {
      EXPECT_EQ(
          device_->LaunchKernel(
              stream_, {KernelRange{address, kWrittenBytes, true}},
              [=] { std::memset(ToPointer(address), value, kWrittenBytes); }),
          kOk);
    }
  }
  // Checked by a kernel, later.
  void Check(uint64_t place) {
    const DevicePtr address = At(place);
    const uint8_t value = values_[place];
    EXPECT_EQ(device_->LaunchKernel(
                  stream_, {KernelRange{address, kWrittenBytes, false}},
                  [=, errors = &errors_] {
                    const auto* bytes =
                        static_cast<const uint8_t*>(ToPointer(address));
                    for (uint64_t i = 0; i < kWrittenBytes; ++i) {
                      if (bytes[i] != value) ++*errors;
                    }
                  }),
              kOk);
  }
  void Move(uint64_t from, uint64_t to) {
    if (handles_[to] != 0) return;
    Drain();
    device_.Unmap(At(from));
    device_.Map(At(to), handles_[from]);
    device_.SetAccess(At(to));
    handles_[to] = std::exchange(handles_[from], 0);
    values_[to] = values_[from];
    Check(to);
  }
  void Drop(uint64_t place) {
    Drain();
    EXPECT_EQ(device_->MemRelease(handles_[place]), kOk);
    device_.Unmap(At(place));
    handles_[place] = 0;
  }
  // Until no work of this tenant can touch its memory any more.
  void Drain() {
    EXPECT_EQ(device_->EventRecord(event_, stream_), kOk);
    DriverResult result = device_->EventQuery(event_);
    while (result == DriverResult::kNotReady) {
      std::this_thread::yield();
      result = device_->EventQuery(event_);
    }
    EXPECT_EQ(result, kOk);
  }

  CpuTestDevice& device_;
  std::mt19937 random_;
  DevicePtr base_ = 0;
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
  PhysicalHandle handles_[kPlaces] = {};
  uint8_t values_[kPlaces] = {};
  std::atomic<int> errors_{0};
};

TEST(CpuDriverConcurrencyTest, TenantsOfOneDeviceDoNotDisturbEachOther) {
  CpuTestDevice device(SmallRealOptions());
  const uint64_t all_bytes = device.FreeBytes();
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&device, seed] {
      Tenant tenant(&device, seed);
      for (int step = 0; step < 1500; ++step) tenant.Step();
      tenant.Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->CtxSynchronize(), kOk);
  EXPECT_EQ(device.FreeBytes(), all_bytes);
}

// Access to one granule comes and goes while kernels run over another of the
// same reservation: none of it may be taken for a bad access.
TEST(CpuDriverConcurrencyTest, ChangesBesideARunningKernelAreNoFaults) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory(3);
  std::atomic<bool> stop{false};
  std::vector<StreamHandle> streams(2);
  for (StreamHandle& stream : streams) {
    ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking), kOk);
  }
  for (uint64_t i = 0; i < 2; ++i) {
    const DevicePtr address = device.At(base, 2 * i);
    ASSERT_EQ(device->LaunchKernel(streams[i], {},
                                   [address, &device, &stop] {
                                     while (!stop) {
                                       std::memset(ToPointer(address), 1,
                                                   device.granule_bytes());
                                     }
                                   }),
              kOk);
  }
  for (int round = 0; round < 300; ++round) {
    device.SetAccess(device.At(base, 1), 1,
                     round % 2 == 0 ? AccessFlags::kNone : AccessFlags::kRead);
    // Joins and parts what the kernels run over.
    device.SetAccess(base, 3);
  }
  stop = true;
  EXPECT_EQ(device->CtxSynchronize(), kOk);
}

// The protocol that the sticky error must not break: a kernel that reads while
// access is narrowed to reading and widened again.
TEST(CpuDriverConcurrencyTest, AReaderNeverFaultsWhileAccessIsNarrowed) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr base = device.NewMemory();
  std::atomic<bool> stop{false};
  ASSERT_EQ(device->LaunchKernel(
                nullptr, {},
                [&] {
                  while (!stop) {
                    for (uint64_t i = 0; i < device.granule_bytes(); i += 64) {
                      static_cast<void>(
                          *static_cast<volatile uint8_t*>(ToPointer(base + i)));
                    }
                  }
                }),
            kOk);
  for (int round = 0; round < 500; ++round) {
    device.SetAccess(base, 1, AccessFlags::kRead);
    device.SetAccess(base, 1, AccessFlags::kReadWrite);
  }
  stop = true;
  EXPECT_EQ(device->CtxSynchronize(), kOk);
}

TEST(CpuDriverConcurrencyTest, ManyKernelsFaultAtOnceAndAllEnd) {
  CpuTestDevice device(SmallRealOptions());
  const DevicePtr bare = device.Reserve(64);
  std::atomic<int> ended{0};
  std::atomic<int> started{0};
  for (int i = 0; i < 4; ++i) {
    StreamHandle stream = nullptr;
    ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking), kOk);
    ASSERT_EQ(device->LaunchKernel(
                  stream, {},
                  [&] {
                    ++started;
                    while (started < 4) std::this_thread::yield();
                    for (uint64_t granule = 0; granule < 64; ++granule) {
                      // One value from all: the kernels do not race.
                      __atomic_store_n(static_cast<uint8_t*>(
                                           ToPointer(device.At(bare, granule))),
                                       uint8_t{1}, __ATOMIC_RELAXED);
                    }
                    ++ended;
                  }),
              kOk);
  }
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kIllegalAddress);
  EXPECT_EQ(ended, 4);
}

}  // namespace
}  // namespace firn::cpu_testing
