// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The books on physical memory: which handles exist, and what still holds each.

#ifndef FIRN_VMM_CPU_HANDLE_TABLE_H_
#define FIRN_VMM_CPU_HANDLE_TABLE_H_

#include <cstdint>
#include <vector>

#include "firn/vmm/driver_types.h"

namespace firn::cpu {

// One physical allocation. It lives while a user or a mapping refers to it.
struct Allocation {
  uint32_t granules = 0;
  uint32_t user_references = 0;
  uint32_t mappings = 0;
  // How many allocations had this place in the table before.
  uint32_t generation = 0;
  // Where its granules are in the storage.
  uint64_t first_granule = 0;
};

// Allocations are named by handles, whose values are never used again, and by
// indices, which are small but are.
//
// Thread safety: none.
class HandleTable {
 public:
  // Adds an allocation with one user reference.
  PhysicalHandle Add(uint32_t granules, uint64_t first_granule);
  // Finds what users may still name: false without a user reference.
  bool Find(PhysicalHandle handle, uint32_t* index) const;

  const Allocation& allocation(uint32_t index) const {
    return allocations_[index];
  }
  PhysicalHandle HandleOf(uint32_t index) const;

  // Adding a user reference revives a handle that only mappings kept alive.
  void AddUser(uint32_t index) { ++allocations_[index].user_references; }
  void AddMapping(uint32_t index) { ++allocations_[index].mappings; }
  // These return true when that was the last reference: the caller reads what
  // it needs from allocation(index), then calls Erase.
  bool DropUser(uint32_t index);
  bool DropMapping(uint32_t index);
  void Erase(uint32_t index);

 private:
  std::vector<Allocation> allocations_;
  std::vector<uint32_t> free_indices_;
};

}  // namespace firn::cpu

#endif  // FIRN_VMM_CPU_HANDLE_TABLE_H_
