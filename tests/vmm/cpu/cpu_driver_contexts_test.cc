// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Several contexts of a device: what each owns, and what they share.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {
namespace {

using ::firn::testing::StatusIs;
using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kBusy = DriverResult::kNotReady;
constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;
constexpr DriverResult kBadAddress = DriverResult::kIllegalAddress;

CpuDriverOptions WithSync(CpuSync sync) {
  CpuDriverOptions options = SmallRealOptions();
  options.sync = sync;
  options.report = [](absl::string_view) {};
  return options;
}

std::unique_ptr<CpuDriver> NewContext(CpuDriver* driver) {
  auto context = driver->CreateContext();
  EXPECT_TRUE(context.ok()) << context.status();
  return context.ok() ? *std::move(context) : nullptr;
}

StreamHandle NewStream(CpuDriver* driver) {
  StreamHandle stream = nullptr;
  EXPECT_EQ(driver->StreamCreate(&stream, kStreamNonBlocking), kOk);
  return stream;
}

EventHandle NewEvent(CpuDriver* driver) {
  EventHandle event = nullptr;
  EXPECT_EQ(driver->EventCreate(&event, kEventDisableTiming), kOk);
  return event;
}

// A device and a second context of it; under both extremes.
class CpuDriverContextsTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  CpuDriverContextsTest()
      : device_(WithSync(GetParam())), second_(NewContext(&*device_)) {}
  ~CpuDriverContextsTest() override { open_.store(true); }

  // Queues a kernel that runs until the gate is open, then writes to `address`,
  // and waits until it runs.
  void WriteWhenOpen(CpuDriver* driver, StreamHandle stream,
                     DevicePtr address) {
    std::atomic<bool> started{false};
    ASSERT_EQ(driver->LaunchKernel(stream, {{address, 1, true}},
                                   [this, address, &started] {
                                     started.store(true);
                                     while (!open_.load()) {
                                       std::this_thread::yield();
                                     }
                                     *static_cast<volatile uint8_t*>(
                                         ToPointer(address)) = 42;
                                     written_.store(true);
                                   }),
              kOk);
    while (!started.load()) std::this_thread::yield();
  }

  std::atomic<bool> open_{false};
  std::atomic<bool> written_{false};
  CpuTestDevice device_;
  std::unique_ptr<CpuDriver> second_;
};

TEST_P(CpuDriverContextsTest, AContextIsTheSameDevice) {
  EXPECT_EQ(second_->identity().device_ordinal, 0);
  EXPECT_EQ(second_->identity().device_name, device_->identity().device_name);
  int32_t count = 0;
  EXPECT_EQ(second_->DeviceGetCount(&count), kOk);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(device_->context(), 0);
  EXPECT_NE(second_->context(), 0);
  int owner = -1;
  EXPECT_EQ(device_->StreamGetContext(NewStream(second_.get()), &owner), kOk);
  EXPECT_EQ(owner, second_->context());
}

TEST_P(CpuDriverContextsTest, MemoryIsTheDevices) {
  const DevicePtr address = device_.NewMemory();
  const std::vector<uint8_t> pattern = Pattern(64, 3);
  ASSERT_EQ(second_->MemcpyHtoDAsync(address, pattern.data(), pattern.size(),
                                     nullptr),
            kOk);
  ASSERT_EQ(second_->CtxSynchronize(), kOk);
  EXPECT_EQ(device_.Read(address, 64), pattern);
  // Whoever made it, and whether or not that one is still there.
  DevicePtr other = 0;
  const uint64_t bytes = device_.granule_bytes();
  ASSERT_EQ(second_->MemAddressReserve(&other, bytes, 0, 0, 0), kOk);
  PhysicalHandle handle = 0;
  const AllocationProp prop = DeviceProp();
  ASSERT_EQ(second_->MemCreate(&handle, bytes, &prop, 0), kOk);
  ASSERT_EQ(second_->MemMap(other, bytes, 0, handle, 0), kOk);
  second_ = nullptr;
  device_.SetAccess(other);
  device_.Write(other, pattern);
  EXPECT_EQ(device_.Read(other, 64), pattern);
  device_.Unmap(other);
  EXPECT_EQ(device_->MemRelease(handle), kOk);
}

TEST_P(CpuDriverContextsTest, AnEventIsRecordedInItsOwnContextOnly) {
  const StreamHandle first_stream = NewStream(&*device_);
  const StreamHandle second_stream = NewStream(second_.get());
  const EventHandle event = NewEvent(second_.get());
  for (CpuDriver* const driver : {&*device_, second_.get()}) {
    EXPECT_EQ(driver->EventRecord(event, first_stream), kBadHandle);
    EXPECT_EQ(driver->EventRecord(event, second_stream), kOk);
  }
  EXPECT_EQ(device_->EventRecord(event, nullptr), kBadHandle);
  EXPECT_EQ(second_->EventRecord(event, nullptr), kOk);
  EXPECT_THAT(second_->last_report(), HasSubstr("cuEventRecord"));
}

TEST_P(CpuDriverContextsTest, AContextIsSynchronizedAlone) {
  const DevicePtr address = device_.NewMemory();
  const StreamHandle stream = NewStream(&*device_);
  WriteWhenOpen(&*device_, stream, address);
  EXPECT_EQ(second_->CtxSynchronize(), kOk);
  EXPECT_EQ(second_->StreamSynchronize(nullptr), kOk);
  EXPECT_EQ(second_->StreamQuery(stream), kBusy);
  EXPECT_FALSE(written_.load());
  open_.store(true);
  EXPECT_EQ(device_->CtxSynchronize(), kOk);
  EXPECT_TRUE(written_.load());
}

TEST_P(CpuDriverContextsTest, EachContextHasALegacyStreamOfItsOwn) {
  const DevicePtr address = device_.NewMemory();
  uint64_t first_id = 0;
  uint64_t second_id = 0;
  ASSERT_EQ(device_->StreamGetId(nullptr, &first_id), kOk);
  ASSERT_EQ(second_->StreamGetId(nullptr, &second_id), kOk);
  EXPECT_NE(first_id, second_id);
  WriteWhenOpen(&*device_, nullptr, address);
  EXPECT_EQ(second_->MemsetD8Async(address + 64, 1, 64, nullptr), kOk);
  EXPECT_EQ(second_->StreamSynchronize(nullptr), kOk);
  EXPECT_EQ(device_->StreamQuery(nullptr), kBusy);
}

TEST_P(CpuDriverContextsTest, WorkGoesToAStreamOfAnotherContext) {
  const DevicePtr address = device_.NewMemory();
  const StreamHandle stream = NewStream(second_.get());
  const std::vector<uint8_t> zeros(64, 0);
  ASSERT_EQ(device_->MemcpyHtoDAsync(address, zeros.data(), 64, stream), kOk);
  ASSERT_EQ(device_->MemcpyDtoDAsync(address + 64, address, 64, stream), kOk);
  ASSERT_EQ(device_->MemsetD8Async(address + 64, 7, 4, stream), kOk);
  ASSERT_EQ(device_->StreamWriteValue32(stream, address, 9, 0), kOk);
  ASSERT_EQ(device_->StreamWaitValue32(stream, address, 9, kWaitValueEq), kOk);
  int calls = 0;
  ASSERT_EQ(device_->LaunchHostFunc(
                stream, [](void* data) { ++*static_cast<int*>(data); }, &calls),
            kOk);
  // It is the second context's work.
  ASSERT_EQ(second_->CtxSynchronize(), kOk);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(device_.Read(address, 1), std::vector<uint8_t>{9});
  EXPECT_EQ(device_.Read(address + 64, 5),
            (std::vector<uint8_t>{7, 7, 7, 7, 0}));
}

// --- work in flight ---

TEST_P(CpuDriverContextsTest, UnmapUnderWorkOfAnotherContext) {
  const DevicePtr address = device_.NewMemory();
  WriteWhenOpen(second_.get(), NewStream(second_.get()), address);
  std::thread opener;
  if (GetParam() == CpuSync::kDraining) {
    opener = std::thread([this] {
      absl::SleepFor(absl::Milliseconds(30));
      open_.store(true);
    });
  }
  // In the first context.
  device_.Unmap(address);
  if (GetParam() == CpuSync::kDraining) {
    EXPECT_TRUE(written_.load());
    EXPECT_EQ(second_->CtxSynchronize(), kOk);
    EXPECT_EQ(device_->loss(), "");
    opener.join();
    return;
  }
  EXPECT_FALSE(written_.load());
  EXPECT_EQ(device_->CtxSynchronize(), kOk);
  open_.store(true);
  EXPECT_EQ(second_->CtxSynchronize(), kBadAddress);
  // The device is lost, with all of its contexts.
  EXPECT_EQ(device_->CtxSynchronize(), kBadAddress);
  EXPECT_THAT(device_->loss(), HasSubstr("the kernel at position 1"));
  EXPECT_EQ(second_->loss(), device_->loss());
}

TEST_P(CpuDriverContextsTest, ALostDeviceHasNoFurtherContexts) {
  const DevicePtr base = device_.Reserve(1);
  EXPECT_EQ(second_->LaunchKernel(nullptr, {{base, 1, true}}, [] {}), kOk);
  EXPECT_EQ(second_->CtxSynchronize(), kBadAddress);
  EXPECT_THAT(device_->CreateContext(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
  second_ = nullptr;  // still ends
}

// --- how contexts end ---

TEST_P(CpuDriverContextsTest, TheEndOfAContextWaitsForItsWork) {
  const DevicePtr address = device_.NewMemory();
  const StreamHandle stream = NewStream(second_.get());
  const EventHandle event = NewEvent(second_.get());
  WriteWhenOpen(second_.get(), stream, address);
  std::thread opener([this] {
    absl::SleepFor(absl::Milliseconds(30));
    open_.store(true);
  });
  second_ = nullptr;
  EXPECT_TRUE(written_.load());
  EXPECT_EQ(device_->StreamQuery(stream), kBadHandle);
  EXPECT_EQ(device_->EventQuery(event), kBadHandle);
  device_.Unmap(address);
  EXPECT_EQ(device_->CtxSynchronize(), kOk);
  opener.join();
}

TEST_P(CpuDriverContextsTest, AContextOutlivesTheDriverItWasMadeBy) {
  const DevicePtr address = device_.NewMemory();
  device_.Destroy();
  EXPECT_EQ(second_->MemsetD8Async(address, 1, 64, nullptr), kOk);
  EXPECT_EQ(second_->CtxSynchronize(), kOk);
  const std::unique_ptr<CpuDriver> third = NewContext(second_.get());
  EXPECT_EQ(third->MemsetD8Async(address, 2, 64, nullptr), kOk);
}

TEST_P(CpuDriverContextsTest, TheLastContextGivesUpWhatWaitsForEver) {
  const DevicePtr address = device_.NewMemory();
  device_.Write(address, {0, 0, 0, 0});
  ASSERT_EQ(second_->StreamWaitValue32(nullptr, address, 1, kWaitValueEq), kOk);
  device_.Destroy();
  second_ = nullptr;
}

TEST_P(CpuDriverContextsTest, ContextsAreLimited) {
  std::vector<std::unique_ptr<CpuDriver>> contexts;
  while (contexts.size() + 2 < kMaxCpuContexts) {
    contexts.push_back(NewContext(second_.get()));
  }
  EXPECT_THAT(device_->CreateContext(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 64 contexts")));
  contexts.pop_back();
  EXPECT_NE(NewContext(&*device_), nullptr);
}

TEST_P(CpuDriverContextsTest, ContextsMayComeAndGoBesideRemaps) {
  const DevicePtr target = device_.NewMemory();
  std::atomic<uint64_t> next{0};
  // Bytes that no other work writes to.
  const auto take_bytes = [&] { return target + 64 * next.fetch_add(1); };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const std::unique_ptr<CpuDriver> context = NewContext(&*device_);
        const StreamHandle stream = NewStream(&*device_);
        EXPECT_EQ(context->MemsetD8Async(take_bytes(), 1, 64, nullptr), kOk);
        EXPECT_EQ(context->MemsetD8Async(take_bytes(), 2, 64, stream), kOk);
      }
    });
  }
  const DevicePtr moving = device_.Reserve(1);
  const PhysicalHandle handle = device_.Create();
  for (int round = 0; round < 50; ++round) {
    device_.Map(moving, handle);
    device_.SetAccess(moving);
    device_.Unmap(moving);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->CtxSynchronize(), kOk);
}

INSTANTIATE_TEST_SUITE_P(Extremes, CpuDriverContextsTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         [](const auto& info) {
                           return info.param == CpuSync::kLazy ? "Lazy"
                                                               : "Draining";
                         });

TEST(CpuDriverContextsOfDevicesTest, WorkGoesToStreamsOfTheOwnDeviceOnly) {
  CpuDriverOptions options = WithSync(CpuSync::kLazy);
  options.device_count = 2;
  auto devices = CpuDriver::CreateDevices(options);
  ASSERT_TRUE(devices.ok());
  const std::unique_ptr<CpuDriver> context = NewContext((*devices)[1].get());
  EXPECT_EQ(context->identity().device_ordinal, 1);
  const StreamHandle stream = NewStream(context.get());
  EXPECT_EQ((*devices)[0]->LaunchKernel(stream, {}, [] {}), kBadHandle);
  EXPECT_EQ((*devices)[1]->LaunchKernel(stream, {}, [] {}), kOk);
  EXPECT_EQ((*devices)[0]->StreamSynchronize(stream), kOk);
  // Its loss is that of its device alone.
  DevicePtr address = 0;
  ASSERT_EQ(
      context->MemAddressReserve(&address, options.granularity_bytes, 0, 0, 0),
      kOk);
  EXPECT_EQ(context->LaunchKernel(nullptr, {{address, 1, true}}, [] {}), kOk);
  EXPECT_EQ(context->CtxSynchronize(), kBadAddress);
  EXPECT_EQ((*devices)[1]->CtxSynchronize(), kBadAddress);
  EXPECT_EQ((*devices)[0]->CtxSynchronize(), kOk);
  EXPECT_NE((*devices)[1]->loss(), "");
  EXPECT_EQ((*devices)[0]->loss(), "");
}

TEST(CpuDriverContextsOfGhostsTest, ContextsWorkWithoutContents) {
  CpuTestDevice device(GhostOptions());
  const std::unique_ptr<CpuDriver> context = NewContext(&*device);
  const DevicePtr address = device.NewMemory();
  EXPECT_EQ(context->MemsetD8Async(address, 1, 64, nullptr), kOk);
  const StreamHandle stream = NewStream(&*device);
  EXPECT_EQ(context->LaunchKernel(stream, {{address, 1, true}}, [] {}), kOk);
  EXPECT_EQ(context->CtxSynchronize(), kOk);
}

TEST(CpuDriverContextsInHostFunctionsTest, NoneIsMadeThere) {
  CpuTestDevice device(WithSync(CpuSync::kLazy));
  struct Call {
    CpuDriver* driver;
    absl::Status status;
  } call{&*device, absl::OkStatus()};
  ASSERT_EQ(device->LaunchHostFunc(
                nullptr,
                [](void* data) {
                  auto* const made = static_cast<Call*>(data);
                  made->status = made->driver->CreateContext().status();
                },
                &call),
            kOk);
  ASSERT_EQ(device->CtxSynchronize(), kOk);
  EXPECT_THAT(call.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("host function")));
}

TEST(CpuDriverContextsInForkedChildrenTest, NoneIsMadeThereAndAllMayEnd) {
  CpuTestDevice device(WithSync(CpuSync::kLazy));
  std::unique_ptr<CpuDriver> context = NewContext(&*device);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = device->CreateContext().status().code() ==
                         absl::StatusCode::kFailedPrecondition;
    const bool silent = context->loss().empty();
    context = nullptr;
    _exit(refused && silent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace firn::cpu_testing
