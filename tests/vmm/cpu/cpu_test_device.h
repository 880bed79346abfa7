// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CPU driver with short names for what tests do over and over. Its methods
// fail the running test when the driver refuses.

#ifndef FIRN_TESTS_VMM_CPU_CPU_TEST_DEVICE_H_
#define FIRN_TESTS_VMM_CPU_CPU_TEST_DEVICE_H_

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

inline AllocationProp DeviceProp() {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = MemLocation{LocationType::kDevice, 0};
  return prop;
}

inline CpuDriverOptions GhostOptions() {
  CpuDriverOptions options;
  options.storage = CpuStorage::kGhost;
  return options;
}

inline CpuDriverOptions SmallRealOptions() {
  CpuDriverOptions options;
  options.granularity_bytes = 64 << 10;
  options.device_bytes = 16 * kMiB;
  return options;
}

class CpuTestDevice {
 public:
  explicit CpuTestDevice(const CpuDriverOptions& options)
      : granule_bytes_(options.granularity_bytes) {
    auto driver = CpuDriver::Create(options);
    EXPECT_TRUE(driver.ok()) << driver.status();
    if (driver.ok()) driver_ = *std::move(driver);
  }

  CpuDriver& operator*() { return *driver_; }
  CpuDriver* operator->() { return driver_.get(); }
  void Destroy() { driver_ = nullptr; }
  uint64_t granule_bytes() const { return granule_bytes_; }
  DevicePtr At(DevicePtr base, uint64_t granule) const {
    return base + granule * granule_bytes_;
  }

  DevicePtr Reserve(uint64_t granules) {
    DevicePtr address = 0;
    EXPECT_EQ(driver_->MemAddressReserve(&address, granules * granule_bytes_, 0,
                                         0, 0),
              DriverResult::kSuccess);
    return address;
  }
  PhysicalHandle Create(uint64_t granules = 1) {
    const AllocationProp prop = DeviceProp();
    PhysicalHandle handle = 0;
    EXPECT_EQ(driver_->MemCreate(&handle, granules * granule_bytes_, &prop, 0),
              DriverResult::kSuccess);
    return handle;
  }
  DriverResult TryCreate(uint64_t granules) {
    const AllocationProp prop = DeviceProp();
    PhysicalHandle handle = 0;
    return driver_->MemCreate(&handle, granules * granule_bytes_, &prop, 0);
  }
  void Map(DevicePtr address, PhysicalHandle handle, uint64_t granules = 1) {
    EXPECT_EQ(driver_->MemMap(address, granules * granule_bytes_, 0, handle, 0),
              DriverResult::kSuccess);
  }
  void Unmap(DevicePtr address, uint64_t granules = 1) {
    EXPECT_EQ(driver_->MemUnmap(address, granules * granule_bytes_),
              DriverResult::kSuccess);
  }
  DriverResult TrySetAccess(DevicePtr address, uint64_t granules,
                            AccessFlags access) {
    const AccessDesc desc{MemLocation{LocationType::kDevice, 0}, access};
    return driver_->MemSetAccess(address, granules * granule_bytes_, &desc, 1);
  }
  void SetAccess(DevicePtr address, uint64_t granules = 1,
                 AccessFlags access = AccessFlags::kReadWrite) {
    EXPECT_EQ(TrySetAccess(address, granules, access), DriverResult::kSuccess);
  }
  // Reserves, creates, maps and gives access, one handle a granule.
  DevicePtr NewMemory(uint64_t granules = 1) {
    const DevicePtr address = Reserve(granules);
    for (uint64_t i = 0; i < granules; ++i) Map(At(address, i), Create());
    SetAccess(address, granules);
    return address;
  }
  AccessFlags GetAccess(DevicePtr address) {
    const MemLocation location{LocationType::kDevice, 0};
    AccessFlags flags = AccessFlags::kNone;
    EXPECT_EQ(driver_->MemGetAccess(&flags, &location, address),
              DriverResult::kSuccess);
    return flags;
  }
  uint64_t FreeBytes() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(driver_->MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    return free_bytes;
  }

  void Write(DevicePtr address, const std::vector<uint8_t>& bytes) {
    EXPECT_EQ(
        driver_->MemcpyHtoDAsync(address, bytes.data(), bytes.size(), nullptr),
        DriverResult::kSuccess);
    EXPECT_EQ(driver_->StreamSynchronize(nullptr), DriverResult::kSuccess);
  }
  std::vector<uint8_t> Read(DevicePtr address, uint64_t count_bytes) {
    std::vector<uint8_t> bytes(count_bytes);
    EXPECT_EQ(
        driver_->MemcpyDtoHAsync(bytes.data(), address, count_bytes, nullptr),
        DriverResult::kSuccess);
    EXPECT_EQ(driver_->StreamSynchronize(nullptr), DriverResult::kSuccess);
    return bytes;
  }

 private:
  const uint64_t granule_bytes_;
  std::unique_ptr<CpuDriver> driver_;
};

// Bytes that differ between seeds and positions.
inline std::vector<uint8_t> Pattern(uint64_t count_bytes, uint8_t seed) {
  std::vector<uint8_t> bytes(count_bytes);
  for (uint64_t i = 0; i < count_bytes; ++i) {
    bytes[i] = static_cast<uint8_t>(seed + i * 7 + (i >> 8));
  }
  return bytes;
}

inline void* ToPointer(DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// The kernel mappings of this process that touch [start, start + bytes).
inline int KernelMappingsIn(DevicePtr start, uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int count = 0;
  while (std::getline(maps, line)) {
    unsigned long first = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &first, &end) != 2) continue;
    if (first < start + bytes && end > start) ++count;
  }
  return count;
}

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_CPU_TEST_DEVICE_H_
