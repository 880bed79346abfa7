// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books on handles: which exist, and what still holds each. Several may
// name the same physical memory: one for its creation and one an import.

#ifndef FIRN_VMM_CPU_HANDLE_TABLE_H_
#define FIRN_VMM_CPU_HANDLE_TABLE_H_

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/storage.h"
#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// Of the memory that a handle names, what every mapping needs to know.
struct HandleTarget {
  // In the MemoryTable.
  uint32_t memory_index = 0;
  uint32_t granules = 0;
  uint64_t memory_id = 0;
  StoragePlace place;
};

// One handle. It lives while a user or a mapping refers to it. A cache line of
// its own, for a remap looks at two.
struct alignas(64) Handle {
  HandleTarget target;
  uint32_t user_references = 0;
  uint32_t mappings = 0;
  // How many handles had this place in the table before.
  uint32_t generation = 0;
  bool imported = false;
};

// Handles are named by values, which are never used again, and by indices,
// which are small but are.
//
// Thread safety: none.
class HandleTable {
 public:
  // Adds a handle with one user reference.
  PhysicalHandle Add(const HandleTarget& target, bool imported);
  // Finds what users may still name: false without a user reference.
  bool Find(PhysicalHandle handle, uint32_t* index) const {
    const auto candidate = static_cast<uint32_t>(handle);
    if (candidate >= handles_.size()) return false;
    const Handle& found = handles_[candidate];
    if (found.generation != handle >> kGenerationShift ||
        found.user_references == 0) {
      return false;
    }
    *index = candidate;
    return true;
  }

  const Handle& handle(uint32_t index) const { return handles_[index]; }
  PhysicalHandle ValueOf(uint32_t index) const {
    return (PhysicalHandle{handles_[index].generation} << kGenerationShift) |
           index;
  }
  // Those that a user or a mapping refers to.
  uint64_t live() const { return handles_.size() - dead_; }

  // Adding a user reference revives a handle that only mappings kept alive.
  void AddUser(uint32_t index) { ++handles_[index].user_references; }
  void AddMapping(uint32_t index) { ++handles_[index].mappings; }
  // These return true when that was the last reference: the caller reads what
  // it needs from handle(index), then calls Erase.
  bool DropUser(uint32_t index) {
    --handles_[index].user_references;
    return unreferenced(index);
  }
  bool DropMapping(uint32_t index) {
    --handles_[index].mappings;
    return unreferenced(index);
  }
  void Erase(uint32_t index);

 private:
  static constexpr int kGenerationShift = 32;

  bool unreferenced(uint32_t index) const {
    return (handles_[index].user_references | handles_[index].mappings) == 0;
  }

  std::vector<Handle> handles_;
  std::vector<uint32_t> free_indices_;
  // Free places, and places that are left empty.
  uint64_t dead_ = 0;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HANDLE_TABLE_H_
