// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that no real driver has.

#include <cstdint>
#include <cstring>
#include <string>

#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void IncrementWord(void* argument) { ++*static_cast<uint32_t*>(argument); }

class CpuLibcudaExtensionTest : public ::testing::Test {
 protected:
  CpuLibcudaExtensionTest() {
    EXPECT_EQ(Exported<DriverResult(DevicePtr*, size_t)>("cuMemAlloc_v2")(
                  &address_, kGranule),
              DriverResult::kSuccess);
    EXPECT_EQ(api_.MemsetD8Async(address_, 0, kGranule, nullptr),
              DriverResult::kSuccess);
  }
  ~CpuLibcudaExtensionTest() override {
    EXPECT_EQ(Exported<DriverResult(DevicePtr)>("cuMemFree_v2")(address_),
              DriverResult::kSuccess);
  }

  const CudaApi& api_ = StartedApi();
  ScopedPrimaryContext scope_{0};
  DevicePtr address_ = 0;
  const firnCpuLaunchHostKernelFunction launch_ =
      reinterpret_cast<firnCpuLaunchHostKernelFunction>(
          ExportedSymbol("firnCpuLaunchHostKernel"));
  const firnCpuLastReportFunction last_report_ =
      reinterpret_cast<firnCpuLastReportFunction>(
          ExportedSymbol("firnCpuLastReport"));
};

TEST_F(CpuLibcudaExtensionTest, AKernelRunsInStreamOrderOnDeviceAddresses) {
  void* const word_address = reinterpret_cast<void*>(address_);
  firnCpuRange range = {address_, 4, 1};
  EXPECT_EQ(launch_(nullptr, &IncrementWord, word_address, &range, 1), 0);
  EXPECT_EQ(launch_(nullptr, &IncrementWord, word_address, &range, 1), 0);
  range.address = 0;  // was copied
  uint32_t word = 0;
  EXPECT_EQ(api_.MemcpyDtoHAsync(&word, address_, sizeof(word), nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(api_.StreamSynchronize(nullptr), DriverResult::kSuccess);
  EXPECT_EQ(word, 2u);
}

TEST_F(CpuLibcudaExtensionTest, BadArgumentsAreRefused) {
  const auto invalid = static_cast<int>(DriverResult::kInvalidValue);
  EXPECT_EQ(launch_(nullptr, nullptr, nullptr, nullptr, 0), invalid);
  EXPECT_EQ(launch_(nullptr, &IncrementWord, nullptr, nullptr, 1), invalid);
  char buffer[4];
  EXPECT_EQ(last_report_(nullptr, 4), invalid);
  EXPECT_EQ(last_report_(buffer, 0), invalid);
}

TEST_F(CpuLibcudaExtensionTest, TheLastReportNamesTheCallAndTheRule) {
  EXPECT_EQ(api_.MemUnmap(address_, kGranule / 2), DriverResult::kInvalidValue);
  char report[512] = "";
  EXPECT_EQ(last_report_(report, sizeof(report)), 0);
  EXPECT_THAT(report, AllOf(HasSubstr("cuMemUnmap(address=0x"),
                            HasSubstr("bytes=1048576"),
                            HasSubstr("CUDA_ERROR_INVALID_VALUE")));
  char cut[9];
  std::memset(cut, 'x', sizeof(cut));
  EXPECT_EQ(last_report_(cut, sizeof(cut)), 0);
  EXPECT_EQ(cut, std::string(report).substr(0, 8));
}

// Copies between any addresses ask what an address is: no misuse.
TEST_F(CpuLibcudaExtensionTest, CopiesFromHostMemoryAreNotReported) {
  EXPECT_EQ(api_.MemUnmap(address_, kGranule / 2), DriverResult::kInvalidValue);
  uint32_t word = 5;
  EXPECT_EQ(Exported<DriverResult(DevicePtr, DevicePtr, size_t)>("cuMemcpy")(
                address_, reinterpret_cast<DevicePtr>(&word), sizeof(word)),
            DriverResult::kSuccess);
  char report[512] = "";
  EXPECT_EQ(last_report_(report, sizeof(report)), 0);
  EXPECT_THAT(report, HasSubstr("cuMemUnmap("));
}

TEST_F(CpuLibcudaExtensionTest, CallsAreChargedToTheCostProfile) {
  const auto modelled_time = reinterpret_cast<firnCpuModelledTimeFunction>(
      ExportedSymbol("firnCpuModelledTime"));
  double before_us = -1;
  double after_us = -1;
  double copy_us = -1;
  EXPECT_EQ(modelled_time(&before_us, nullptr), 0);
  DevicePtr reserved = 0;
  EXPECT_EQ(api_.MemAddressReserve(&reserved, kGranule, 0, 0, 0),
            DriverResult::kSuccess);
  EXPECT_EQ(api_.MemAddressFree(reserved, kGranule), DriverResult::kSuccess);
  EXPECT_EQ(modelled_time(&after_us, &copy_us), 0);
  EXPECT_GT(after_us, before_us);
  EXPECT_GE(copy_us, 0);
}

}  // namespace
}  // namespace firn::testing
