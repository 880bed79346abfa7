// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// All that an operation on mapped memory may change, to be compared: one that
// failed must have left it as it was.

#ifndef FIRN_TESTS_SUPPORT_MEMORY_VIEW_H_
#define FIRN_TESTS_SUPPORT_MEMORY_VIEW_H_

#include <cstdint>
#include <vector>

#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {

struct MemoryView {
  std::vector<GranuleId> granules;
  std::vector<uint64_t> generations;
  std::vector<std::vector<uint32_t>> contents;  // of mapped VGs
  uint32_t mapped_vgs = 0;
  uint32_t free_vgs = 0;
  uint32_t held_granules = 0;
  uint32_t held_host_granules = 0;
  uint32_t cached_granules = 0;
  uint32_t quarantined_granules = 0;
  uint32_t retiring_granules = 0;
};

// With what the mapped granules hold, or without: a ghost's memory cannot be
// read.
enum class Contents { kRead, kIgnore };

inline MemoryView ViewOf(MappedMemory& memory, Contents contents) {
  MemoryView view;
  for (uint32_t vg = 0; vg < memory.addresses().vg_count(); ++vg) {
    const GranuleId granule = memory.table().granule(VgIndex(vg));
    view.granules.push_back(granule);
    view.generations.push_back(memory.table().generation(VgIndex(vg)));
    if (contents == Contents::kRead && !granule.is_none()) {
      view.contents.push_back(memory.Read(vg));
    }
  }
  view.mapped_vgs = memory.table().mapped_vgs();
  view.free_vgs = memory.addresses().free().vg_count();
  view.held_granules = memory.store().held_granules();
  view.held_host_granules = memory.store().held_host_granules();
  view.cached_granules = memory.store().cached_granules();
  view.quarantined_granules = memory.store().quarantined_granules();
  view.retiring_granules = memory.store().retiring_granules();
  return view;
}

// What differs is told by name; contents that differ, not word by word.
inline void ExpectSameView(const MemoryView& now, const MemoryView& before) {
  EXPECT_EQ(now.granules, before.granules);
  EXPECT_EQ(now.generations, before.generations);
  EXPECT_TRUE(now.contents == before.contents) << "contents differ";
  EXPECT_EQ(now.mapped_vgs, before.mapped_vgs);
  EXPECT_EQ(now.free_vgs, before.free_vgs);
  EXPECT_EQ(now.held_granules, before.held_granules);
  EXPECT_EQ(now.held_host_granules, before.held_host_granules);
  EXPECT_EQ(now.cached_granules, before.cached_granules);
  EXPECT_EQ(now.quarantined_granules, before.quarantined_granules);
  EXPECT_EQ(now.retiring_granules, before.retiring_granules);
}

// The books agree with each other and with the driver, and nothing is lost.
inline void ExpectSound(MappedMemory& memory) {
  FIRN_EXPECT_OK(memory.table().lost_status());
  FIRN_EXPECT_OK(memory.table().CheckInvariants());
  FIRN_EXPECT_OK(memory.store().CheckInvariants());
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_MEMORY_VIEW_H_
