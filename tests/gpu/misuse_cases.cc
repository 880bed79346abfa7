// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cases about reservations and handles.

#include "tests/gpu/misuse_cases.h"

#include <algorithm>

namespace firn::gpu_check {
namespace {

constexpr auto kFdType = ShareableHandleType::kPosixFileDescriptor;

DriverResult ReserveAs(MisuseStage& stage, size_t bytes, size_t alignment_bytes,
                       uint64_t flags = 0) {
  DevicePtr address = 0;
  return stage.driver().MemAddressReserve(&address, bytes, alignment_bytes, 0,
                                          flags);
}

DriverResult CreateAs(MisuseStage& stage, size_t bytes,
                      const AllocationProp& prop, uint64_t flags = 0) {
  PhysicalHandle handle = 0;
  return stage.driver().MemCreate(&handle, bytes, &prop, flags);
}

DriverResult CreateAt(MisuseStage& stage, MemLocation location) {
  return CreateAs(stage, stage.granule_bytes(), stage.scene().PropAt(location));
}

DriverResult ExportAs(MisuseStage& stage, PhysicalHandle handle,
                      uint64_t flags = 0) {
  int fd = -1;
  return stage.driver().MemExportToShareableHandle(&fd, handle, kFdType, flags);
}

}  // namespace

std::vector<MisuseCase> ReservationCases() {
  return {
      {"reserve zero bytes", [](MisuseStage& s) { return ReserveAs(s, 0, 0); }},
      {"reserve no multiple of the host's page",
       [](MisuseStage& s) { return ReserveAs(s, s.granule_bytes() + 1, 0); }},
      {"reserve one page of the host",
       [](MisuseStage& s) { return ReserveAs(s, 4096, 0); }},
      {"reserve aligned to 3",
       [](MisuseStage& s) { return ReserveAs(s, s.granule_bytes(), 3); }},
      {"reserve with a flag",
       [](MisuseStage& s) { return ReserveAs(s, s.granule_bytes(), 0, 1); }},
      {"reserve without an out parameter",
       [](MisuseStage& s) {
         return s.driver().MemAddressReserve(nullptr, s.granule_bytes(), 0, 0,
                                             0);
       }},
      {"free half of a reservation",
       [](MisuseStage& s) { return s.scene().Free(s.Reserve(2), 1); }},
      {"free from inside a reservation",
       [](MisuseStage& s) { return s.scene().Free(s.At(s.Reserve(2), 1), 1); }},
      {"free a reservation while mapped",
       [](MisuseStage& s) { return s.scene().Free(s.Row(1, 1), 1); }},
      {"free a reservation twice",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(1);
         s.Set("cuMemAddressFree", s.scene().Free(base, 1));
         return s.scene().Free(base, 1);
       }},
      {"free address 0", [](MisuseStage& s) { return s.scene().Free(0, 1); }},
      {"free zero bytes",
       [](MisuseStage& s) { return s.scene().Free(s.Reserve(1), 0); }},
  };
}

std::vector<MisuseCase> HandleCases() {
  return {
      {"create zero bytes",
       [](MisuseStage& s) { return CreateAs(s, 0, s.scene().Prop()); }},
      {"create a granule less a byte",
       [](MisuseStage& s) {
         return CreateAs(s, s.granule_bytes() - 1, s.scene().Prop());
       }},
      {"create half a granule",
       [](MisuseStage& s) {
         return CreateAs(s, s.granule_bytes() / 2, s.scene().Prop());
       }},
      {"create with a flag",
       [](MisuseStage& s) {
         return CreateAs(s, s.granule_bytes(), s.scene().Prop(), 1);
       }},
      {"create without properties",
       [](MisuseStage& s) {
         PhysicalHandle handle = 0;
         return s.driver().MemCreate(&handle, s.granule_bytes(), nullptr, 0);
       }},
      {"create without an out parameter",
       [](MisuseStage& s) {
         const AllocationProp prop = s.scene().Prop();
         return s.driver().MemCreate(nullptr, s.granule_bytes(), &prop, 0);
       }},
      {"create on device -1",
       [](MisuseStage& s) {
         return CreateAt(s, {LocationType::kDevice, -1});
       }},
      {"create on device 999",
       [](MisuseStage& s) {
         return CreateAt(s, {LocationType::kDevice, 999});
       }},
      {"create at no location",
       [](MisuseStage& s) {
         return CreateAt(s, {LocationType::kInvalid, 0});
       }},
      {"create at HOST_NUMA_CURRENT",
       [](MisuseStage& s) {
         return CreateAt(s, {LocationType::kHostNumaCurrent, 0});
       }},
      {"create on host NUMA node 999",
       [](MisuseStage& s) {
         return CreateAt(s, {LocationType::kHostNuma, 999});
       }},
      {"create of no type",
       [](MisuseStage& s) {
         AllocationProp prop = s.scene().Prop();
         prop.type = AllocationType::kInvalid;
         return CreateAs(s, s.granule_bytes(), prop);
       }},
      {"create shareable memory of the host",
       [](MisuseStage& s) {
         AllocationProp prop = s.scene().PropAt({LocationType::kHost, 0});
         prop.requested_handle_types = kFdType;
         return CreateAs(s, s.granule_bytes(), prop);
       }},
      {"release handle 0",
       [](MisuseStage& s) { return s.driver().MemRelease(0); }},
      {"release while mapped (legal)",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(1);
         const PhysicalHandle handle = s.Create();
         s.Map(base, handle);
         return s.driver().MemRelease(handle);
       }},
      {"retain at an unmapped address",
       [](MisuseStage& s) {
         PhysicalHandle handle = 0;
         return s.driver().MemRetainAllocationHandle(&handle, s.Reserve(1));
       }},
      {"retain from inside a mapping (legal)",
       [](MisuseStage& s) {
         PhysicalHandle handle = 0;
         return s.driver().MemRetainAllocationHandle(&handle,
                                                     s.Row(1, 1) + 4096);
       }},
      {"properties of handle 0",
       [](MisuseStage& s) {
         AllocationProp prop;
         return s.driver().MemGetAllocationPropertiesFromHandle(&prop, 0);
       }},
      {"export what was not created for it",
       [](MisuseStage& s) { return ExportAs(s, s.Create()); }},
      {"export with a flag",
       [](MisuseStage& s) {
         AllocationProp prop = s.scene().Prop();
         prop.requested_handle_types = kFdType;
         PhysicalHandle handle = 0;
         s.Set("cuMemCreate",
               s.driver().MemCreate(&handle, s.granule_bytes(), &prop, 0));
         return ExportAs(s, handle, 1);
       }},
      {"import descriptor -1",
       [](MisuseStage& s) {
         PhysicalHandle handle = 0;
         return s.driver().MemImportFromShareableHandle(
             &handle, reinterpret_cast<void*>(intptr_t{-1}), kFdType);
       }},
      {"release a handle twice",
       [](MisuseStage& s) {
         const PhysicalHandle handle = s.Create();
         s.Set("cuMemRelease", s.driver().MemRelease(handle));
         return s.driver().MemRelease(handle);
       },
       /*own_process=*/true},
      {"map a released handle",
       [](MisuseStage& s) {
         const PhysicalHandle handle = s.Create();
         s.Set("cuMemRelease", s.driver().MemRelease(handle));
         return s.scene().Map(s.Reserve(1), handle);
       },
       /*own_process=*/true},
  };
}

std::vector<MisuseCase> AllMisuseCases() {
  std::vector<MisuseCase> all;
  for (const std::vector<MisuseCase>& some :
       {ReservationCases(), HandleCases(), MappingCases(), AccessCases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  std::stable_partition(all.begin(), all.end(), [](const MisuseCase& each) {
    return !each.own_process;
  });
  return all;
}

}  // namespace firn::gpu_check
