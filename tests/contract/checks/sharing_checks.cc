// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Exporting memory as file descriptors and importing it.

#include <fcntl.h>
#include <unistd.h>

#include "tests/contract/contract_device.h"
#include "tests/contract/peer_process.h"

namespace firn::contract {
namespace {

constexpr auto kFdType = ShareableHandleType::kPosixFileDescriptor;

void* AsShareable(int fd) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(fd));
}

// Memory that may be exported, and what a check needs of it. Closes its
// descriptor.
class Shared {
 public:
  explicit Shared(ContractDevice* device) : device_(device) {
    AllocationProp prop = device->Prop();
    prop.requested_handle_types = kFdType;
    created_ = device->MemCreate(&handle_, device->granule_bytes(), &prop, 0);
  }
  ~Shared() { Close(); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  DriverResult created() const { return created_; }
  PhysicalHandle handle() const { return handle_; }
  int fd() const { return fd_; }
  DriverResult Export() {
    return device_->MemExportToShareableHandle(&fd_, handle_, kFdType, 0);
  }
  DriverResult Import(PhysicalHandle* handle) {
    return device_->MemImportFromShareableHandle(handle, AsShareable(fd_),
                                                 kFdType);
  }
  void Close() {
    if (fd_ != -1) close(fd_);
    fd_ = -1;
  }

 private:
  ContractDevice* const device_;
  DriverResult created_;
  PhysicalHandle handle_ = 0;
  int fd_ = -1;
};

#define FIRN_NEEDS_DESCRIPTORS()                                       \
  FIRN_NEEDS(device.Has(DeviceAttribute::kPosixFileDescriptorHandles), \
             "no handles as file descriptors")

// --- export ---

FIRN_CONTRACT(export_handle, gives_a_file_descriptor,
              Documented("CUDA programming guide, virtual memory management: "
                         "POSIX file descriptors")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  FIRN_HOLDS(shared.fd() >= 0 && fcntl(shared.fd(), F_GETFD) != -1);
}

FIRN_CONTRACT(export_handle, needs_the_type_asked_for_at_creation,
              Documented("CUDA programming guide, virtual memory management: "
                         "requestedHandleTypes")) {
  int fd = -1;
  const DriverResult came =
      device.MemExportToShareableHandle(&fd, device.Create(), kFdType, 0);
  if (came == DriverResult::kSuccess) close(fd);
  FIRN_REFUSES(came);
}

FIRN_CONTRACT(export_handle, refuses_other_types,
              Documented("cuda.h, cuMemExportToShareableHandle")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  char output[64] = {};
  FIRN_REFUSES(device.MemExportToShareableHandle(
      output, shared.handle(), ShareableHandleType::kNone, 0));
  FIRN_REFUSES(device.MemExportToShareableHandle(
      output, shared.handle(), ShareableHandleType::kFabric, 0));
}

FIRN_CONTRACT(export_handle, flags_are_zero,
              Documented("cuda.h, cuMemExportToShareableHandle: flags")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  int fd = -1;
  FIRN_REFUSES(
      device.MemExportToShareableHandle(&fd, shared.handle(), kFdType, 1));
}

FIRN_CONTRACT(export_handle, null_output_is_refused,
              Observed("hip-tests, hipMemExportToShareableHandle.cc")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_REFUSES(
      device.MemExportToShareableHandle(nullptr, shared.handle(), kFdType, 0));
}

FIRN_CONTRACT(export_handle, unknown_handle_is_refused,
              Strict("NVIDIA's driver need not notice")) {
  int fd = -1;
  FIRN_REFUSES(
      device.MemExportToShareableHandle(&fd, 0x123456789abcdef, kFdType, 0));
}

FIRN_CONTRACT(export_handle, descriptor_keeps_memory_alive,
              Documented("cuda.h, cuMemRelease: shareable counterparts")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  const DevicePtr first = device.MapAnywhere(shared.handle());
  FIRN_WORKS(device.FillGranule(first, 0x62));
  FIRN_WORKS(shared.Export());
  FIRN_WORKS(device.Unmap(first));
  FIRN_WORKS(device.MemRelease(shared.handle()));
  // Memory made now must be other memory.
  FIRN_WORKS(device.FillGranule(device.MapRow(), 0x63));
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  FIRN_HOLDS(device.GranuleIs(device.MapAnywhere(imported), 0x62));
}

// --- import ---

FIRN_CONTRACT(import_handle, shares_contents,
              Documented("cuda.h, cuMemExportToShareableHandle: shares the "
                         "memory")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  const DevicePtr mine = device.MapAnywhere(shared.handle());
  const DevicePtr theirs = device.MapAnywhere(imported);
  FIRN_WORKS(device.FillGranule(mine, 0x64));
  FIRN_HOLDS(device.GranuleIs(theirs, 0x64));
  FIRN_WORKS(device.FillGranule(theirs, 0x65));
  FIRN_HOLDS(device.GranuleIs(mine, 0x65));
}

FIRN_CONTRACT(import_handle, outlives_the_exporters_handle,
              Documented("cuda.h, cuMemRelease: references and shareable "
                         "counterparts")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  const DevicePtr mine = device.MapAnywhere(shared.handle());
  FIRN_WORKS(device.FillGranule(mine, 0x67));
  FIRN_WORKS(shared.Export());
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  shared.Close();
  FIRN_WORKS(device.Unmap(mine));
  FIRN_WORKS(device.MemRelease(shared.handle()));
  FIRN_WORKS(device.FillGranule(device.MapRow(), 0x68));
  const DevicePtr theirs = device.Reserve(1);
  FIRN_WORKS(device.Map(theirs, imported));
  FIRN_WORKS(device.SetAccess(theirs, 1));
  FIRN_HOLDS(device.GranuleIs(theirs, 0x67));
}

FIRN_CONTRACT(import_handle, leaves_the_descriptor_to_its_owner,
              Documented("CUDA programming guide, virtual memory management: "
                         "the descriptor is closed by who holds it")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle first = 0;
  PhysicalHandle second = 0;
  FIRN_WORKS(shared.Import(&first));
  FIRN_HOLDS(fcntl(shared.fd(), F_GETFD) != -1);
  FIRN_WORKS(shared.Import(&second));
}

FIRN_CONTRACT(import_handle, each_is_paired_with_a_release,
              Documented("cuda.h, cuMemRelease: each import"), kOwnMemoryInfo) {
  const uint64_t before = device.FreeBytes();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle first = 0;
  PhysicalHandle second = 0;
  FIRN_WORKS(shared.Import(&first));
  FIRN_WORKS(shared.Import(&second));
  shared.Close();
  FIRN_WORKS(device.MemRelease(shared.handle()));
  FIRN_WORKS(device.MemRelease(first));
  FIRN_EQUALS(before - device.granule_bytes(), device.FreeBytes());
  FIRN_WORKS(device.MemRelease(second));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(import_handle, is_released_while_mapped,
              Documented("cuda.h, cuMemRelease: outstanding mappings")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  const DevicePtr address = device.MapAnywhere(imported);
  FIRN_WORKS(device.FillGranule(address, 0x69));
  FIRN_WORKS(device.MemRelease(imported));
  FIRN_HOLDS(device.GranuleIs(address, 0x69));
}

FIRN_CONTRACT(import_handle, has_the_properties_of_the_original,
              Inferred("cuda.h, cuMemGetAllocationPropertiesFromHandle")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  AllocationProp prop;
  FIRN_WORKS(device.MemGetAllocationPropertiesFromHandle(&prop, imported));
  FIRN_HOLDS(prop.location.type == LocationType::kDevice);
  FIRN_EQUALS(device.ordinal(), prop.location.id);
}

FIRN_CONTRACT(import_handle, refuses_a_descriptor_that_is_not_open,
              Documented("cuda.h, cuMemImportFromShareableHandle: "
                         "INVALID_VALUE")) {
  PhysicalHandle handle = 0;
  FIRN_REFUSES(
      device.MemImportFromShareableHandle(&handle, AsShareable(-1), kFdType));
}

FIRN_CONTRACT(import_handle, refuses_a_descriptor_of_something_else,
              Inferred("cuda.h, cuMemImportFromShareableHandle: an exported "
                       "handle")) {
  const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  FIRN_HOLDS(fd >= 0);
  PhysicalHandle handle = 0;
  const DriverResult came =
      device.MemImportFromShareableHandle(&handle, AsShareable(fd), kFdType);
  close(fd);
  FIRN_REFUSES(came);
}

FIRN_CONTRACT(import_handle, refuses_other_types,
              Documented("cuda.h, cuMemImportFromShareableHandle")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  PhysicalHandle handle = 0;
  FIRN_REFUSES(device.MemImportFromShareableHandle(
      &handle, AsShareable(shared.fd()), ShareableHandleType::kNone));
}

FIRN_CONTRACT(import_handle, null_output_is_refused,
              Observed("hip-tests, hipMemImportFromShareableHandle.cc")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  FIRN_REFUSES(shared.Import(nullptr));
}

FIRN_CONTRACT(import_handle, takes_no_device_memory,
              Inferred("cuda.h, cuMemImportFromShareableHandle: the same "
                       "memory"),
              kOwnMemoryInfo) {
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  FIRN_WORKS(shared.Export());
  const uint64_t before = device.FreeBytes();
  PhysicalHandle imported = 0;
  FIRN_WORKS(shared.Import(&imported));
  FIRN_EQUALS(before, device.FreeBytes());
}

FIRN_CONTRACT(import_handle, works_in_another_process,
              Documented("cuda.h, cuMemExportToShareableHandle: other "
                         "processes")) {
  FIRN_NEEDS_DESCRIPTORS();
  Shared shared(&device);
  FIRN_WORKS(shared.created());
  const DevicePtr address = device.MapAnywhere(shared.handle());
  FIRN_WORKS(device.FillGranule(address, kExportedByte));
  FIRN_WORKS(shared.Export());
  FIRN_EQUALS(0, RunPeerProcess(kImporterRole, device.way(), shared.fd()));
  FIRN_HOLDS(device.GranuleIs(address, kAnsweredByte));
}

FIRN_CONTRACT(import_handle, outlives_the_exporting_process,
              Documented("cuda.h, cuMemRelease: shareable counterparts")) {
  FIRN_NEEDS_DESCRIPTORS();
  const int fd = RunExporterProcess(device.way());
  FIRN_HOLDS(fd != -1);
  PhysicalHandle handle = 0;
  const DriverResult came =
      device.MemImportFromShareableHandle(&handle, AsShareable(fd), kFdType);
  close(fd);
  FIRN_WORKS(came);
  FIRN_HOLDS(device.GranuleIs(device.MapAnywhere(handle), kExportedByte));
}

}  // namespace
}  // namespace firn::contract
