// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small CPU devices for tests, and recognisable contents for their memory.

#ifndef FIRN_TESTS_SUPPORT_TEST_DEVICE_H_
#define FIRN_TESTS_SUPPORT_TEST_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"
#include "gtest/gtest.h"

namespace firn::testing {

// The granularity of test devices: the smallest one that firn supports.
inline constexpr uint64_t kTestGranuleBytes = uint64_t{64} << 10;

inline std::unique_ptr<CpuDriver> MakeTestDevice(CpuStorage storage,
                                                 uint64_t granules) {
  CpuDriverOptions options;
  options.storage = storage;
  options.granularity_bytes = kTestGranuleBytes;
  options.device_bytes = granules * kTestGranuleBytes;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(options);
  EXPECT_TRUE(driver.ok()) << driver.status();
  return *std::move(driver);
}

// What no allocation of the device holds.
inline uint64_t FreeBytesOf(Driver* driver) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(driver->MemGetInfo(&free_bytes, &total_bytes),
            DriverResult::kSuccess);
  return free_bytes;
}

// Words that tell apart both seeds and positions.
inline std::vector<uint32_t> PatternOf(uint32_t seed, uint64_t bytes) {
  std::vector<uint32_t> words(bytes / sizeof(uint32_t));
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = (seed + 1) * 0x01000193u + static_cast<uint32_t>(i);
  }
  return words;
}

// Writes and reads device memory as a user would, on the default stream.
inline void WriteWords(Driver* driver, DevicePtr address,
                       const std::vector<uint32_t>& words) {
  ASSERT_EQ(driver->MemcpyHtoDAsync(address, words.data(),
                                    words.size() * sizeof(uint32_t), nullptr),
            DriverResult::kSuccess);
  ASSERT_EQ(driver->StreamSynchronize(nullptr), DriverResult::kSuccess);
}

inline std::vector<uint32_t> ReadWords(Driver* driver, DevicePtr address,
                                       uint64_t bytes) {
  std::vector<uint32_t> words(bytes / sizeof(uint32_t));
  EXPECT_EQ(driver->MemcpyDtoHAsync(words.data(), address, bytes, nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(driver->StreamSynchronize(nullptr), DriverResult::kSuccess);
  return words;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_TEST_DEVICE_H_
