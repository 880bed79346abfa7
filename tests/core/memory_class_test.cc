// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a memory class promises: what is pinned from birth stays where it is and
// is in nobody's way, and which pools have what classes.

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/exporting_pool.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Exportable;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::MakeExportingPool;
using ::firn::testing::MakeFixedPool;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::firn::testing::WithoutVirtualMemory;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = testing::kExportGranuleBytes;

AllocateOptions OfClass(MemoryClass memory_class) {
  AllocateOptions options;
  options.memory_class = memory_class;
  return options;
}

class MemoryClassTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(/*move_on_failure=*/false); }

  void MakePool(bool move_on_failure) {
    PoolOptions options;
    options.export_type = ShareableHandleType::kPosixFileDescriptor;
    options.move_on_failure = move_on_failure;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, MakeExportingPool(options, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }

  FilledBlock MustAllocate(uint64_t bytes, uint64_t seed,
                           MemoryClass memory_class) {
    const absl::StatusOr<void*> ptr =
        pool().Allocate(bytes, OfClass(memory_class));
    FIRN_EXPECT_OK(ptr.status());
    const FilledBlock block = {ptr.value_or(nullptr), bytes, seed};
    if (ptr.ok()) Fill(block);
    return block;
  }

  std::vector<uint64_t> GenerationsOf(const std::vector<FilledBlock>& blocks) {
    std::vector<uint64_t> generations;
    for (const FilledBlock& block : blocks) {
      const absl::StatusOr<uint64_t> generation = pool().Generation(block.ptr);
      FIRN_EXPECT_OK(generation.status());
      generations.push_back(generation.value_or(0));
    }
    return generations;
  }

  // One by one, so that they would share granules if they could: `count`
  // blocks of each of two classes, of a size; of the movable ones all but every
  // fourth are freed again.
  void Mix(MemoryClass resting, uint64_t bytes, uint64_t count) {
    std::vector<FilledBlock> movable;
    for (uint64_t i = 0; i < count; ++i) {
      movable.push_back(MustAllocate(bytes, i, MemoryClass::kMovable));
      resting_.push_back(MustAllocate(bytes, 1000 + i, resting));
    }
    FreeMostOf(movable);
  }

  void FreeMostOf(const std::vector<FilledBlock>& movable) {
    for (uint64_t i = 0; i < movable.size(); ++i) {
      if (i % 4 == 0) {
        movable_.push_back(movable[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(movable[i].ptr));
      }
    }
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  std::vector<FilledBlock> movable_;
  std::vector<FilledBlock> resting_;
};

TEST_P(MemoryClassTest, WhatIsPinnedFromBirthStaysAndIsInNobodysWay) {
  // What a pass makes of the movable ones alone.
  std::vector<FilledBlock> alone;
  for (uint64_t i = 0; i < 64; ++i) {
    alone.push_back(MustAllocate(kGranule / 8, i, MemoryClass::kMovable));
  }
  FreeMostOf(alone);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport best, pool().Compact());
  EXPECT_LT(best.granules_after, best.granules_before);
  EXPECT_EQ(best.granules_after, best.lower_bound_granules);

  MakePool(/*move_on_failure=*/false);
  movable_.clear();
  Mix(MemoryClass::kPinned, kGranule / 8, 64);
  const PoolStats before = pool().GetStats();
  EXPECT_EQ(before.pinned_granules, 8u);  // nothing but them
  EXPECT_EQ(before.used_bytes, 16 * kGranule);
  // These count what has a Pin.
  EXPECT_EQ(before.pinned_blocks, 0u);
  EXPECT_EQ(before.pinned_bytes, 0u);
  const std::vector<uint64_t> generations = GenerationsOf(resting_);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  EXPECT_EQ(report.granules_after, 8 + best.granules_after);
  EXPECT_EQ(report.lower_bound_granules, 8 + best.lower_bound_granules);
  EXPECT_EQ(report.pinned_granules, 8u);
  EXPECT_EQ(report.moves, best.moves);
  EXPECT_EQ(pool().GetStats().used_bytes, report.granules_after * kGranule);
  EXPECT_EQ(GenerationsOf(resting_), generations);
  EXPECT_EQ(CountDamaged(resting_), 0u);
  EXPECT_EQ(CountDamaged(movable_), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(MemoryClassTest, ExportableBlocksStayAndHostNothing) {
  Mix(MemoryClass::kExportable, kGranule / 8, 12);
  const PoolStats before = pool().GetStats();
  EXPECT_EQ(before.exportable_bytes, 12 * kGranule);
  EXPECT_EQ(before.pinned_granules, 12u);
  const std::vector<uint64_t> generations = GenerationsOf(resting_);
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
  // Seven eighths of each granule are free, and stay so.
  EXPECT_EQ(report.pinned_granules, 12u);
  EXPECT_EQ(pool().GetStats().exportable_bytes, 12 * kGranule);
  EXPECT_EQ(GenerationsOf(resting_), generations);
  EXPECT_EQ(CountDamaged(resting_), 0u);
  EXPECT_EQ(CountDamaged(movable_), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(MemoryClassTest,
       LargeBlocksThatArePinnedFromBirthShareWithTheirOwnKind) {
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t bytes = kGranule + kGranule / 4;
    resting_.push_back(MustAllocate(bytes, i, MemoryClass::kPinned));
    movable_.push_back(MustAllocate(bytes, 10 + i, MemoryClass::kMovable));
  }
  const std::vector<uint64_t> generations = GenerationsOf(resting_);
  FIRN_ASSERT_OK_AND_ASSIGN(const Pin pin,
                            pool().PinBlock(resting_[0].ptr, "a test"));
  const uint64_t pinned = pool().GetStats().pinned_granules;
  EXPECT_GE(pinned, 5u);
  EXPECT_LE(pinned, 8u);  // the pin on one of them adds nothing
  EXPECT_EQ(pool().GetStats().pinned_blocks, 1u);
  FIRN_ASSERT_OK(pool().Compact().status());
  EXPECT_EQ(GenerationsOf(resting_), generations);
  EXPECT_EQ(pool().GetStats().pinned_granules, pinned);
  EXPECT_EQ(CountDamaged(resting_), 0u);
  EXPECT_EQ(CountDamaged(movable_), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

// Movable blocks everywhere, few of them left: only moving makes room, also for
// those that will not move themselves.
TEST_P(MemoryClassTest, OthersMoveToMakeRoomForWhatDoesNot) {
  for (const MemoryClass resting :
       {MemoryClass::kPinned, MemoryClass::kExportable}) {
    MakePool(/*move_on_failure=*/true);
    resting_ = {MustAllocate(kGranule, 1000, resting)};
    std::vector<FilledBlock> all;
    for (uint64_t i = 0;; ++i) {
      const absl::StatusOr<void*> ptr = pool().Allocate(kGranule / 8);
      if (!ptr.ok()) break;
      all.push_back({*ptr, kGranule / 8, i});
      Fill(all.back());
    }
    ASSERT_EQ(all.size(), 8 * (testing::kExportCapacityGranules - 1));
    movable_.clear();
    for (const FilledBlock& block : all) {
      if (block.seed % 8 == 0) {
        movable_.push_back(block);
      } else {
        FIRN_ASSERT_OK(pool().Free(block.ptr));
      }
    }
    const std::vector<uint64_t> generations = GenerationsOf(resting_);
    std::vector<FilledBlock> kept = resting_;
    for (uint64_t i = 0; i < 20; ++i) {
      kept.push_back(MustAllocate(kGranule, 2000 + i, resting));
      ASSERT_NE(kept.back().ptr, nullptr) << i;
    }
    EXPECT_GT(pool().GetStats().granules_moved, 0u);
    EXPECT_EQ(GenerationsOf(resting_), generations);
    EXPECT_EQ(CountDamaged(kept), 0u);
    EXPECT_EQ(CountDamaged(movable_), 0u);
    FIRN_ASSERT_OK(pool().CheckInvariants());
  }
}

TEST_P(MemoryClassTest, ACompactionThatFailsAtAnyCallLeavesThemAlone) {
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    MakePool(/*move_on_failure=*/false);
    movable_.clear();
    resting_.clear();
    Mix(MemoryClass::kPinned, kGranule / 8, 16);
    resting_.push_back(MustAllocate(kGranule, 7, MemoryClass::kExportable));
    const std::vector<uint64_t> generations = GenerationsOf(resting_);
    on_cpu_->faults().Reset();
    on_cpu_->faults().FailNth(n, DriverResult::kUnknown);
    pool().Compact().IgnoreError();
    const bool reached = on_cpu_->faults().failures() > 0;
    on_cpu_->faults().Reset();
    EXPECT_EQ(GenerationsOf(resting_), generations);
    EXPECT_EQ(CountDamaged(resting_), 0u);
    EXPECT_EQ(CountDamaged(movable_), 0u);
    FIRN_ASSERT_OK(pool().CheckInvariants());
    if (!reached) break;
  }
}

TEST_P(MemoryClassTest, PinnedMemoryIsUsedAgainWithinItsClass) {
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0; i < 32; ++i) {
    blocks.push_back(MustAllocate(kGranule / 2, i, MemoryClass::kPinned));
  }
  for (const FilledBlock& block : blocks) {
    FIRN_ASSERT_OK(pool().Free(block.ptr));
  }
  const uint64_t created = pool().GetStats().handles_created;
  for (uint64_t i = 0; i < 32; ++i) {
    MustAllocate(kGranule / 2, i, MemoryClass::kPinned);
  }
  EXPECT_EQ(pool().GetStats().handles_created, created);
  EXPECT_EQ(pool().GetStats().pinned_granules, 16u);
}

TEST_P(MemoryClassTest, ExportableMemoryOfDomainsIsKeptApart) {
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain tenant,
                            pool().CreateDomain({/*name=*/"tenant", {}}));
  AllocateOptions options = Exportable();
  FIRN_ASSERT_OK_AND_ASSIGN(void* first, pool().Allocate(kKiB, options));
  Fill({first, kKiB, 1});
  FIRN_ASSERT_OK(pool().Free(first));
  options.domain = tenant.id();
  FIRN_ASSERT_OK_AND_ASSIGN(void* second, pool().Allocate(kKiB, options));
  FIRN_ASSERT_OK_AND_ASSIGN(const ExportedBlock exported,
                            pool().Export(second));
  EXPECT_EQ(exported.granule_count(), 1u);
  const std::vector<char> zeros(kGranule);
  EXPECT_EQ(std::memcmp(second, zeros.data(), kGranule), 0);
  EXPECT_EQ(pool().GetDomainStats()[1].live_bytes, kKiB);
  FIRN_ASSERT_OK(pool().Free(second));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

INSTANTIATE_TEST_SUITE_P(Extremes, MemoryClassTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

// --- Which pools have what ---

TEST(MemoryClassAvailabilityTest, ExportableMemoryHasToBeAskedForAtCreation) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                            MakeExportingPool(PoolOptions(), CpuSync::kLazy));
  EXPECT_THAT(
      on_cpu->pool().Allocate(kKiB, Exportable()).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("memory_class: kExportable"),
                     HasSubstr("export_type"), HasSubstr("rdma_capable"))));
  FIRN_ASSERT_OK_AND_ASSIGN(
      void* ptr, on_cpu->pool().Allocate(kKiB, OfClass(MemoryClass::kPinned)));
  EXPECT_THAT(on_cpu->pool().Export(ptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("export_type")));
}

// A device that lacks something.
class DriverWithout : public DriverWrapper {
 public:
  DriverWithout(Driver* base, DeviceAttribute missing)
      : DriverWrapper(base), missing_(missing) {}
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override {
    const DriverResult result =
        DriverWrapper::DeviceGetAttribute(value, attribute);
    if (attribute == missing_) *value = 0;
    return result;
  }

 private:
  const DeviceAttribute missing_;
};

TEST(MemoryClassAvailabilityTest, WhatTheDeviceLacksIsNamedAtCreation) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 32 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto cpu, CpuDriver::Create(driver_options));
  PoolOptions options;
  options.capacity_bytes = 16 * kMiB;
  const auto create_without = [&](DeviceAttribute missing) {
    options.driver = std::make_shared<DriverWithout>(cpu.get(), missing);
    return Pool::Create(options).status();
  };
  options.rdma_capable = true;
  FIRN_EXPECT_OK(create_without(DeviceAttribute::kPosixFileDescriptorHandles));
  EXPECT_THAT(create_without(DeviceAttribute::kGpuDirectRdmaWithVmm),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rdma_capable: "),
                             HasSubstr("attribute 110 of the device is 0"))));
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  EXPECT_THAT(create_without(DeviceAttribute::kGpuDirectRdmaWithVmm),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("export_type and rdma_capable: ")));
  options.rdma_capable = false;
  FIRN_EXPECT_OK(create_without(DeviceAttribute::kGpuDirectRdmaWithVmm));
  EXPECT_THAT(create_without(DeviceAttribute::kPosixFileDescriptorHandles),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("export_type: "),
                             HasSubstr("attribute 103 of the device is 0"))));
}

// Memory to be shared comes in larger pieces.
class DriverWithLargeShares : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult MemGetAllocationGranularity(size_t* granularity_bytes,
                                           const AllocationProp* prop,
                                           GranularityKind kind) override {
    const DriverResult result = DriverWrapper::MemGetAllocationGranularity(
        granularity_bytes, prop, kind);
    if (prop->requested_handle_types != ShareableHandleType::kNone) {
      *granularity_bytes *= 2;
    }
    return result;
  }
};

TEST(MemoryClassAvailabilityTest, GranulesAreLargeEnoughForBothKinds) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 32 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(const auto cpu, CpuDriver::Create(driver_options));
  PoolOptions options;
  options.capacity_bytes = 16 * kMiB;
  options.driver = std::make_shared<DriverWithLargeShares>(cpu.get());
  FIRN_ASSERT_OK_AND_ASSIGN(auto pool, Pool::Create(options));
  EXPECT_EQ(pool->GetStats().granule_bytes, 2 * kMiB);
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  FIRN_ASSERT_OK_AND_ASSIGN(pool, Pool::Create(options));
  EXPECT_EQ(pool->GetStats().granule_bytes, 4 * kMiB);
  options.granule_bytes = 2 * kMiB;
  EXPECT_THAT(
      Pool::Create(options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("granule_bytes")));
}

TEST(MemoryClassAvailabilityTest, WithoutVirtualMemoryAllIsPinnedAnyway) {
  FIRN_ASSERT_OK_AND_ASSIGN(const auto on_cpu, MakeFixedPool(8 * kMiB));
  AllocateOptions options = OfClass(MemoryClass::kPinned);
  options.lifetime = Lifetime::kLong;
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, on_cpu->pool().Allocate(kKiB, options));
  EXPECT_THAT(on_cpu->pool().Allocate(kKiB, Exportable()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("memory_class: kExportable")));
  EXPECT_THAT(on_cpu->pool().Export(ptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("export_type")));
  FIRN_EXPECT_OK(on_cpu->pool().Free(ptr));
}

TEST(MemoryClassAvailabilityTest, WithoutVirtualMemoryNothingCanBeShared) {
  PoolOptions options;
  options.capacity_bytes = 8 * kMiB;
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  EXPECT_THAT(
      PoolOnCpu::Create(WithoutVirtualMemory(16 * kMiB), options).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("export_type: ")));
  options.export_type = ShareableHandleType::kNone;
  options.rdma_capable = true;
  EXPECT_THAT(
      PoolOnCpu::Create(WithoutVirtualMemory(16 * kMiB), options).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("rdma_capable: ")));
}

}  // namespace
}  // namespace firn
