// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The cases about mappings and about access.

#include "tests/gpu/misuse_cases.h"

namespace firn::gpu_check {
namespace {

DriverResult MapAs(MisuseStage& stage, DevicePtr address, size_t bytes,
                   size_t offset_bytes, PhysicalHandle handle,
                   uint64_t flags = 0) {
  return stage.driver().MemMap(address, bytes, offset_bytes, handle, flags);
}

DriverResult GrantTo(MisuseStage& stage, DevicePtr address,
                     const AccessDesc& desc) {
  return stage.driver().MemSetAccess(address, stage.granule_bytes(), &desc, 1);
}

// A word written from the host, to the end.
DriverResult Write(MisuseStage& stage, DevicePtr address) {
  static const uint32_t word = 1;
  const StreamHandle stream = stage.Stream();
  return stage.Outcome(
      stage.driver().MemcpyHtoDAsync(address, &word, sizeof(word), stream),
      stream);
}

DriverResult Fill(MisuseStage& stage, DevicePtr address, uint64_t granules) {
  const StreamHandle stream = stage.Stream();
  return stage.Outcome(stage.driver().MemsetD8Async(
                           address, 1, stage.scene().Bytes(granules), stream),
                       stream);
}

// Three granules of which the middle one is not mapped.
DevicePtr RowWithHole(MisuseStage& stage) {
  const DevicePtr base = stage.Reserve(3);
  for (const uint64_t granule : {uint64_t{0}, uint64_t{2}}) {
    stage.Map(stage.At(base, granule), stage.Create());
    stage.SetAccess(stage.At(base, granule), 1);
  }
  return base;
}

}  // namespace

std::vector<MisuseCase> MappingCases() {
  return {
      {"map half of a handle",
       [](MisuseStage& s) { return s.scene().Map(s.Reserve(2), s.Create(2)); }},
      {"map the second half of a handle, by an offset",
       [](MisuseStage& s) {
         return MapAs(s, s.Reserve(2), s.granule_bytes(), s.granule_bytes(),
                      s.Create(2));
       }},
      {"map more than the handle",
       [](MisuseStage& s) {
         return s.scene().Map(s.Reserve(2), s.Create(1), 2);
       }},
      {"map over what is mapped",
       [](MisuseStage& s) { return s.scene().Map(s.Row(1, 1), s.Create()); }},
      {"map outside every reservation",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(1);
         s.Set("cuMemAddressFree", s.scene().Free(base, 1));
         return s.scene().Map(base, s.Create());
       }},
      {"map beyond the end of a reservation",
       [](MisuseStage& s) {
         return s.scene().Map(s.At(s.Reserve(2), 1), s.Create(2), 2);
       }},
      {"map at an address between granules",
       [](MisuseStage& s) {
         return s.scene().Map(s.Reserve(2) + 4096, s.Create());
       }},
      {"map zero bytes",
       [](MisuseStage& s) { return MapAs(s, s.Reserve(1), 0, 0, s.Create()); }},
      {"map handle 0",
       [](MisuseStage& s) { return s.scene().Map(s.Reserve(1), 0); }},
      {"map with a flag",
       [](MisuseStage& s) {
         return MapAs(s, s.Reserve(1), s.granule_bytes(), 0, s.Create(), 1);
       }},
      {"map one handle twice (legal)",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(2);
         const PhysicalHandle handle = s.Create();
         s.Map(base, handle);
         return s.scene().Map(s.At(base, 1), handle);
       }},
      {"unmap half of a mapping",
       [](MisuseStage& s) { return s.scene().Unmap(s.Large(2)); }},
      {"unmap the second half of a mapping",
       [](MisuseStage& s) { return s.scene().Unmap(s.At(s.Large(2), 1)); }},
      {"unmap one and a half mappings",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(4);
         s.Map(base, s.Create(2), 2);
         s.Map(s.At(base, 2), s.Create(2), 2);
         return s.scene().Unmap(base, 3);
       }},
      {"unmap many mappings by one call (legal)",
       [](MisuseStage& s) { return s.scene().Unmap(s.Row(4, 4), 4); }},
      {"unmap a range with a hole",
       [](MisuseStage& s) { return s.scene().Unmap(RowWithHole(s), 3); }},
      {"unmap a range with a tail that is not mapped",
       [](MisuseStage& s) { return s.scene().Unmap(s.Row(1, 2), 2); }},
      {"unmap what is not mapped",
       [](MisuseStage& s) { return s.scene().Unmap(s.Reserve(1)); }},
      {"unmap twice",
       [](MisuseStage& s) {
         const DevicePtr base = s.Row(1, 1);
         s.Set("cuMemUnmap", s.scene().Unmap(base));
         return s.scene().Unmap(base);
       }},
      {"unmap zero bytes",
       [](MisuseStage& s) { return s.driver().MemUnmap(s.Row(1, 1), 0); }},
      {"unmap a mapping less a byte",
       [](MisuseStage& s) {
         return s.driver().MemUnmap(s.Row(1, 1), s.granule_bytes() - 1);
       }},
      {"unmap address 0", [](MisuseStage& s) { return s.scene().Unmap(0); }},
  };
}

std::vector<MisuseCase> AccessCases() {
  return {
      {"set access on half of a mapping",
       [](MisuseStage& s) { return s.scene().SetAccess(s.Large(2), 1); }},
      {"set access on a range with a hole",
       [](MisuseStage& s) { return s.scene().SetAccess(RowWithHole(s), 3); }},
      {"set access on a range with a tail that is not mapped",
       [](MisuseStage& s) { return s.scene().SetAccess(s.Row(1, 2), 2); }},
      {"set access where nothing is mapped",
       [](MisuseStage& s) { return s.scene().SetAccess(s.Reserve(1), 1); }},
      {"set access on many mappings by one call (legal)",
       [](MisuseStage& s) { return s.scene().SetAccess(s.Row(4, 4), 4); }},
      {"set access on zero bytes",
       [](MisuseStage& s) { return s.scene().SetAccess(s.Row(1, 1), 0); }},
      {"set access on a granule less a byte",
       [](MisuseStage& s) {
         const AccessDesc desc = s.scene().Desc();
         return s.driver().MemSetAccess(s.Row(1, 1), s.granule_bytes() - 1,
                                        &desc, 1);
       }},
      {"set access with no descriptor",
       [](MisuseStage& s) {
         const AccessDesc desc = s.scene().Desc();
         return s.driver().MemSetAccess(s.Row(1, 1), s.granule_bytes(), &desc,
                                        0);
       }},
      {"set access without descriptors",
       [](MisuseStage& s) {
         return s.driver().MemSetAccess(s.Row(1, 1), s.granule_bytes(), nullptr,
                                        1);
       }},
      {"set access for device 999",
       [](MisuseStage& s) {
         return GrantTo(
             s, s.Row(1, 1),
             {{LocationType::kDevice, 999}, AccessFlags::kReadWrite});
       }},
      {"set access for no location",
       [](MisuseStage& s) {
         return GrantTo(s, s.Row(1, 1),
                        {{LocationType::kInvalid, 0}, AccessFlags::kReadWrite});
       }},
      {"set access 2",
       [](MisuseStage& s) {
         return GrantTo(s, s.Row(1, 1),
                        {s.scene().Location(), static_cast<AccessFlags>(2)});
       }},
      {"set access of a host NUMA node to memory of the device",
       [](MisuseStage& s) {
         return GrantTo(
             s, s.Row(1, 1),
             {{LocationType::kHostNuma, 0}, AccessFlags::kReadWrite});
       }},
      {"take access away (legal)",
       [](MisuseStage& s) {
         return s.scene().SetAccess(s.Row(1, 1), 1, AccessFlags::kNone);
       }},
      {"get access where nothing is mapped",
       [](MisuseStage& s) {
         AccessFlags flags = AccessFlags::kNone;
         const MemLocation location = s.scene().Location();
         return s.driver().MemGetAccess(&flags, &location, s.Reserve(1));
       }},
      {"get access of device 999",
       [](MisuseStage& s) {
         AccessFlags flags = AccessFlags::kNone;
         const MemLocation location = {LocationType::kDevice, 999};
         return s.driver().MemGetAccess(&flags, &location, s.Row(1, 1));
       }},
      {"address range where nothing is mapped",
       [](MisuseStage& s) {
         DevicePtr base = 0;
         size_t bytes = 0;
         return s.driver().MemGetAddressRange(&base, &bytes, s.Reserve(1));
       }},
      {"write from the host to read-only memory",
       [](MisuseStage& s) {
         const DevicePtr base = s.Row(1, 1);
         s.SetAccess(base, 1, AccessFlags::kRead);
         return Write(s, base);
       },
       /*own_process=*/true},
      {"write from the host to memory without access",
       [](MisuseStage& s) {
         const DevicePtr base = s.Reserve(1);
         s.Map(base, s.Create());
         return Write(s, base);
       },
       /*own_process=*/true},
      {"write from the host where nothing is mapped",
       [](MisuseStage& s) { return Write(s, s.Reserve(1)); },
       /*own_process=*/true},
      {"fill over a hole",
       [](MisuseStage& s) { return Fill(s, RowWithHole(s), 3); },
       /*own_process=*/true},
      {"fill over many mappings (legal)",
       [](MisuseStage& s) { return Fill(s, s.Row(4, 4), 4); }},
      {"wait for a value where nothing is mapped",
       [](MisuseStage& s) {
         const StreamHandle stream = s.Stream();
         return s.driver().StreamWaitValue32(stream, s.Reserve(1), 0,
                                             kWaitValueGeq);
       },
       /*own_process=*/true},
      {"write a value where nothing is mapped",
       [](MisuseStage& s) {
         const StreamHandle stream = s.Stream();
         return s.Outcome(s.driver().StreamWriteValue32(stream, s.Reserve(1), 1,
                                                        kWriteValueDefault),
                          stream);
       },
       /*own_process=*/true},
  };
}

}  // namespace firn::gpu_check
