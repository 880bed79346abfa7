// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Four threads make random calls to one device, each against a shadow model.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/vmm/cpu/cpu_test_device.h"
#include "tests/vmm/cpu/shadow_caller.h"
#include "tests/vmm/cpu/shadow_model.h"

namespace firn::cpu_testing {
namespace {

constexpr uint64_t kCallsPerThread =
    testing::kUnderThreadSanitizer ? 50'000 : 1'000'000;
constexpr int kThreads = 4;
constexpr uint64_t kGranuleBytes = 4 << 10;

int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

class CpuDriverRandomTest : public ::testing::TestWithParam<CpuSync> {};

TEST_P(CpuDriverRandomTest, FourThreadsGetTheAnswersOfTheirShadowModels) {
  const int64_t descriptors_before = OpenDescriptors();
  CpuDriverOptions options;
  options.granularity_bytes = kGranuleBytes;
  options.device_bytes = 16 * kMiB;
  options.sync = GetParam();
  CpuTestDevice device(options);
  const uint64_t free_bytes = device.FreeBytes();
  ShadowMailbox mailbox;
  std::vector<std::unique_ptr<ShadowCaller>> callers;
  for (int i = 0; i < kThreads; ++i) {
    callers.push_back(std::make_unique<ShadowCaller>(
        &*device, kGranuleBytes, /*seed=*/static_cast<uint64_t>(i + 1),
        /*syncs_before_unmap=*/GetParam() == CpuSync::kLazy, &mailbox));
  }
  std::vector<std::thread> threads;
  for (auto& caller : callers) {
    threads.emplace_back([&caller] { caller->Run(kCallsPerThread); });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& caller : callers) {
    EXPECT_STREQ(caller->failure(), "") << device->last_report();
    EXPECT_GE(caller->calls(), kCallsPerThread);
    // Both kinds of answers came up often.
    EXPECT_GT(caller->refusals(), kCallsPerThread / 50);
    EXPECT_GT(caller->looks(), kCallsPerThread / 50);
    caller->Finish();
    EXPECT_STREQ(caller->failure(), "") << "at the end";
  }
  for (ShadowExport left = mailbox.Take(); left.descriptor >= 0;
       left = mailbox.Take()) {
    close(left.descriptor);
  }
  EXPECT_EQ(device.FreeBytes(), free_bytes);
  device.Destroy();
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
}

INSTANTIATE_TEST_SUITE_P(Extremes, CpuDriverRandomTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         [](const ::testing::TestParamInfo<CpuSync>& info) {
                           return info.param == CpuSync::kLazy ? "Lazy"
                                                               : "Draining";
                         });

}  // namespace
}  // namespace firn::cpu_testing
