// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Fails every driver call of what the layers above do with memory: bulk
// creation, mapping, remapping, importing.

#include "tests/support/failure_sweep.h"

#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

// Two runs of mappings with a hole between them, and an alias: memory that is
// in use whatever is done beside it.
class Scene {
 public:
  Scene() {
    FIRN_EXPECT_OK(table().Apply({MapTo(0, granule(0)), MapTo(1, granule(1)),
                                  MapTo(3, granule(2)), MapTo(4, granule(3)),
                                  MapTo(6, granule(3))}));
    for (const uint32_t vg : {0u, 1u, 3u, 4u}) memory_.Write(vg, vg);
  }

  MappedMemory& memory() { return memory_; }
  MemoryView View() { return ViewOf(memory_, Contents::kRead); }
  MappingTable& table() { return memory_.table(); }
  GranuleStore& store() { return memory_.store(); }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }
  ::testing::AssertionResult CloseLeavesNothing() {
    return memory_.CloseLeavesNothing();
  }
  void ExpectHolds(uint32_t vg, uint32_t seed) {
    EXPECT_EQ(memory_.Read(vg), memory_.Pattern(seed)) << vg;
  }

 private:
  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/8, /*vg_count=*/12};
};

// --- Mapping ---

class MapScene : public Scene {
 public:
  absl::Status Operate() {
    return table().Apply({MapTo(2, granule(4)), MapTo(7, granule(5)),
                          MapTo(8, granule(6)), MapTo(10, granule(0))});
  }
  void ExpectDone() {
    ExpectHolds(10, 0);
    for (const uint32_t vg : {2u, 7u, 8u}) {
      memory().Write(vg, 20 + vg);
      ExpectHolds(vg, 20 + vg);
    }
    EXPECT_EQ(table().mapped_vgs(), 9u);
  }
};

TEST(FailureSweepTest, MappingOneCall) { FailEachCall<MapScene>(); }
TEST(FailureSweepTest, MappingTwoCalls) { FailEachTwoCalls<MapScene>(); }

// --- Remapping many granules: runs, a hole that is filled, aliases that come
// and go ---

class RemapScene : public Scene {
 public:
  absl::Status Operate() {
    return table().Apply({MapTo(0, granule(3)), MapTo(1, granule(0)),
                          MapTo(2, granule(4)), MapTo(3, granule(1)), Unmap(4),
                          MapTo(6, granule(1)), MapTo(9, granule(2))});
  }
  void ExpectDone() {
    ExpectHolds(0, 4);
    ExpectHolds(1, 0);
    ExpectHolds(3, 1);
    ExpectHolds(6, 1);
    ExpectHolds(9, 3);
    EXPECT_TRUE(table().granule(VgIndex(4)).is_none());
    EXPECT_EQ(table().mapped_vgs(), 6u);
  }
};

TEST(FailureSweepTest, RemappingOneCall) { FailEachCall<RemapScene>(); }

class SmallRemapScene : public Scene {
 public:
  absl::Status Operate() {
    return table().Apply(
        {MapTo(0, granule(4)), MapTo(1, granule(0)), Unmap(6)});
  }
  void ExpectDone() {
    ExpectHolds(1, 0);
    EXPECT_EQ(table().granule(VgIndex(0)), granule(4));
    EXPECT_EQ(table().mapped_vgs(), 4u);
  }
};

TEST(FailureSweepTest, RemappingTwoCalls) {
  FailEachTwoCalls<SmallRemapScene>();
}

// --- Creating in bulk, and mapping what was created ---

class CreateScene : public Scene {
 public:
  CreateScene() {
    // Leaves room in the budget for as many.
    for (uint32_t i = 4; i < 8; ++i) store().Put(granule(i));
    FIRN_EXPECT_OK(store().ReleaseCached(0));
    EXPECT_EQ(store().held_granules(), 4u);
  }
  absl::Status Operate() {
    Acquisition acquisition;
    absl::Status status = store().AcquireAtMost(4, &acquisition);
    if (status.ok() && acquisition.granules.size() < 4) {
      status = absl::ResourceExhaustedError("fewer than there is room for");
    }
    if (status.ok()) {
      std::vector<MappingChange> changes;
      for (uint32_t i = 0; i < 4; ++i) {
        changes.push_back(MapTo(7 + i, acquisition.granules[i]));
      }
      status = table().Apply(changes);
    }
    if (!status.ok()) store().GiveBack(acquisition);
    return status;
  }
  void ExpectDone() {
    EXPECT_EQ(store().held_granules(), 8u);
    for (uint32_t vg = 7; vg < 11; ++vg) {
      memory().Write(vg, vg);
      ExpectHolds(vg, vg);
    }
  }
};

TEST(FailureSweepTest, CreatingInBulkOneCall) { FailEachCall<CreateScene>(); }

// --- Importing, and mapping what was imported ---

class ImportScene : public Scene {
 public:
  ImportScene() {
    store().Put(granule(7));
    FIRN_EXPECT_OK(store().ReleaseCached(0));
    Acquisition acquisition;
    FIRN_EXPECT_OK(
        store().AcquireAtMost(1, &acquisition, GranuleKind::kExportable));
    EXPECT_EQ(acquisition.granules.size(), 1u);
    exported_ = acquisition.granules[0];
    FIRN_EXPECT_OK(table().Apply({MapTo(8, exported_)}));
    memory().Write(8, 8);
    FIRN_EXPECT_OK(store().Export(
        exported_, ShareableHandleType::kPosixFileDescriptor, &descriptor_));
  }
  ~ImportScene() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  ImportScene(const ImportScene&) = delete;
  ImportScene& operator=(const ImportScene&) = delete;

  absl::Status Operate() {
    void* const shareable =
        reinterpret_cast<void*>(static_cast<intptr_t>(descriptor_));
    const absl::StatusOr<GranuleId> imported =
        store().Import(shareable, ShareableHandleType::kPosixFileDescriptor);
    if (!imported.ok()) return imported.status();
    const absl::Status status =
        table().Apply({MapTo(9, *imported), MapTo(4, *imported)});
    if (status.ok()) return status;
    // It retires: what is imported never enters the cache.
    store().Put(*imported);
    EXPECT_EQ(store().retiring_granules(), 1u);
    FIRN_EXPECT_OK(store().Maintain(absl::UnixEpoch()));
    return status;
  }
  void ExpectDone() {
    ExpectHolds(9, 8);
    ExpectHolds(4, 8);
    memory().Write(9, 90);
    ExpectHolds(8, 90);
    EXPECT_EQ(store().kind(table().granule(VgIndex(9))),
              GranuleKind::kImported);
  }

 private:
  GranuleId exported_;
  int descriptor_ = -1;
};

TEST(FailureSweepTest, ImportingOneCall) { FailEachCall<ImportScene>(); }

}  // namespace
}  // namespace firn::testing
