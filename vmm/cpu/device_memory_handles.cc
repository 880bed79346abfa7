// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of DeviceMemory that makes, shares and drops handles.

#include <cstring>
#include <utility>

#include "firn/vmm/cpu/argument_rules.h"
#include "firn/vmm/cpu/device_memory.h"

namespace firn::cpu {
namespace {

constexpr const char* kPlaceRule = "there must be a place for the handle";
constexpr const char* kLimitRule =
    "no more handles may live than the driver's limit";

bool Includes(ShareableHandleType have, ShareableHandleType need) {
  const auto needed = static_cast<int32_t>(need);
  return (static_cast<int32_t>(have) & needed) == needed;
}

}  // namespace

Verdict DeviceMemory::GetGranularity(size_t* granularity_bytes,
                                     const AllocationProp* prop,
                                     GranularityKind kind) const {
  // NVIDIA's driver looks at nothing in the properties, and crashes when there
  // are none.
  if (granularity_bytes == nullptr) {
    return RefuseValue("there must be a place for the granularity");
  }
  if (prop == nullptr) return RefuseValue("properties must be given");
  if (kind != GranularityKind::kMinimum &&
      kind != GranularityKind::kRecommended) {
    return RefuseValue("the granularity must be the minimum or recommended");
  }
  *granularity_bytes = granularity_bytes_;
  return Allow();
}

Verdict DeviceMemory::Create(PhysicalHandle* handle, size_t bytes,
                             const AllocationProp* prop, uint64_t flags) {
  if (handle == nullptr) return RefuseValue(kPlaceRule);
  if (prop == nullptr) return RefuseValue("properties must be given");
  if (flags != 0) return RefuseValue("flags must be 0");
  if (bytes == 0 || bytes % granularity_bytes_ != 0) {
    return RefuseValue(
        "the byte count must be a multiple of the granularity, and not 0");
  }
  const Verdict checked = CheckAllocationProp(*prop, options_.device_count);
  if (!checked.ok()) return checked;
  if (bytes / granularity_bytes_ > Slot::kMaxGranulesPerAllocation) {
    return Refuse(DriverResult::kOutOfMemory,
                  "an allocation must have 2^31 granules at most");
  }
  const bool shareable = Includes(prop->requested_handle_types,
                                  ShareableHandleType::kPosixFileDescriptor) ||
                         has(CpuDefect::kExportOfPrivateAllowed);
  MutexLock lock(&mutex_);
  if (AtHandleLimit()) return Refuse(DriverResult::kOutOfMemory, kLimitRule);
  SharedMemoryInfo info;
  info.has_contents = storage_->has_contents();
  info.granularity_bytes = granularity_bytes_;
  info.bytes = bytes;
  info.prop = GrantedProp(*prop);
  uint32_t memory_index = 0;
  const Verdict created = memories_.Create(info, shareable, &memory_index);
  NoteFreedMemory();
  if (!created.ok()) return created;
  *handle = AddHandle(memory_index, /*imported=*/false);
  return Allow();
}

Verdict DeviceMemory::Release(PhysicalHandle handle) {
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return RefuseValue(kHandleRule);
  if (handles_.handle(index).user_references == 1) ForgetName(index);
  if (handles_.DropUser(index)) DropHandle(index);
  return Allow();
}

Verdict DeviceMemory::Retain(PhysicalHandle* handle, DevicePtr address) {
  if (handle == nullptr) return RefuseValue(kPlaceRule);
  MutexLock lock(&mutex_);
  const Slot& slot = addresses_.Find(address);
  if (!slot.mapped()) return RefuseValue(kMappedRule);
  const uint32_t index = slot.handle_index();
  if (!has(CpuDefect::kRetainAddsNoReference)) {
    if (handles_.handle(index).user_references == 0) {
      memories_.AddNamedHandle(handles_.handle(index).target.memory_index);
    }
    handles_.AddUser(index);
  }
  *handle = handles_.ValueOf(index);
  return Allow();
}

Verdict DeviceMemory::GetProperties(AllocationProp* prop,
                                    PhysicalHandle handle) {
  if (prop == nullptr) {
    return RefuseValue("there must be a place for the properties");
  }
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return RefuseValue(kHandleRule);
  *prop =
      memories_.memory(handles_.handle(index).target.memory_index).info.prop;
  return Allow();
}

Verdict DeviceMemory::Export(void* shareable, PhysicalHandle handle,
                             ShareableHandleType type, uint64_t flags) {
  if (shareable == nullptr) {
    return RefuseValue("there must be a place for the shareable handle");
  }
  if (flags != 0) return RefuseValue("flags must be 0");
  const Verdict checked = CheckShareableType(type);
  if (!checked.ok()) return checked;
  MutexLock lock(&mutex_);
  uint32_t index = 0;
  if (!handles_.Find(handle, &index)) return RefuseValue(kHandleRule);
  const uint32_t memory_index = handles_.handle(index).target.memory_index;
  if (!Includes(memories_.memory(memory_index).info.prop.requested_handle_types,
                type) &&
      !has(CpuDefect::kExportOfPrivateAllowed)) {
    return RefuseValue(
        "the type must have been among the requested handle types when the "
        "memory was created");
  }
  int file = -1;
  const Verdict exported = memories_.Export(memory_index, &file);
  if (exported.ok()) std::memcpy(shareable, &file, sizeof(file));
  return exported;
}

Verdict DeviceMemory::Import(PhysicalHandle* handle, void* shareable,
                             ShareableHandleType type) {
  if (handle == nullptr) return RefuseValue(kPlaceRule);
  Verdict checked = CheckShareableType(type);
  if (!checked.ok()) return checked;
  PrivateFile file;
  checked = ReceiveSharedMemoryFile(
      static_cast<int>(reinterpret_cast<uintptr_t>(shareable)), &file);
  if (!checked.ok()) return checked;
  SharedMemoryInfo info;
  FileIdentity identity;
  const char* const broken = ReadSharedMemoryFile(file.fd(), &info, &identity);
  if (broken != nullptr) return RefuseValue(broken);
  if (info.granularity_bytes != granularity_bytes_ ||
      info.bytes % granularity_bytes_ != 0 ||
      info.bytes / granularity_bytes_ > Slot::kMaxGranulesPerAllocation) {
    return RefuseValue(
        "the memory must be of a driver with the same granularity");
  }
  checked = CheckAllocationProp(info.prop, options_.device_count);
  if (!checked.ok()) return checked;
  MutexLock lock(&mutex_);
  if (info.has_contents != storage_->has_contents()) {
    return RefuseValue(
        "the memory must be of a driver with the same kind of storage");
  }
  if (AtHandleLimit()) return Refuse(DriverResult::kOutOfMemory, kLimitRule);
  uint32_t memory_index = 0;
  const Verdict imported =
      memories_.Import(std::move(file), info, identity, &memory_index);
  if (!imported.ok()) return imported;
  *handle = AddHandle(memory_index, /*imported=*/true);
  return Allow();
}

std::vector<uint64_t> DeviceMemory::TakeFreedMemory() {
  if (!has_freed_memory()) return {};
  MutexLock lock(&mutex_);
  has_freed_memory_.store(false, std::memory_order_relaxed);
  return memories_.TakeFreed();
}

uint64_t DeviceMemory::live_handles() {
  MutexLock lock(&mutex_);
  return handles_.live();
}

uint64_t DeviceMemory::live_mappings() {
  MutexLock lock(&mutex_);
  return mappings_;
}

PhysicalHandle DeviceMemory::AddHandle(uint32_t memory_index, bool imported) {
  const Memory& memory = memories_.memory(memory_index);
  HandleTarget target;
  target.memory_index = memory_index;
  target.granules = memory.granules;
  target.memory_id = memory.id;
  target.place = memory.place;
  return handles_.Add(target, imported);
}

bool DeviceMemory::AtHandleLimit() const {
  return handles_.live() >= options_.max_handles;
}

void DeviceMemory::ForgetName(uint32_t index) {
  const Handle& handle = handles_.handle(index);
  const uint32_t memory_index = handle.target.memory_index;
  memories_.DropNamedHandle(memory_index);
  const Memory& memory = memories_.memory(memory_index);
  const bool goes_early =
      (has(CpuDefect::kReleaseFreesWhileMapped) && memory.named_handles == 0) ||
      (has(CpuDefect::kImportSurvivesNothing) && memory.exported &&
       !handle.imported);
  if (goes_early) memories_.Discard(memory_index);
}

void DeviceMemory::DropHandle(uint32_t index) {
  memories_.DropHandle(handles_.handle(index).target.memory_index);
  handles_.Erase(index);
  NoteFreedMemory();
}

void DeviceMemory::NoteFreedMemory() {
  if (memories_.has_freed()) {
    has_freed_memory_.store(true, std::memory_order_relaxed);
  }
}

const Memory& DeviceMemory::MemoryOf(const Slot& slot) const {
  return memories_.memory(
      handles_.handle(slot.handle_index()).target.memory_index);
}

}  // namespace firn::cpu
