// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The two extremes of what MemUnmap and MemSetAccess do about work in flight.

#include <atomic>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CpuDriverOptions WithSync(CpuSync sync) {
  CpuDriverOptions options = SmallRealOptions();
  options.sync = sync;
  return options;
}

class CpuDriverSyncTest : public ::testing::Test {
 protected:
  // Queues a kernel that waits for the gate, then writes to `address`; returns
  // when it runs, and its ranges have been checked.
  void WriteWhenOpen(CpuTestDevice* device, StreamHandle stream,
                     DevicePtr address) {
    std::atomic<bool> started{false};
    ASSERT_EQ((*device)->LaunchKernel(stream, {{address, 1, true}},
                                      [this, address, &started] {
                                        started.store(true);
                                        while (!open_.load())
                                          std::this_thread::yield();
                                        *static_cast<volatile uint8_t*>(
                                            ToPointer(address)) = 42;
                                        written_.store(true);
                                      }),
              DriverResult::kSuccess);
    while (!started.load()) std::this_thread::yield();
  }
  void OpenSoon() {
    opener_ = std::thread([this] {
      absl::SleepFor(absl::Milliseconds(30));
      open_.store(true);
    });
  }
  void TearDown() override {
    open_.store(true);
    if (opener_.joinable()) opener_.join();
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> written_{false};
  std::thread opener_;
};

TEST_F(CpuDriverSyncTest, LazyUnmapTakesEffectUnderARunningKernel) {
  CpuTestDevice device(WithSync(CpuSync::kLazy));
  const DevicePtr address = device.NewMemory();
  WriteWhenOpen(&device, nullptr, address);
  device.Unmap(address);
  EXPECT_FALSE(written_.load());
  open_.store(true);
  EXPECT_EQ(device->StreamSynchronize(nullptr), DriverResult::kIllegalAddress);
  EXPECT_TRUE(written_.load());
}

TEST_F(CpuDriverSyncTest, DrainingUnmapWaitsForARunningKernel) {
  CpuTestDevice device(WithSync(CpuSync::kDraining));
  const DevicePtr address = device.NewMemory();
  WriteWhenOpen(&device, nullptr, address);
  OpenSoon();
  device.Unmap(address);
  EXPECT_TRUE(written_.load());
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
}

TEST_F(CpuDriverSyncTest, DrainingSetAccessWaitsForWorkOnOtherMemoryToo) {
  CpuTestDevice device(WithSync(CpuSync::kDraining));
  const DevicePtr used = device.NewMemory();
  const DevicePtr other = device.Reserve(1);
  device.Map(other, device.Create());
  StreamHandle stream = nullptr;
  ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  WriteWhenOpen(&device, stream, used);
  OpenSoon();
  device.SetAccess(other);
  EXPECT_TRUE(written_.load());
}

TEST_F(CpuDriverSyncTest, WorkThatWaitsForTheUnmappingThreadIsADeadlock) {
  CpuDriverOptions options = WithSync(CpuSync::kDraining);
  options.deadlock_timeout = absl::Milliseconds(300);
  CpuTestDevice device(options);
  const DevicePtr used = device.NewMemory();
  const DevicePtr other = device.NewMemory();
  StreamHandle first = nullptr;
  StreamHandle second = nullptr;
  EventHandle event = nullptr;
  ASSERT_EQ(device->StreamCreate(&first, kStreamNonBlocking),
            DriverResult::kSuccess);
  ASSERT_EQ(device->StreamCreate(&second, kStreamNonBlocking),
            DriverResult::kSuccess);
  ASSERT_EQ(device->EventCreate(&event, kEventDisableTiming),
            DriverResult::kSuccess);
  uint64_t first_id = 0;
  uint64_t second_id = 0;
  ASSERT_EQ(device->StreamGetId(first, &first_id), DriverResult::kSuccess);
  ASSERT_EQ(device->StreamGetId(second, &second_id), DriverResult::kSuccess);
  // This thread would open the gate after the call; `second` waits for `first`.
  WriteWhenOpen(&device, first, used);
  ASSERT_EQ(device->EventRecord(event, first), DriverResult::kSuccess);
  ASSERT_EQ(device->StreamWaitEvent(second, event, 0), DriverResult::kSuccess);
  const absl::Time start = absl::Now();
  ::testing::internal::CaptureStderr();
  const DriverResult result = device->MemUnmap(other, device.granule_bytes());
  const std::string report = ::testing::internal::GetCapturedStderr();
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  EXPECT_EQ(result, DriverResult::kLaunchTimeout);
  EXPECT_THAT(
      report,
      AllOf(HasSubstr("deadlock in cuMemUnmap"),
            HasSubstr("stream " + std::to_string(first_id) +
                      " (device 0), operation 1 of 1 (kernel): runs and "
                      "does not end"),
            HasSubstr("stream " + std::to_string(second_id) +
                      " (device 0), operation 1 of 1 (event wait): waits "
                      "for stream " +
                      std::to_string(first_id))));
  EXPECT_EQ(device->MemUnmap(other, device.granule_bytes()),
            DriverResult::kLaunchTimeout);
  open_.store(true);  // destruction waits for all work
}

// A stream is parked on a flag that this thread would set only after it has
// remapped the memory that the stream goes on to use.
TEST_F(CpuDriverSyncTest, AParkedStreamIsADeadlockOrAnIllegalAccessByExtreme) {
  for (const CpuSync sync : {CpuSync::kDraining, CpuSync::kLazy}) {
    CpuTestDevice device(WithSync(sync));
    const DevicePtr flag = device.NewMemory();
    device.Write(flag, std::vector<uint8_t>(4, 0));
    const DevicePtr used = device.NewMemory();
    const PhysicalHandle other = device.Create();
    StreamHandle stream = nullptr;
    ASSERT_EQ(device->StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
    uint64_t id = 0;
    ASSERT_EQ(device->StreamGetId(stream, &id), DriverResult::kSuccess);
    ASSERT_EQ(device->StreamWaitValue32(stream, flag, 1, kWaitValueGeq),
              DriverResult::kSuccess);
    ASSERT_EQ(device->MemsetD8Async(used, 1, 64, stream),
              DriverResult::kSuccess);
    const absl::Time start = absl::Now();
    const DriverResult unmapped =
        device->MemUnmap(used, device.granule_bytes());
    if (sync == CpuSync::kDraining) {
      EXPECT_EQ(unmapped, DriverResult::kLaunchTimeout);
      EXPECT_LT(absl::Now() - start, absl::Seconds(1));
      EXPECT_THAT(device->last_report(),
                  AllOf(HasSubstr("deadlock in cuMemUnmap"),
                        HasSubstr("stream " + std::to_string(id)),
                        HasSubstr("to be >= 1")));
      continue;
    }
    ASSERT_EQ(unmapped, DriverResult::kSuccess);
    device.Map(used, other);
    device.SetAccess(used);
    const uint32_t one = 1;
    ASSERT_EQ(device->MemcpyHtoDAsync(flag, &one, sizeof(one), nullptr),
              DriverResult::kSuccess);
    EXPECT_EQ(device->StreamSynchronize(stream), DriverResult::kIllegalAddress);
    EXPECT_EQ(device->CtxSynchronize(), DriverResult::kIllegalAddress);
  }
}

TEST_F(CpuDriverSyncTest, ProgressElsewherePutsTheDeadlockOff) {
  CpuDriverOptions options = WithSync(CpuSync::kDraining);
  options.deadlock_timeout = absl::Milliseconds(200);
  CpuTestDevice device(options);
  const DevicePtr address = device.NewMemory();
  // Ten kernels of 50 ms: longer than the timeout together, not one by one.
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(device->LaunchKernel(
                  nullptr, {}, [] { absl::SleepFor(absl::Milliseconds(50)); }),
              DriverResult::kSuccess);
  }
  device.Unmap(address);
  EXPECT_EQ(device->CtxSynchronize(), DriverResult::kSuccess);
}

TEST_F(CpuDriverSyncTest, ATimeoutThatIsNotPositiveIsRefused) {
  CpuDriverOptions options = WithSync(CpuSync::kDraining);
  options.deadlock_timeout = absl::ZeroDuration();
  EXPECT_THAT(CpuDriver::Create(options).status().message(),
              HasSubstr("deadlock_timeout"));
}

}  // namespace
}  // namespace firn::cpu_testing
