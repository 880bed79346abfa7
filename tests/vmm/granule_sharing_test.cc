// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What was shared never serves again (I13), and what is imported is the
// exporter's own memory.

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;

constexpr auto kDescriptor = ShareableHandleType::kPosixFileDescriptor;

// A descriptor as Export writes it and Import takes it.
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() {
    if (value_ >= 0) {
      EXPECT_EQ(close(value_), 0);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int* out() { return &value_; }
  void* in() const {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(value_));
  }

 private:
  int value_ = -1;
};

class GranuleSharingTest : public GranuleStoreScene {
 protected:
  GranuleId AcquireExportable() {
    return Acquire(1, GranuleKind::kExportable).granules[0];
  }
  // Whether the device creates RDMA-capable memory: without it, such a store
  // can be had but not used.
  bool HasRdma() {
    int32_t has = 0;
    return driver_.DeviceGetAttribute(&has,
                                      DeviceAttribute::kGpuDirectRdmaWithVmm) ==
               DriverResult::kSuccess &&
           has != 0;
  }
  GranuleStore& MakeRdmaStore() {
    GranuleStoreOptions options = Options(4);
    options.exportable = ExportableProp(0, kDescriptor, /*rdma_capable=*/true);
    return MakeStore(options);
  }
};

TEST_F(GranuleSharingTest, AnExportableGranuleThatNobodySharesIsCached) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = AcquireExportable();
  EXPECT_FALSE(store.is_shared(granule));
  store.Put(granule);
  EXPECT_TRUE(store.is_cached(granule));
  EXPECT_EQ(store.retiring_granules(), 0u);
  EXPECT_EQ(AcquireExportable(), granule);
}

TEST_F(GranuleSharingTest, AnExportedGranuleRetiresAndIsReleasedForGood) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = AcquireExportable();
  Descriptor descriptor;
  FIRN_ASSERT_OK(store.Export(granule, kDescriptor, descriptor.out()));
  EXPECT_TRUE(store.is_shared(granule));
  driver_.Reset();
  store.Put(granule);
  EXPECT_EQ(driver_.calls(), 0u) << "Put must release nothing";
  EXPECT_FALSE(store.is_cached(granule));
  EXPECT_TRUE(store.is_held(granule));
  EXPECT_EQ(store.retiring_granules(), 1u);
  EXPECT_EQ(store.held_granules(), 1u);
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 0u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  // Nobody gets it any more.
  EXPECT_EQ(Acquire(1, GranuleKind::kExportable).created, 1u);
  EXPECT_THAT(store.ReleaseCached(4), IsOkAndHolds(1u))
      << "it goes whatever is to be kept";
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
  EXPECT_EQ(store.held_granules(), 1u);
}

TEST_F(GranuleSharingTest, AMarkedGranuleRetiresToo) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = AcquireExportable();
  FIRN_ASSERT_OK(store.MarkShared(granule));
  FIRN_ASSERT_OK(store.MarkShared(granule));
  EXPECT_TRUE(store.is_shared(granule));
  store.Put(granule);
  EXPECT_EQ(store.retiring_granules(), 1u);
  FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
  EXPECT_EQ(store.held_granules(), 0u);
}

TEST_F(GranuleSharingTest, AnIdThatIsUsedAgainIsNotShared) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = AcquireExportable();
  FIRN_ASSERT_OK(store.MarkShared(granule));
  store.Put(granule);
  FIRN_EXPECT_OK(store.ReleaseCached(0));
  EXPECT_EQ(Acquire(1).granules[0], granule);
  EXPECT_FALSE(store.is_shared(granule));
  EXPECT_EQ(store.kind(granule), GranuleKind::kMovable);
}

TEST_F(GranuleSharingTest, AGranuleMarkedWhenItIsCachedAlreadyLeavesTheCache) {
  GranuleStore& store = MakeStore(4);
  const std::vector<GranuleId> cached = FillCache(3, GranuleKind::kExportable);
  FIRN_ASSERT_OK(store.MarkShared(cached[1]));
  EXPECT_FALSE(store.is_cached(cached[1]));
  EXPECT_EQ(store.retiring_granules(), 1u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  const Acquisition acquisition = Acquire(2, GranuleKind::kExportable);
  EXPECT_THAT(acquisition.granules, ElementsAre(cached[2], cached[0]));
}

TEST_F(GranuleSharingTest, AMovableGranuleCannotBeShared) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = Acquire(1).granules[0];
  driver_.Reset();
  Descriptor descriptor;
  EXPECT_THAT(store.Export(granule, kDescriptor, descriptor.out()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store.MarkShared(granule),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store.MarkShared(GranuleId()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(driver_.calls(), 0u);
  EXPECT_FALSE(store.is_shared(granule));
  store.Put(granule);
  EXPECT_TRUE(store.is_cached(granule));
}

TEST_F(GranuleSharingTest, AGranuleThatIsNotGivenOutCannotBeExported) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = FillCache(1, GranuleKind::kExportable)[0];
  driver_.Reset();
  Descriptor descriptor;
  EXPECT_THAT(store.Export(granule, kDescriptor, descriptor.out()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  FIRN_EXPECT_OK(store.ReleaseCached(0));
  driver_.Reset();
  EXPECT_THAT(store.Export(granule, kDescriptor, descriptor.out()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(GranuleSharingTest, GiveBackReleasesOrRetiresWhatWasSharedMeanwhile) {
  GranuleStore& store = MakeStore(4);
  FillCache(1, GranuleKind::kExportable);
  const Acquisition acquisition = Acquire(3, GranuleKind::kExportable);
  FIRN_ASSERT_OK(store.MarkShared(acquisition.granules[0]));  // from the cache
  FIRN_ASSERT_OK(store.MarkShared(acquisition.granules[1]));  // created
  store.GiveBack(acquisition);
  EXPECT_EQ(store.retiring_granules(), 1u);
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
  EXPECT_EQ(store.held_granules(), 1u);
  EXPECT_FALSE(store.is_cached(acquisition.granules[0]));
}

TEST_F(GranuleSharingTest, AQuarantinedGranuleStaysWhetherSharedOrNot) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = AcquireExportable();
  FIRN_ASSERT_OK(store.MarkShared(granule));
  store.Put(granule);
  store.Quarantine(granule);  // from among those that retire
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.retiring_granules(), 0u);
  EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(0u));
  EXPECT_TRUE(store.is_quarantined(granule));
}

// --- RDMA-capable memory, whose sharing nobody tells of ---

TEST_F(GranuleSharingTest, RdmaCapableMemoryIsSharedOnceItIsGivenOut) {
  if (!HasRdma()) GTEST_SKIP() << "the device has no RDMA-capable memory";
  GranuleStore& store = MakeRdmaStore();
  const GranuleId granule = AcquireExportable();
  EXPECT_TRUE(store.is_shared(granule));
  store.Put(granule);
  EXPECT_EQ(store.retiring_granules(), 1u);
  FIRN_EXPECT_OK(store.ReleaseCached(0));
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
}

TEST_F(GranuleSharingTest, RdmaCapableMemoryGivenBackUnusedWasNotShared) {
  if (!HasRdma()) GTEST_SKIP() << "the device has no RDMA-capable memory";
  GranuleStore& store = MakeRdmaStore();
  const Acquisition acquisition = Acquire(2, GranuleKind::kExportable);
  driver_.FailNthOf(DriverCall::kMemRelease, 0, DriverResult::kUnknown);
  store.GiveBack(acquisition);
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 0u);
  EXPECT_EQ(store.retiring_granules(), 0u);
  EXPECT_EQ(store.held_granules(), 1u) << "cached: the driver refused it";
  EXPECT_TRUE(store.is_shared(AcquireExportable())) << "given out once more";
}

// --- Export and import ---

TEST_F(GranuleSharingTest, AnImportedGranuleIsGivenOutAndRetires) {
  GranuleStore& store = MakeStore(1);
  const GranuleId exported = AcquireExportable();
  Descriptor descriptor;
  FIRN_ASSERT_OK(store.Export(exported, kDescriptor, descriptor.out()));
  FIRN_ASSERT_OK_AND_ASSIGN(const GranuleId imported,
                            store.Import(descriptor.in(), kDescriptor));
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_NE(imported, exported);
  EXPECT_EQ(store.kind(imported), GranuleKind::kImported);
  EXPECT_TRUE(store.is_shared(imported));
  EXPECT_EQ(store.held_granules(), 1u) << "its owner's, not ours";
  EXPECT_EQ(store.imported_total(), 1u);
  EXPECT_EQ(store.created_total(), 1u);
  EXPECT_THAT(store.MarkShared(imported),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  store.Put(imported);
  EXPECT_FALSE(store.is_cached(imported));
  EXPECT_EQ(store.retiring_granules(), 1u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  EXPECT_THAT(store.ReleaseCached(1), IsOkAndHolds(1u));
  EXPECT_EQ(store.released_total(), 1u);
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 0u)
      << "the exported one is still here";
  EXPECT_TRUE(store.is_held(exported));
}

TEST_F(GranuleSharingTest, DestructionReleasesWhatIsImportedOrRetires) {
  GranuleStore& store = MakeStore(4);
  const std::vector<GranuleId> exported =
      Acquire(2, GranuleKind::kExportable).granules;
  Descriptor descriptor;
  FIRN_ASSERT_OK(store.Export(exported[0], kDescriptor, descriptor.out()));
  FIRN_ASSERT_OK(store.Import(descriptor.in(), kDescriptor));
  FIRN_ASSERT_OK_AND_ASSIGN(const GranuleId retiring,
                            store.Import(descriptor.in(), kDescriptor));
  store.Put(retiring);
  store.Put(exported[0]);
  // TearDown looks for what is left.
}

TEST_F(GranuleSharingTest, BothSidesOfAnExportReachTheSameMemory) {
  GranuleStore& store = MakeStore(4);
  const GranuleId exported = AcquireExportable();
  Descriptor descriptor;
  FIRN_ASSERT_OK(store.Export(exported, kDescriptor, descriptor.out()));
  FIRN_ASSERT_OK_AND_ASSIGN(const GranuleId imported,
                            store.Import(descriptor.in(), kDescriptor));
  FIRN_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<AddressSpace> addresses,
      AddressSpace::Reserve(&driver_, granule_bytes(), 2, 2));
  MappingTableOptions options;
  options.access = {ReadWriteAccess(0)};
  MappingTable table(&driver_, addresses.get(), &store, std::move(options));
  FIRN_ASSERT_OK(table.Apply({MapTo(0, exported), MapTo(1, imported)}));

  const DevicePtr own = addresses->AddressOf(VgIndex(0));
  const DevicePtr theirs = addresses->AddressOf(VgIndex(1));
  const std::vector<uint32_t> first = PatternOf(1, granule_bytes());
  WriteWords(&ledger_, own, first);
  EXPECT_TRUE(ReadWords(&ledger_, theirs, granule_bytes()) == first);
  const std::vector<uint32_t> second = PatternOf(2, granule_bytes());
  WriteWords(&ledger_, theirs, second);
  EXPECT_TRUE(ReadWords(&ledger_, own, granule_bytes()) == second);

  // The importer's memory outlives the exporter's handle.
  FIRN_ASSERT_OK(table.Apply({Unmap(0)}));
  store.Put(exported);
  FIRN_ASSERT_OK(store.ReleaseCached(0));
  EXPECT_EQ(store.possibly_held_elsewhere_total(), 1u);
  EXPECT_TRUE(ReadWords(&ledger_, theirs, granule_bytes()) == second);
  FIRN_ASSERT_OK(table.Apply({Unmap(1)}));
  store.Put(imported);
}

}  // namespace
}  // namespace firn::testing
