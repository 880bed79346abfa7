// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual granules in use, and whole granules moved beneath them: out to the
// host and back.

#ifndef FIRN_TESTS_COMPACTION_SPILL_SCENE_H_
#define FIRN_TESTS_COMPACTION_SPILL_SCENE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/compaction/relocator.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {

// Virtual granules 0 to 4 are taken and mapped, each to the granule of its
// number, with its number as seed; three more granules are in the store's
// cache.
class SpillScene {
 public:
  static constexpr uint32_t kUsedVgs = 5;

  SpillScene() {
    memory_.addresses().Take(Vgs(0, kUsedVgs));
    std::vector<MappingChange> changes;
    for (uint32_t vg = 0; vg < kUsedVgs; ++vg) {
      changes.push_back(MapTo(vg, memory_.granule(vg)));
    }
    FIRN_EXPECT_OK(table().Apply(changes));
    for (uint32_t vg = 0; vg < kUsedVgs; ++vg) memory_.Write(vg, vg);
    for (uint32_t i = kUsedVgs; i < 8; ++i) store().Put(memory_.granule(i));
    UseRelocatorOn(&memory_.faults());
  }

  // A new relocator, whose calls are made through `driver`.
  void UseRelocatorOn(Driver* driver) {
    relocator_.reset();
    auto created =
        Relocator::Create(driver, &memory_.addresses(), &memory_.table());
    EXPECT_TRUE(created.ok()) << created.status();
    relocator_ = *std::move(created);
    memory_.faults().Reset();
  }

  MappedMemory& memory() { return memory_; }
  // Without the generations of addresses that nobody has: they grow with every
  // alias, whatever becomes of the move.
  MemoryView View() {
    MemoryView view = ViewOf(memory_, Contents::kRead);
    view.generations.resize(kUsedVgs);
    return view;
  }
  MappingTable& table() { return memory_.table(); }
  GranuleStore& store() { return memory_.store(); }
  Relocator& relocator() { return *relocator_; }

  // A move of all that `vg` holds.
  Relocation Whole(uint32_t vg, GranuleId to) const {
    Relocation move;
    move.vg = VgIndex(vg);
    move.to = to;
    move.extents = whole_;
    return move;
  }

  // Moves what these hold to granules of `kind`, and gives those that they had
  // to the store; or changes nothing.
  absl::Status MoveTo(GranuleKind kind, const std::vector<uint32_t>& vgs) {
    Acquisition acquisition;
    absl::Status status = store().AcquireAtMost(
        static_cast<uint32_t>(vgs.size()), &acquisition, kind);
    if (status.ok() && acquisition.granules.size() < vgs.size()) {
      status = absl::ResourceExhaustedError("too few granules");
    }
    std::vector<GranuleId> former;
    if (status.ok()) {
      std::vector<Relocation> moves;
      for (size_t i = 0; i < vgs.size(); ++i) {
        former.push_back(table().granule(VgIndex(vgs[i])));
        moves.push_back(Whole(vgs[i], acquisition.granules[i]));
      }
      status = relocator().Relocate(moves);
    }
    if (!status.ok()) {
      store().GiveBack(acquisition);
      return status;
    }
    for (const GranuleId granule : former) store().Put(granule);
    return status;
  }
  absl::Status Spill(const std::vector<uint32_t>& vgs) {
    return MoveTo(GranuleKind::kHost, vgs);
  }
  absl::Status BringBack(const std::vector<uint32_t>& vgs) {
    return MoveTo(GranuleKind::kMovable, vgs);
  }

  GranuleKind KindBeneath(uint32_t vg) {
    return store().kind(table().granule(VgIndex(vg)));
  }
  // Every byte of all the others, too.
  void ExpectContents() {
    for (uint32_t vg = 0; vg < kUsedVgs; ++vg) {
      EXPECT_EQ(memory_.Read(vg), memory_.Pattern(vg)) << vg;
    }
  }
  ::testing::AssertionResult CloseLeavesNothing() {
    relocator_.reset();
    return memory_.CloseLeavesNothing();
  }

 private:
  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/8, /*vg_count=*/10};
  const std::vector<OffsetInterval> whole_ = {Extent(
      0, static_cast<uint32_t>(memory_.granule_bytes() / kQuantumBytes))};
  std::unique_ptr<Relocator> relocator_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_COMPACTION_SPILL_SCENE_H_
