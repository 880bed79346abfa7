// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books on physical memory: what exists, which device it counts against,
// and when it goes: with its last handle or, if it was exported, once no
// process holds anything of it.

#ifndef FIRN_VMM_CPU_MEMORY_TABLE_H_
#define FIRN_VMM_CPU_MEMORY_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "firn/vmm/cpu/private_file.h"
#include "firn/vmm/cpu/shared_memory_file.h"
#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/cpu/verdict.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

struct Memory {
  // No other memory of the process ever has it.
  uint64_t id = 0;
  SharedMemoryInfo info;
  StoragePlace place;
  uint32_t granules = 0;
  // Handles that live.
  uint32_t handles = 0;
  // Of these, how many a user may name.
  uint32_t named_handles = 0;
  // The device it counts against, or kNoDevice.
  int charged_device = 0;
  // In a file of its own, which others may know.
  bool has_own_file = false;
  bool exported = false;
  // Made by another driver, which keeps the account of it.
  bool adopted = false;
};

// Thread safety: none.
class MemoryTable {
 public:
  static constexpr int kNoDevice = -1;

  // Does not own `storage`.
  MemoryTable(Storage* storage, int device_count, uint64_t device_granules);

  // Makes memory, with one handle. It counts against the device of its
  // location, if that is a device; `shareable` memory can be exported.
  Verdict Create(const SharedMemoryInfo& info, bool shareable, uint32_t* index);
  // Finds the memory that `file` is of, adopting it if another driver made it,
  // and adds a handle to it. `info` and `identity` were read from `file`.
  Verdict Import(PrivateFile file, const SharedMemoryInfo& info,
                 const FileIdentity& identity, uint32_t* index);
  // A file descriptor for others.
  Verdict Export(uint32_t index, int* file);

  const Memory& memory(uint32_t index) const { return memories_[index]; }
  // A handle with no user reference left got one, or lost its last one.
  void AddNamedHandle(uint32_t index) { ++memories_[index].named_handles; }
  void DropNamedHandle(uint32_t index) { --memories_[index].named_handles; }
  // A handle is gone.
  void DropHandle(uint32_t index);
  // What is in the memory goes, and it counts against no device any more.
  void Discard(uint32_t index);

  // What a device has left. Looks first whether exported memory has come back.
  uint64_t FreeGranules(int device);
  // Memory that went since the last call.
  std::vector<uint64_t> TakeFreed();
  bool has_freed() const { return !freed_.empty(); }

 private:
  uint32_t Add(const SharedMemoryInfo& info, const StoragePlace& place,
               int charged_device);
  Verdict Allocate(const SharedMemoryInfo& info, bool shareable,
                   StoragePlace* place);
  // Notes that the memory has a file of its own.
  void NoteFile(uint32_t index, const FileIdentity& identity);
  void Uncharge(Memory* memory);
  void Free(uint32_t index);
  // Frees what has no handle and is no longer held by others; says whether
  // there was any.
  bool FreeReturned();

  Storage* const storage_;
  const uint64_t device_granules_;
  // By device.
  std::vector<uint64_t> used_granules_;
  std::vector<Memory> memories_;
  std::vector<uint32_t> free_indices_;
  // Without a handle, but held by others when last seen.
  std::vector<uint32_t> exported_only_;
  // Memory in a file of its own.
  absl::flat_hash_map<FileIdentity, uint32_t> by_file_;
  std::vector<uint64_t> freed_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_MEMORY_TABLE_H_
