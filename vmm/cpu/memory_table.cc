// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/memory_table.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace firn::cpu {
namespace {

uint64_t NewMemoryId() {
  static std::atomic<uint64_t> last_id{0};
  return last_id.fetch_add(1, std::memory_order_relaxed) + 1;
}

int DeviceOf(const AllocationProp& prop) {
  return prop.location.type == LocationType::kDevice ? prop.location.id
                                                     : MemoryTable::kNoDevice;
}

uint32_t GranulesOf(const SharedMemoryInfo& info) {
  return static_cast<uint32_t>(info.bytes / info.granularity_bytes);
}

}  // namespace

MemoryTable::MemoryTable(Storage* storage, int device_count,
                         uint64_t device_granules)
    : storage_(storage),
      device_granules_(device_granules),
      used_granules_(static_cast<size_t>(device_count), 0) {}

Verdict MemoryTable::Create(const SharedMemoryInfo& info, bool shareable,
                            uint32_t* index) {
  const int device = DeviceOf(info.prop);
  if (device != kNoDevice) {
    const uint64_t granules = GranulesOf(info);
    const uint64_t& used = used_granules_[static_cast<size_t>(device)];
    if (granules > device_granules_ - used && granules > FreeGranules(device)) {
      return Refuse(DriverResult::kOutOfMemory,
                    "the device must have so much memory left");
    }
  }
  StoragePlace place;
  Verdict allocated = Allocate(info, shareable, &place);
  if (!allocated.ok() && FreeReturned()) {
    allocated = Allocate(info, shareable, &place);
  }
  if (!allocated.ok()) return allocated;
  *index = Add(info, place, device);
  if (shareable && place.file >= 0) {
    NoteFile(*index, IdentityOf(place.file));
  }
  return Allow();
}

Verdict MemoryTable::Import(PrivateFile file, const SharedMemoryInfo& info,
                            const FileIdentity& identity, uint32_t* index) {
  const auto known = by_file_.find(identity);
  if (known != by_file_.end()) {
    *index = known->second;
    Memory& memory = memories_[*index];
    if (memory.handles == 0) {
      exported_only_.erase(
          std::find(exported_only_.begin(), exported_only_.end(), *index));
    }
    ++memory.handles;
    ++memory.named_handles;
    return Allow();
  }
  StoragePlace place;
  const Verdict adopted = storage_->Adopt(file.fd(), &place);
  if (!adopted.ok()) return adopted;
  file.Release();
  *index = Add(info, place, kNoDevice);
  memories_[*index].adopted = true;
  NoteFile(*index, identity);
  return Allow();
}

Verdict MemoryTable::Export(uint32_t index, int* file) {
  Memory& memory = memories_[index];
  if (memory.place.file < 0) {
    const Verdict made = storage_->MakeFile(memory.info, &memory.place);
    if (!made.ok()) return made;
    NoteFile(index, IdentityOf(memory.place.file));
  }
  const Verdict exported = OpenForExport(memory.place.file, file);
  if (exported.ok()) memory.exported = true;
  return exported;
}

void MemoryTable::DropHandle(uint32_t index) {
  Memory& memory = memories_[index];
  if (--memory.handles != 0) return;
  if (memory.exported && !memory.adopted && IsExportAlive(memory.place.file)) {
    exported_only_.push_back(index);
  } else {
    Free(index);
  }
}

void MemoryTable::Discard(uint32_t index) {
  Memory& memory = memories_[index];
  storage_->Discard(memory.place, memory.granules);
  Uncharge(&memory);
}

uint64_t MemoryTable::FreeGranules(int device) {
  FreeReturned();
  return device_granules_ - used_granules_[static_cast<size_t>(device)];
}

std::vector<uint64_t> MemoryTable::TakeFreed() {
  return std::exchange(freed_, {});
}

uint32_t MemoryTable::Add(const SharedMemoryInfo& info,
                          const StoragePlace& place, int charged_device) {
  uint32_t index;
  if (free_indices_.empty()) {
    index = static_cast<uint32_t>(memories_.size());
    memories_.emplace_back();
  } else {
    index = free_indices_.back();
    free_indices_.pop_back();
  }
  Memory& memory = memories_[index];
  memory = Memory();
  memory.id = NewMemoryId();
  memory.info = info;
  memory.place = place;
  memory.granules = GranulesOf(info);
  memory.handles = 1;
  memory.named_handles = 1;
  memory.charged_device = charged_device;
  if (charged_device != kNoDevice) {
    used_granules_[static_cast<size_t>(charged_device)] += memory.granules;
  }
  return index;
}

Verdict MemoryTable::Allocate(const SharedMemoryInfo& info, bool shareable,
                              StoragePlace* place) {
  return shareable ? storage_->AllocateShareable(info, place)
                   : storage_->Allocate(GranulesOf(info), place);
}

void MemoryTable::NoteFile(uint32_t index, const FileIdentity& identity) {
  by_file_.emplace(identity, index);
  memories_[index].has_own_file = true;
}

void MemoryTable::Uncharge(Memory* memory) {
  if (memory->charged_device == kNoDevice) return;
  used_granules_[static_cast<size_t>(memory->charged_device)] -=
      memory->granules;
  memory->charged_device = kNoDevice;
}

void MemoryTable::Free(uint32_t index) {
  Memory& memory = memories_[index];
  if (memory.has_own_file) by_file_.erase(IdentityOf(memory.place.file));
  storage_->Free(memory.place, memory.granules);
  Uncharge(&memory);
  freed_.push_back(memory.id);
  free_indices_.push_back(index);
}

bool MemoryTable::FreeReturned() {
  bool any = false;
  for (size_t i = 0; i < exported_only_.size();) {
    const uint32_t index = exported_only_[i];
    if (IsExportAlive(memories_[index].place.file)) {
      ++i;
      continue;
    }
    Free(index);
    exported_only_[i] = exported_only_.back();
    exported_only_.pop_back();
    any = true;
  }
  return any;
}

}  // namespace firn::cpu
