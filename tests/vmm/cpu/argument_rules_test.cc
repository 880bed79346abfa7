// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules on reservations and handles, each with the code that a breach of it
// returns.

#include "firn/vmm/cpu/argument_rules.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/rule_scene.h"

namespace firn::cpu_testing {
namespace {

std::vector<Rule> GranularityRules() {
  constexpr auto kMin = GranularityKind::kMinimum;
  return {
      {"granularity: minimum", kOk,
       [](Scene& s) {
         return s.d.MemGetAllocationGranularity(&s.bytes, &s.prop, kMin);
       }},
      {"granularity: recommended", kOk,
       [](Scene& s) {
         return s.d.MemGetAllocationGranularity(&s.bytes, &s.prop,
                                                GranularityKind::kRecommended);
       }},
      {"granularity: no result", kInvalid,
       [](Scene& s) {
         return s.d.MemGetAllocationGranularity(nullptr, &s.prop, kMin);
       }},
      {"granularity: no properties", kInvalid,
       [](Scene& s) {
         return s.d.MemGetAllocationGranularity(&s.bytes, nullptr, kMin);
       }},
      {"granularity: unknown kind", kInvalid,
       [](Scene& s) {
         return s.d.MemGetAllocationGranularity(
             &s.bytes, &s.prop, static_cast<GranularityKind>(2));
       }},
      {"granularity: properties are not looked at", kOk,
       [](Scene& s) {
         s.prop.type = AllocationType::kInvalid;
         s.prop.location.id = -1;
         return s.d.MemGetAllocationGranularity(&s.bytes, &s.prop, kMin);
       }},
  };
}

std::vector<Rule> ReservationRules() {
  return {
      {"reserve: default alignment", kOk,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule, 0, 0, 0);
       }},
      {"reserve: a host page that is no granule", kOk,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, 4096, 0, 0, 0);
       }},
      {"reserve: no result", kInvalid,
       [](Scene& s) {
         return s.d.MemAddressReserve(nullptr, kGranule, 0, 0, 0);
       }},
      {"reserve: nothing", kNoMemory,
       [](Scene& s) { return s.d.MemAddressReserve(&s.address, 0, 0, 0, 0); }},
      {"reserve: no whole host page", kNoMemory,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule + 1, 0, 0, 0);
       }},
      {"reserve: alignment of 3", kNoMemory,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule, 3, 0, 0);
       }},
      {"reserve: more than there are addresses", kNoMemory,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, ~uint64_t{4095}, 0, 0, 0);
       }},
      {"reserve: flags", kInvalid,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule, 0, 0, 1);
       }},
      {"reserve: hint inside a host page", kInvalid,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule, 0, 1, 0);
       }},
      {"reserve: hint that is taken", kOk,
       [](Scene& s) {
         return s.d.MemAddressReserve(&s.address, kGranule, 0, s.base, 0);
       }},
      {"free: while mapped", kInvalid,
       [](Scene& s) { return s.d.MemAddressFree(s.base, 8 * kGranule); }},
      {"free: once unmapped", kOk,
       [](Scene& s) {
         s.device.Unmap(s.base, 3);
         s.device.Unmap(s.At(4));
         return s.d.MemAddressFree(s.base, 8 * kGranule);
       }},
      {"free: a part", kInvalid,
       [](Scene& s) {
         return s.d.MemAddressFree(s.device.Reserve(2), kGranule);
       }},
      {"free: from the middle", kInvalid,
       [](Scene& s) {
         return s.d.MemAddressFree(s.device.Reserve(2) + kGranule, kGranule);
       }},
      {"free: twice", kInvalid,
       [](Scene& s) {
         const DevicePtr address = s.device.Reserve(1);
         EXPECT_EQ(s.d.MemAddressFree(address, kGranule), kOk);
         return s.d.MemAddressFree(address, kGranule);
       }},
      {"free: null", kInvalid,
       [](Scene& s) { return s.d.MemAddressFree(0, kGranule); }},
      {"free: nothing", kInvalid,
       [](Scene& s) { return s.d.MemAddressFree(s.base, 0); }},
  };
}

std::vector<Rule> CreateRules() {
  return {
      {"create: a granule", kOk, [](Scene& s) { return s.Create(s.prop); }},
      {"create: no result", kInvalid,
       [](Scene& s) { return s.d.MemCreate(nullptr, kGranule, &s.prop, 0); }},
      {"create: no properties", kInvalid,
       [](Scene& s) { return s.d.MemCreate(&s.handle, kGranule, nullptr, 0); }},
      {"create: nothing", kInvalid,
       [](Scene& s) { return s.d.MemCreate(&s.handle, 0, &s.prop, 0); }},
      {"create: a granule less a byte", kInvalid,
       [](Scene& s) {
         return s.d.MemCreate(&s.handle, kGranule - 1, &s.prop, 0);
       }},
      {"create: flags", kInvalid,
       [](Scene& s) { return s.d.MemCreate(&s.handle, kGranule, &s.prop, 1); }},
      {"create: more than the device", kNoMemory,
       [](Scene& s) {
         return s.d.MemCreate(&s.handle, 17 * kGranule, &s.prop, 0);
       }},
      {"create: more than is free", kNoMemory,
       [](Scene& s) {
         return s.d.MemCreate(&s.handle, 12 * kGranule, &s.prop, 0);
       }},
      {"create: all that is free", kOk,
       [](Scene& s) {
         return s.d.MemCreate(&s.handle, 11 * kGranule, &s.prop, 0);
       }},
      {"create: invalid type", kInvalid,
       [](Scene& s) {
         s.prop.type = AllocationType::kInvalid;
         return s.Create(s.prop);
       }},
      {"create: unknown type", kInvalid,
       [](Scene& s) {
         s.prop.type = static_cast<AllocationType>(7);
         return s.Create(s.prop);
       }},
      {"create: no location", kInvalid,
       [](Scene& s) {
         s.prop.location.type = LocationType::kInvalid;
         return s.Create(s.prop);
       }},
      {"create: on the current host node", kInvalid,
       [](Scene& s) {
         s.prop.location.type = static_cast<LocationType>(4);
         return s.Create(s.prop);
       }},
      {"create: on device -1", kInvalid,
       [](Scene& s) {
         s.prop.location.id = -1;
         return s.Create(s.prop);
       }},
      {"create: on a device that is not there", kInvalid,
       [](Scene& s) {
         s.prop.location.id = 1;
         return s.Create(s.prop);
       }},
      {"create: on the host", kOk,
       [](Scene& s) {
         s.prop.location.type = LocationType::kHost;
         return s.Create(s.prop);
       }},
      {"create: on a host node", kOk,
       [](Scene& s) {
         s.prop.location.type = LocationType::kHostNuma;
         return s.Create(s.prop);
       }},
      {"create: on a host node that is not there", kInvalid,
       [](Scene& s) {
         s.prop.location = MemLocation{LocationType::kHostNuma, 1};
         return s.Create(s.prop);
       }},
      {"create: on the host, exportable", kInvalid,
       [](Scene& s) {
         s.prop.location.type = LocationType::kHost;
         s.prop.requested_handle_types =
             ShareableHandleType::kPosixFileDescriptor;
         return s.Create(s.prop);
       }},
      {"create: exportable", kOk,
       [](Scene& s) {
         s.prop.requested_handle_types =
             ShareableHandleType::kPosixFileDescriptor;
         return s.Create(s.prop);
       }},
      {"create: for a fabric", kUnsupported,
       [](Scene& s) {
         s.prop.requested_handle_types = ShareableHandleType::kFabric;
         return s.Create(s.prop);
       }},
      {"create: exportable, and for a fabric", kUnsupported,
       [](Scene& s) {
         s.prop.requested_handle_types = static_cast<ShareableHandleType>(9);
         return s.Create(s.prop);
       }},
      {"create: unknown handle type", kInvalid,
       [](Scene& s) {
         s.prop.requested_handle_types = static_cast<ShareableHandleType>(64);
         return s.Create(s.prop);
       }},
      {"create: compression is only a wish", kOk,
       [](Scene& s) {
         s.prop.alloc_flags.compression_type = 1;
         return s.Create(s.prop);
       }},
      {"create: unknown compression", kInvalid,
       [](Scene& s) {
         s.prop.alloc_flags.compression_type = 2;
         return s.Create(s.prop);
       }},
      {"create: for RDMA", kOk,
       [](Scene& s) {
         s.prop.alloc_flags.gpu_direct_rdma_capable = 1;
         return s.Create(s.prop);
       }},
      {"create: for RDMA, neither no nor yes", kInvalid,
       [](Scene& s) {
         s.prop.alloc_flags.gpu_direct_rdma_capable = 2;
         return s.Create(s.prop);
       }},
      {"create: for a tile pool", kUnsupported,
       [](Scene& s) {
         s.prop.alloc_flags.usage = 1;
         return s.Create(s.prop);
       }},
      {"create: unknown usage", kInvalid,
       [](Scene& s) {
         s.prop.alloc_flags.usage = 8;
         return s.Create(s.prop);
       }},
      {"create: reserved bytes set", kInvalid,
       [](Scene& s) {
         s.prop.alloc_flags.reserved[3] = 1;
         return s.Create(s.prop);
       }},
      {"create: metadata of another system", kInvalid,
       [](Scene& s) {
         s.prop.win32_handle_metadata = &s;
         return s.Create(s.prop);
       }},
      {"release: a handle", kOk,
       [](Scene& s) { return s.d.MemRelease(s.spare); }},
      {"release: while mapped", kOk,
       [](Scene& s) { return s.d.MemRelease(s.one); }},
      {"release: null", kInvalid, [](Scene& s) { return s.d.MemRelease(0); }},
      {"release: made up", kInvalid,
       [](Scene& s) { return s.d.MemRelease(s.spare + 1000); }},
      {"release: twice", kInvalid,
       [](Scene& s) {
         EXPECT_EQ(s.d.MemRelease(s.spare), kOk);
         return s.d.MemRelease(s.spare);
       }},
      {"release: twice while mapped", kInvalid,
       [](Scene& s) {
         EXPECT_EQ(s.d.MemRelease(s.one), kOk);
         return s.d.MemRelease(s.one);
       }},
      {"release: outdated", kInvalid,
       [](Scene& s) {
         EXPECT_EQ(s.d.MemRelease(s.spare), kOk);
         s.device.Create();
         return s.d.MemRelease(s.spare);
       }},
  };
}

class ArgumentRulesTest : public RuleTest {};

TEST_P(ArgumentRulesTest, GranularityIsAskedForByKind) {
  Check(GranularityRules());
}

TEST_P(ArgumentRulesTest, ReservationsAreFreedAsTheyWereMade) {
  Check(ReservationRules());
}

TEST_P(ArgumentRulesTest, HandlesAreMadeOfWholeGranulesOnTheDevice) {
  Check(CreateRules());
}

TEST_P(ArgumentRulesTest, ARefusedCallLeavesItsResultAlone) {
  Scene scene(GetParam());
  scene.handle = 77;
  scene.address = 78;
  EXPECT_EQ(scene.d.MemCreate(&scene.handle, 17 * kGranule, &scene.prop, 0),
            kNoMemory);
  EXPECT_EQ(scene.d.MemAddressReserve(&scene.address, 0, 0, 0, 0), kNoMemory);
  EXPECT_EQ(scene.handle, 77u);
  EXPECT_EQ(scene.address, 78u);
}

INSTANTIATE_TEST_SUITE_P(Storages, ArgumentRulesTest, BothStorages(),
                         StorageName);

}  // namespace
}  // namespace firn::cpu_testing
