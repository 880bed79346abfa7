// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cuda/loss_latch.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace firn::testing {
namespace {

CudaContext Context(uintptr_t value) {
  return reinterpret_cast<CudaContext>(value);
}
DriverResult RetainOfOneLibrary(CudaContext*, CudaDeviceId) {
  return DriverResult::kSuccess;
}
DriverResult RetainOfAnotherLibrary(CudaContext* context, CudaDeviceId) {
  *context = nullptr;
  return DriverResult::kSuccess;
}

TEST(LossLatchTest, NothingIsLatchedAtFirst) {
  const LossLatch latch;
  EXPECT_EQ(latch.result(), DriverResult::kSuccess);
  EXPECT_EQ(latch.cause(), "");
}

TEST(LossLatchTest, TheFirstLossStays) {
  LossLatch latch;
  EXPECT_EQ(latch.Latch(DriverCall::kMemMap, DriverResult::kLaunchFailed),
            DriverResult::kLaunchFailed);
  EXPECT_EQ(latch.Latch(DriverCall::kMemUnmap, DriverResult::kIllegalAddress),
            DriverResult::kLaunchFailed);
  EXPECT_EQ(latch.result(), DriverResult::kLaunchFailed);
  EXPECT_EQ(latch.cause(), "cuMemMap: CUDA_ERROR_LAUNCH_FAILED (719)");
}

// The first call of all has the number 0, and so has success.
TEST(LossLatchTest, ALossInTheFirstCallOfAllIsOne) {
  LossLatch latch;
  latch.Latch(static_cast<DriverCall>(0), DriverResult::kDeinitialized);
  EXPECT_EQ(latch.cause(), "cuDeviceGetCount: CUDA_ERROR_DEINITIALIZED (4)");
}

TEST(LossLatchTest, AContextOfALibraryHasOneLatchWhileAnybodyHoldsIt) {
  CudaApi one;
  one.DevicePrimaryCtxRetain = &RetainOfOneLibrary;
  CudaApi another;
  another.DevicePrimaryCtxRetain = &RetainOfAnotherLibrary;
  std::shared_ptr<LossLatch> latch = LossLatch::Of(one, Context(0x10));
  EXPECT_EQ(LossLatch::Of(one, Context(0x10)), latch);
  EXPECT_NE(LossLatch::Of(one, Context(0x20)), latch);
  EXPECT_NE(LossLatch::Of(another, Context(0x10)), latch);

  latch->Latch(DriverCall::kMemMap, DriverResult::kAssert);
  EXPECT_EQ(LossLatch::Of(one, Context(0x10))->result(), DriverResult::kAssert);
  latch.reset();
  EXPECT_EQ(LossLatch::Of(one, Context(0x10))->result(),
            DriverResult::kSuccess);
}

TEST(LossLatchTest, OfManyThreadsAllAreToldTheSameLoss) {
  constexpr DriverResult kResults[] = {
      DriverResult::kIllegalAddress, DriverResult::kLaunchTimeout,
      DriverResult::kAssert, DriverResult::kLaunchFailed};
  for (int round = 0; round < 100; ++round) {
    LossLatch latch;
    std::atomic<int> ready{0};
    std::vector<DriverResult> told(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < told.size(); ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready.load() < 4) std::this_thread::yield();
        told[i] = latch.Latch(DriverCall::kMemMap, kResults[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const DriverResult result : told) EXPECT_EQ(result, latch.result());
  }
}

}  // namespace
}  // namespace firn::testing
