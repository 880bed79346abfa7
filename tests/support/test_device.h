// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices for tests, and recognisable contents for their memory.

#ifndef FIRN_TESTS_SUPPORT_TEST_DEVICE_H_
#define FIRN_TESTS_SUPPORT_TEST_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver.h"
#include "gtest/gtest.h"
#include "tests/support/way.h"

namespace firn::testing {

// Skips the running test.
inline void SkipTest(absl::string_view reason) { GTEST_SKIP() << reason; }

// The devices that this run of the test is about: see tests/support/way.h.
// Other tests of the process may be using them too, and a GPU is used by other
// processes: nothing may be assumed of what is free, and nothing may be left.
//
// Where there is no GPU, the running test is skipped with the reason. As no
// constructor can refuse, it gets CPU devices, which save fixtures from having
// to care: the fixture's tests do not run, and what a test body does with them
// counts as skipped.
inline std::unique_ptr<DeviceSet> TestDevices() {
  absl::StatusOr<std::unique_ptr<DeviceSet>> devices = OpenTestDevices();
  if (devices.ok()) return *std::move(devices);
  if (TestWay() == Way::kGpu && absl::IsUnavailable(devices.status())) {
    SkipTest(devices.status().message());
  } else {
    ADD_FAILURE() << devices.status();
  }
  devices = OpenDevices(Way::kCpuLazy, DeviceSetOptions());
  EXPECT_TRUE(devices.ok()) << devices.status();
  return *std::move(devices);
}

// --- A small CPU device, for tests that are about no other ---

// The smallest granularity that firn supports.
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

inline AccessDesc ReadWriteAccess(int32_t device_ordinal) {
  return {{LocationType::kDevice, device_ordinal}, AccessFlags::kReadWrite};
}

// --- Contents ---

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
