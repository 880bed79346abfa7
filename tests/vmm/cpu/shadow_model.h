// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a driver must look like after the calls made to it: reservations,
// mappings, access, references and contents, kept by a test beside the driver.

#ifndef FIRN_TESTS_VMM_CPU_SHADOW_MODEL_H_
#define FIRN_TESTS_VMM_CPU_SHADOW_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "firn/vmm/driver_types.h"
#include "firn/vmm/mutex.h"

namespace firn::cpu_testing {

// One physical allocation. Each granule holds one word, over and over.
struct ShadowMemory {
  std::vector<uint32_t> words;
  // Written no more, so that whoever imports it knows what it holds.
  bool frozen = false;
  bool exportable = false;

  uint64_t granules() const { return words.size(); }
};

struct ShadowHandle {
  PhysicalHandle value = 0;
  std::shared_ptr<ShadowMemory> memory;
  int references = 0;
  int mappings = 0;

  bool alive() const { return references > 0; }
};

// One granule of addresses.
struct ShadowSlot {
  std::shared_ptr<ShadowHandle> handle;  // null: nothing is mapped
  uint64_t granule = 0;                  // of the handle's memory
  AccessFlags access = AccessFlags::kNone;

  bool mapped() const { return handle != nullptr; }
  uint32_t& word() const { return handle->memory->words[granule]; }
};

struct ShadowReservation {
  DevicePtr base = 0;
  std::vector<ShadowSlot> slots;

  bool HasMapping() const {
    for (const ShadowSlot& slot : slots) {
      if (slot.mapped()) return true;
    }
    return false;
  }
  // Whether [first, first + count) lies inside and nothing is mapped in it.
  bool IsFree(uint64_t first, uint64_t count) const {
    if (first + count > slots.size()) return false;
    for (uint64_t i = first; i < first + count; ++i) {
      if (slots[i].mapped()) return false;
    }
    return true;
  }
  // Whether [first, first + count) consists of whole mappings.
  bool IsWhole(uint64_t first, uint64_t count) const {
    const uint64_t end = first + count;
    if (count == 0 || end > slots.size()) return false;
    for (uint64_t i = first; i < end; ++i) {
      if (!slots[i].mapped()) return false;
    }
    const ShadowSlot& last = slots[end - 1];
    return slots[first].granule == 0 &&
           last.granule + 1 == last.handle->memory->granules();
  }
};

// Exported memory on its way from one thread to another.
struct ShadowExport {
  int descriptor = -1;
  std::shared_ptr<ShadowMemory> memory;
};

// Thread safety: all methods may be called from any thread.
class ShadowMailbox {
 public:
  // False when it is full: the export stays the caller's.
  bool Put(const ShadowExport& exported) {
    MutexLock lock(&mutex_);
    if (waiting_.size() >= kMaxWaiting) return false;
    waiting_.push_back(exported);
    return true;
  }
  // A descriptor of -1 when it is empty.
  ShadowExport Take() {
    MutexLock lock(&mutex_);
    if (waiting_.empty()) return ShadowExport();
    ShadowExport exported = std::move(waiting_.front());
    waiting_.pop_front();
    return exported;
  }

 private:
  static constexpr size_t kMaxWaiting = 16;
  Mutex mutex_;
  std::deque<ShadowExport> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_SHADOW_MODEL_H_
