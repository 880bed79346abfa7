// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The scene in which the rules on a driver's arguments are tried, and the
// rules' form: a call, and the code that it must return.

#ifndef FIRN_TESTS_VMM_CPU_RULE_SCENE_H_
#define FIRN_TESTS_VMM_CPU_RULE_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/cpu_test_device.h"

namespace firn::cpu_testing {

inline constexpr uint64_t kGranule = 64 << 10;
inline constexpr DriverResult kOk = DriverResult::kSuccess;
inline constexpr DriverResult kInvalid = DriverResult::kInvalidValue;
inline constexpr DriverResult kBadHandle = DriverResult::kInvalidHandle;
inline constexpr DriverResult kNoMemory = DriverResult::kOutOfMemory;
inline constexpr DriverResult kUnsupported = DriverResult::kNotSupported;
inline const MemLocation kDevice{LocationType::kDevice, 0};

// What each rule is tried on: eight granules of addresses, with handles mapped
// as in "1 2 2 - 3 - - -": 1 read-write, 2 (two granules) read-only, 3 without
// access.
struct Scene {
  explicit Scene(CpuStorage storage) : device(Options(storage)), d(*device) {
    base = device.Reserve(8);
    one = device.Create();
    two = device.Create(2);
    three = device.Create();
    spare = device.Create();
    device.Map(base, one);
    device.Map(At(1), two, 2);
    device.Map(At(4), three);
    device.SetAccess(base, 1, AccessFlags::kReadWrite);
    device.SetAccess(At(1), 2, AccessFlags::kRead);
    EXPECT_EQ(d.StreamCreate(&stream, kStreamNonBlocking), kOk);
    EXPECT_EQ(d.EventCreate(&event, kEventDisableTiming), kOk);
    EXPECT_EQ(d.StreamCreate(&gone_stream, kStreamDefault), kOk);
    EXPECT_EQ(d.StreamDestroy(gone_stream), kOk);
    EXPECT_EQ(d.EventCreate(&gone_event, kEventDefault), kOk);
    EXPECT_EQ(d.EventDestroy(gone_event), kOk);
  }

  static CpuDriverOptions Options(CpuStorage storage) {
    CpuDriverOptions options;
    options.storage = storage;
    options.granularity_bytes = kGranule;
    options.device_bytes = 16 * kGranule;
    return options;
  }
  DevicePtr At(uint64_t granule) const { return device.At(base, granule); }
  DriverResult Create(const AllocationProp& with) {
    return d.MemCreate(&handle, kGranule, &with, 0);
  }
  DriverResult SetAccess(DevicePtr address, uint64_t bytes) {
    const AccessDesc desc{kDevice, AccessFlags::kReadWrite};
    return d.MemSetAccess(address, bytes, &desc, 1);
  }
  DriverResult SetAccessDesc(LocationType type, int32_t id, int32_t flags) {
    const AccessDesc desc{{type, id}, static_cast<AccessFlags>(flags)};
    return d.MemSetAccess(base, kGranule, &desc, 1);
  }
  DriverResult GetAccess(LocationType type, int32_t id, DevicePtr address) {
    const MemLocation location{type, id};
    return d.MemGetAccess(&flags, &location, address);
  }

  CpuTestDevice device;
  CpuDriver& d;
  AllocationProp prop = DeviceProp();
  DevicePtr base = 0;
  PhysicalHandle one = 0;
  PhysicalHandle two = 0;
  PhysicalHandle three = 0;
  PhysicalHandle spare = 0;
  StreamHandle stream = nullptr;
  StreamHandle gone_stream = nullptr;
  EventHandle event = nullptr;
  EventHandle gone_event = nullptr;
  char host[16] = {};
  // Where calls put what they return.
  size_t bytes = 0;
  DevicePtr address = 0;
  PhysicalHandle handle = 0;
  AccessFlags flags = AccessFlags::kNone;
  uint64_t id = 0;
  CaptureStatus capture = CaptureStatus::kActive;
};

struct Rule {
  std::string name;
  DriverResult result;
  std::function<DriverResult(Scene&)> call;
};

// Tries each rule in a scene of its own, on the storage of the parameter.
class RuleTest : public ::testing::TestWithParam<CpuStorage> {
 protected:
  void Check(const std::vector<Rule>& rules) {
    for (const Rule& rule : rules) {
      SCOPED_TRACE(rule.name);
      Scene scene(GetParam());
      EXPECT_EQ(rule.call(scene), rule.result);
      // A refusal is not fatal.
      EXPECT_EQ(scene.d.CtxSynchronize(), kOk);
    }
  }
};

inline auto BothStorages() {
  return ::testing::Values(CpuStorage::kReal, CpuStorage::kGhost);
}
inline std::string StorageName(
    const ::testing::TestParamInfo<CpuStorage>& storage) {
  return storage.param == CpuStorage::kReal ? "Real" : "Ghost";
}

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_RULE_SCENE_H_
