// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules on mappings and access, each with the code that a breach of it
// returns.

#include "firn/vmm/cpu/device_memory.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/rule_scene.h"

namespace firn::cpu_testing {
namespace {

std::vector<Rule> MapRules() {
  return {
      {"map: a free granule", kOk,
       [](Scene& s) { return s.d.MemMap(s.At(3), kGranule, 0, s.spare, 0); }},
      {"map: the last granule", kOk,
       [](Scene& s) { return s.d.MemMap(s.At(7), kGranule, 0, s.spare, 0); }},
      {"map: a handle once more", kOk,
       [](Scene& s) { return s.d.MemMap(s.At(3), kGranule, 0, s.one, 0); }},
      {"map: over a mapping", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(4), kGranule, 0, s.spare, 0); }},
      {"map: over the middle of a mapping", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(2), kGranule, 0, s.spare, 0); }},
      {"map: partly over a mapping", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(3), 2 * kGranule, 0, s.two, 0); }},
      {"map: beyond the reservation", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(7), 2 * kGranule, 0, s.two, 0); }},
      {"map: behind the reservation", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(8), kGranule, 0, s.spare, 0); }},
      {"map: null", kInvalid,
       [](Scene& s) { return s.d.MemMap(0, kGranule, 0, s.spare, 0); }},
      {"map: nothing", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(3), 0, 0, s.spare, 0); }},
      {"map: a part of a handle", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(5), kGranule, 0, s.two, 0); }},
      {"map: more than a handle", kInvalid,
       [](Scene& s) {
         return s.d.MemMap(s.At(5), 2 * kGranule, 0, s.spare, 0);
       }},
      {"map: part of a granule", kInvalid,
       [](Scene& s) {
         return s.d.MemMap(s.At(5), kGranule / 2, 0, s.spare, 0);
       }},
      {"map: between granules", kInvalid,
       [](Scene& s) {
         return s.d.MemMap(s.At(5) + 4096, kGranule, 0, s.spare, 0);
       }},
      {"map: with an offset", kInvalid,
       [](Scene& s) {
         return s.d.MemMap(s.At(5), kGranule, kGranule, s.two, 0);
       }},
      {"map: flags", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(5), kGranule, 0, s.spare, 1); }},
      {"map: null handle", kInvalid,
       [](Scene& s) { return s.d.MemMap(s.At(5), kGranule, 0, 0, 0); }},
      {"map: a handle released but mapped", kInvalid,
       [](Scene& s) {
         EXPECT_EQ(s.d.MemRelease(s.one), kOk);
         return s.d.MemMap(s.At(5), kGranule, 0, s.one, 0);
       }},
      {"map: a range that wraps around", kInvalid,
       [](Scene& s) {
         return s.d.MemMap(s.At(5), ~uint64_t{0} << 20, 0, s.spare, 0);
       }},
      {"unmap: a mapping", kOk,
       [](Scene& s) { return s.d.MemUnmap(s.At(1), 2 * kGranule); }},
      {"unmap: a row of mappings", kOk,
       [](Scene& s) { return s.d.MemUnmap(s.base, 3 * kGranule); }},
      {"unmap: a mapping without access", kOk,
       [](Scene& s) { return s.d.MemUnmap(s.At(4), kGranule); }},
      {"unmap: the head of a mapping", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.At(1), kGranule); }},
      {"unmap: the tail of a mapping", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.At(2), kGranule); }},
      {"unmap: a mapping less a byte", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.base, kGranule - 1); }},
      {"unmap: across a hole", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.base, 5 * kGranule); }},
      {"unmap: with a tail that is not mapped", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.At(4), 2 * kGranule); }},
      {"unmap: what is not mapped", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.At(3), kGranule); }},
      {"unmap: twice", kInvalid,
       [](Scene& s) {
         EXPECT_EQ(s.d.MemUnmap(s.base, kGranule), kOk);
         return s.d.MemUnmap(s.base, kGranule);
       }},
      {"unmap: null", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(0, kGranule); }},
      {"unmap: nothing", kInvalid,
       [](Scene& s) { return s.d.MemUnmap(s.base, 0); }},
      {"retain: inside a mapping", kOk,
       [](Scene& s) {
         return s.d.MemRetainAllocationHandle(&s.handle, s.At(2) + 5);
       }},
      {"retain: no result", kInvalid,
       [](Scene& s) { return s.d.MemRetainAllocationHandle(nullptr, s.base); }},
      {"retain: unmapped", kInvalid,
       [](Scene& s) {
         return s.d.MemRetainAllocationHandle(&s.handle, s.At(3));
       }},
      {"retain: not reserved", kInvalid,
       [](Scene& s) { return s.d.MemRetainAllocationHandle(&s.handle, 64); }},
      {"info: no results", kInvalid,
       [](Scene& s) { return s.d.MemGetInfo(nullptr, &s.bytes); }},
      {"info: no total", kInvalid,
       [](Scene& s) { return s.d.MemGetInfo(&s.bytes, nullptr); }},
  };
}

std::vector<Rule> AccessRules() {
  constexpr auto kDev = LocationType::kDevice;
  return {
      {"set access: a row of mappings", kOk,
       [](Scene& s) { return s.SetAccess(s.base, 3 * kGranule); }},
      {"set access: a mapping without access", kOk,
       [](Scene& s) { return s.SetAccess(s.At(4), kGranule); }},
      {"set access: across a hole", kInvalid,
       [](Scene& s) { return s.SetAccess(s.base, 5 * kGranule); }},
      {"set access: the head of a mapping", kInvalid,
       [](Scene& s) { return s.SetAccess(s.base, 2 * kGranule); }},
      {"set access: the tail of a mapping", kInvalid,
       [](Scene& s) { return s.SetAccess(s.At(2), kGranule); }},
      {"set access: what is not mapped", kInvalid,
       [](Scene& s) { return s.SetAccess(s.At(3), kGranule); }},
      {"set access: a byte less", kInvalid,
       [](Scene& s) { return s.SetAccess(s.base, kGranule - 1); }},
      {"set access: a byte more", kInvalid,
       [](Scene& s) { return s.SetAccess(s.base, kGranule + 1); }},
      {"set access: nothing", kInvalid,
       [](Scene& s) { return s.SetAccess(s.base, 0); }},
      {"set access: null", kInvalid,
       [](Scene& s) { return s.SetAccess(0, kGranule); }},
      {"set access: no descriptors", kInvalid,
       [](Scene& s) { return s.d.MemSetAccess(s.base, kGranule, nullptr, 1); }},
      {"set access: zero descriptors", kInvalid,
       [](Scene& s) {
         const AccessDesc desc{kDevice, AccessFlags::kRead};
         return s.d.MemSetAccess(s.base, kGranule, &desc, 0);
       }},
      {"set access: contradicting descriptors", kInvalid,
       [](Scene& s) {
         const AccessDesc descs[] = {{kDevice, AccessFlags::kRead},
                                     {kDevice, AccessFlags::kNone}};
         return s.d.MemSetAccess(s.base, kGranule, descs, 2);
       }},
      {"set access: none", kOk,
       [](Scene& s) { return s.SetAccessDesc(kDev, 0, 0); }},
      {"set access: write only", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(kDev, 0, 2); }},
      {"set access: unknown access", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(kDev, 0, 4); }},
      {"set access: for another device", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(kDev, 1, 3); }},
      {"set access: for device -1", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(kDev, -1, 3); }},
      {"set access: for no location", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(LocationType::kInvalid, 0, 3); }},
      {"set access: for a host node", kInvalid,
       [](Scene& s) { return s.SetAccessDesc(LocationType::kHostNuma, 0, 3); }},
      {"get access: inside a mapping", kOk,
       [](Scene& s) { return s.GetAccess(kDev, 0, s.base + 17); }},
      {"get access: mapped without access", kOk,
       [](Scene& s) { return s.GetAccess(kDev, 0, s.At(4)); }},
      {"get access: unmapped", kInvalid,
       [](Scene& s) { return s.GetAccess(kDev, 0, s.At(3)); }},
      {"get access: not reserved", kInvalid,
       [](Scene& s) { return s.GetAccess(kDev, 0, 64); }},
      {"get access: for another device", kInvalid,
       [](Scene& s) { return s.GetAccess(kDev, 1, s.base); }},
      {"get access: for no location", kInvalid,
       [](Scene& s) { return s.GetAccess(LocationType::kInvalid, 0, s.base); }},
      {"get access: no result", kInvalid,
       [](Scene& s) { return s.d.MemGetAccess(nullptr, &kDevice, s.base); }},
      {"get access: null location", kInvalid,
       [](Scene& s) { return s.d.MemGetAccess(&s.flags, nullptr, s.base); }},
  };
}

class DeviceMemoryRulesTest : public RuleTest {};

TEST_P(DeviceMemoryRulesTest, HandlesAreMappedAndUnmappedWhole) {
  Check(MapRules());
}

TEST_P(DeviceMemoryRulesTest, AccessIsGivenToWholeMappings) {
  Check(AccessRules());
}

TEST_P(DeviceMemoryRulesTest, ARangeAcrossTwoReservationsIsRefused) {
  CpuTestDevice device(Scene::Options(GetParam()));
  // Two neighbours: where one reservation was.
  const DevicePtr first = device.Reserve(2);
  const DevicePtr second = device.At(first, 1);
  ASSERT_EQ(device->MemAddressFree(first, 2 * kGranule), kOk);
  for (const DevicePtr wanted : {first, second}) {
    DevicePtr address = 0;
    ASSERT_EQ(device->MemAddressReserve(&address, kGranule, 0, wanted, 0), kOk);
    ASSERT_EQ(address, wanted);
    device.Map(address, device.Create());
  }
  EXPECT_EQ(device.TrySetAccess(first, 2, AccessFlags::kReadWrite), kInvalid);
  EXPECT_EQ(device->MemUnmap(first, 2 * kGranule), kInvalid);
  // Copies see addresses, not reservations.
  device.SetAccess(first);
  EXPECT_EQ(device->MemsetD8Async(first, 0, 2 * kGranule, nullptr), kInvalid);
  device.SetAccess(second);
  EXPECT_EQ(device->MemsetD8Async(first, 0, 2 * kGranule, nullptr), kOk);
  EXPECT_EQ(device->CtxSynchronize(), kOk);
}

INSTANTIATE_TEST_SUITE_P(Storages, DeviceMemoryRulesTest, BothStorages(),
                         StorageName);

}  // namespace
}  // namespace firn::cpu_testing
