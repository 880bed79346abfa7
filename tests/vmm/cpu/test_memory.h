// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a driver without the driver around it, with short names for
// what tests do over and over. Methods without a result fail the running test
// when the memory refuses.

#ifndef FIRN_TESTS_VMM_CPU_TEST_MEMORY_H_
#define FIRN_TESTS_VMM_CPU_TEST_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/backing.h"
#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/fault_guard.h"
#include "firn/vmm/cpu/ghost_storage.h"
#include "firn/vmm/cpu/real_storage.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {

inline constexpr uint64_t kMemoryGranule = 64 << 10;
inline constexpr uint64_t kMemoryGranules = 16;

inline MemLocation Device(int32_t ordinal) {
  return MemLocation{LocationType::kDevice, ordinal};
}
inline MemLocation Host() { return MemLocation{LocationType::kHost, 0}; }
inline MemLocation HostNode(int32_t node = 0) {
  return MemLocation{LocationType::kHostNuma, node};
}
inline AllocationProp PropAt(const MemLocation& location) {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = location;
  return prop;
}
inline AllocationProp ShareablePropAt(const MemLocation& location) {
  AllocationProp prop = PropAt(location);
  prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  return prop;
}
inline void* AsShareable(int file) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(file));
}

// Two devices that are peers.
inline cpu::MemoryOptions SmallMemory() {
  cpu::MemoryOptions options;
  options.granularity_bytes = kMemoryGranule;
  options.device_granules = kMemoryGranules;
  options.device_count = 2;
  options.max_handles = 1000;
  options.max_mappings = 1000;
  return options;
}

class TestMemory {
 public:
  explicit TestMemory(bool real,
                      const cpu::MemoryOptions& options = SmallMemory())
      : memory_(options, MakeStorage(real, options.granularity_bytes)) {}

  cpu::DeviceMemory& operator*() { return memory_; }
  cpu::DeviceMemory* operator->() { return &memory_; }

  static DevicePtr At(DevicePtr base, uint64_t granule) {
    return base + granule * kMemoryGranule;
  }

  DevicePtr Reserve(uint64_t granules) {
    DevicePtr address = 0;
    ExpectOk(memory_.Reserve(&address, granules * kMemoryGranule, 0, 0, 0));
    return address;
  }
  DriverResult TryCreate(const AllocationProp& prop, uint64_t granules = 1,
                         PhysicalHandle* handle = nullptr) {
    PhysicalHandle ignored = 0;
    return Check(memory_.Create(handle == nullptr ? &ignored : handle,
                                granules * kMemoryGranule, &prop, 0));
  }
  PhysicalHandle Create(const AllocationProp& prop, uint64_t granules = 1) {
    PhysicalHandle handle = 0;
    EXPECT_EQ(TryCreate(prop, granules, &handle), DriverResult::kSuccess);
    return handle;
  }
  PhysicalHandle Create(uint64_t granules = 1) {
    return Create(PropAt(Device(0)), granules);
  }
  void Release(PhysicalHandle handle) { ExpectOk(memory_.Release(handle)); }
  DriverResult TryMap(DevicePtr address, PhysicalHandle handle,
                      uint64_t granules = 1) {
    return Check(memory_.Map(address, granules * kMemoryGranule, 0, handle, 0));
  }
  void Map(DevicePtr address, PhysicalHandle handle, uint64_t granules = 1) {
    EXPECT_EQ(TryMap(address, handle, granules), DriverResult::kSuccess);
  }
  DriverResult TryUnmap(DevicePtr address, uint64_t granules = 1) {
    return Check(memory_.Unmap(address, granules * kMemoryGranule));
  }
  void Unmap(DevicePtr address, uint64_t granules = 1) {
    EXPECT_EQ(TryUnmap(address, granules), DriverResult::kSuccess);
  }
  DriverResult TrySetAccess(DevicePtr address, uint64_t granules,
                            const std::vector<AccessDesc>& descs) {
    return Check(memory_.SetAccess(address, granules * kMemoryGranule,
                                   descs.data(), descs.size()));
  }
  void SetAccess(DevicePtr address, uint64_t granules = 1, int32_t device = 0,
                 AccessFlags access = AccessFlags::kReadWrite) {
    EXPECT_EQ(TrySetAccess(address, granules, {{Device(device), access}}),
              DriverResult::kSuccess);
  }
  AccessFlags GetAccess(DevicePtr address, const MemLocation& location) {
    AccessFlags flags = AccessFlags::kNone;
    ExpectOk(memory_.GetAccess(&flags, &location, address));
    return flags;
  }
  // Reserves, creates, maps, and gives device 0 access.
  DevicePtr NewMemory(const AllocationProp& prop = PropAt(Device(0)),
                      PhysicalHandle* handle = nullptr) {
    const DevicePtr address = Reserve(1);
    const PhysicalHandle created = Create(prop);
    if (handle != nullptr) *handle = created;
    Map(address, created);
    SetAccess(address);
    return address;
  }
  int Export(PhysicalHandle handle) {
    int file = -1;
    ExpectOk(memory_.Export(&file, handle,
                            ShareableHandleType::kPosixFileDescriptor, 0));
    return file;
  }
  DriverResult TryImport(int file, PhysicalHandle* handle) {
    return Check(memory_.Import(handle, AsShareable(file),
                                ShareableHandleType::kPosixFileDescriptor));
  }
  PhysicalHandle Import(int file) {
    PhysicalHandle handle = 0;
    EXPECT_EQ(TryImport(file, &handle), DriverResult::kSuccess);
    return handle;
  }
  uint64_t FreeGranules(int device = 0) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ExpectOk(memory_.GetInfo(device, &free_bytes, &total_bytes));
    return free_bytes / kMemoryGranule;
  }
  bool Permits(int device, DevicePtr address, uint64_t bytes, bool writes,
               uint64_t since_epoch = ~uint64_t{0}) {
    return memory_
        .CheckAccess(device, {cpu::AccessRange{address, bytes, writes}},
                     since_epoch, nullptr)
        .ok();
  }

  // The result of a call, which says what would be right exactly when it is
  // refused.
  static DriverResult Check(const cpu::Verdict& verdict) {
    EXPECT_EQ(verdict.ok(), verdict.rule == nullptr);
    if (verdict.rule != nullptr) {
      const std::string rule = verdict.rule;
      EXPECT_GT(rule.size(), 10u);
      EXPECT_NE(rule.back(), '.') << rule;
    }
    return verdict.result;
  }
  static void ExpectOk(const cpu::Verdict& verdict) {
    EXPECT_TRUE(verdict.ok()) << verdict.rule;
  }

 private:
  std::unique_ptr<cpu::Storage> MakeStorage(bool real,
                                            uint64_t granularity_bytes) {
    if (!real) return std::make_unique<cpu::GhostStorage>();
    auto backing = cpu::Backing::Create(granularity_bytes, /*poison=*/false);
    EXPECT_TRUE(backing.ok()) << backing.status();
    return std::make_unique<cpu::RealStorage>(
        granularity_bytes, *std::move(backing), &guard_,
        [] { return cpu::WorkInFlight(); });
  }

  cpu::FaultGuard guard_;
  cpu::DeviceMemory memory_;
};

// What is at an address that the host's MMU lets everybody access.
inline volatile uint8_t& ByteAt(DevicePtr address) {
  return *reinterpret_cast<volatile uint8_t*>(static_cast<uintptr_t>(address));
}

// The parameter tells whether memory has contents.
class MemoryTest : public ::testing::TestWithParam<bool> {};

inline std::string MemoryKind(const ::testing::TestParamInfo<bool>& real) {
  return real.param ? "Real" : "Ghost";
}

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_TEST_MEMORY_H_
