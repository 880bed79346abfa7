// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that are given to others: what these see, and that nobody else ever
// gets the memory again.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/exported_block.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/export_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/importer.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Exportable;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::Importer;
using ::firn::testing::IsIntact;
using ::firn::testing::IsOpen;
using ::firn::testing::kKiB;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = testing::kExportGranuleBytes;

class ExportTest : public testing::ExportScene {};

TEST_P(ExportTest, AnImporterSeesTheBlockAndZerosBehindIt) {
  const uint64_t bytes = 2 * kGranule + 1000;
  const FilledBlock block = MustAllocate(bytes, 1);
  const ExportedBlock exported = MustExport(block);
  EXPECT_EQ(exported.type(), ShareableHandleType::kPosixFileDescriptor);
  EXPECT_EQ(exported.bytes(), bytes);
  EXPECT_EQ(exported.granule_bytes(), kGranule);
  EXPECT_EQ(exported.offset_bytes(), 0u);
  ASSERT_EQ(exported.granule_count(), 3u);
  Importer importer(exported, GetParam());
  ASSERT_NE(importer.data(), nullptr);
  EXPECT_TRUE(IsIntact({importer.data(), bytes, 1}));
  for (uint64_t i = bytes; i < 3 * kGranule; ++i) {
    ASSERT_EQ(importer.data()[i], 0) << "byte " << i;
  }
  // It is the same memory in both directions.
  Fill({importer.data(), bytes, 2});
  EXPECT_TRUE(IsIntact({block.ptr, bytes, 2}));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ExportTest, WhatIsExportedIsNeverGivenToAnybodyElse) {
  const FilledBlock block = MustAllocate(3 * kGranule, 1);
  Importer importer(MustExport(block), GetParam());
  ASSERT_NE(importer.data(), nullptr);
  FIRN_ASSERT_OK(pool().Free(block.ptr));
  RetireAll();
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.possibly_held_elsewhere, 3u);
  EXPECT_EQ(stats.exportable_bytes, 0u);
  EXPECT_EQ(stats.held_bytes, 0u);
  EXPECT_TRUE(IsIntact({importer.data(), 3 * kGranule, 1}));
  // The whole pool is written to, and the importer's copy stays as it was.
  std::vector<FilledBlock> blocks;
  for (uint64_t i = 0;; ++i) {
    const absl::StatusOr<void*> ptr = pool().Allocate(
        kGranule, i % 2 == 0 ? Exportable() : AllocateOptions());
    if (!ptr.ok()) break;
    blocks.push_back({*ptr, kGranule, 100 + i});
    Fill(blocks.back());
  }
  EXPECT_EQ(blocks.size(), testing::kExportCapacityGranules);
  EXPECT_TRUE(IsIntact({importer.data(), 3 * kGranule, 1}));
  Fill({importer.data(), 3 * kGranule, 2});
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ExportTest, MemoryIsNotReleasedBeforeItsWorkIsDone) {
  const FilledBlock block = MustAllocate(kGranule, 1);
  ExportedBlock exported = MustExport(block);
  std::atomic<bool> gate{false};
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
            DriverResult::kSuccess);
  KernelRange range;
  range.address = reinterpret_cast<uintptr_t>(block.ptr);
  range.bytes = block.bytes;
  range.writes = true;
  ASSERT_EQ(
      on_cpu_->cpu().LaunchKernel(stream, {range},
                                  [&] {
                                    while (!gate.load()) {
                                      absl::SleepFor(absl::Milliseconds(1));
                                    }
                                    Fill({block.ptr, block.bytes, 7});
                                  }),
      DriverResult::kSuccess);
  // The only stream of the pool: elsewhere it would do without a token.
  FIRN_ASSERT_OK(pool().Free(block.ptr, stream));
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.pending_free_bytes, kGranule);
  EXPECT_EQ(stats.exportable_bytes, kGranule);
  EXPECT_EQ(stats.possibly_held_elsewhere, 0u);
  EXPECT_EQ(on_cpu_->cpu().loss(), "");
  gate.store(true);
  RetireAll();
  EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 1u);
  Importer importer(exported, GetParam());
  ASSERT_NE(importer.data(), nullptr);
  EXPECT_TRUE(IsIntact({importer.data(), kGranule, 7}));
  EXPECT_EQ(on_cpu_->cpu().StreamDestroy(stream), DriverResult::kSuccess);
}

TEST_P(ExportTest, InsideALaunchScopeUnmappingIsPutOff) {
  const FilledBlock block = MustAllocate(kGranule, 1);
  const ExportedBlock exported = MustExport(block);
  {
    const LaunchScope scope(pool());
    FIRN_ASSERT_OK(pool().Free(block.ptr));
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
    FIRN_ASSERT_OK_AND_ASSIGN(void* other, pool().Allocate(kKiB));
    EXPECT_EQ(pool().GetStats().exportable_bytes, kGranule);
    EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 0u);
    EXPECT_THAT(pool().Allocate(kKiB, Exportable()).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("LaunchScope")));
    FIRN_ASSERT_OK(pool().Free(other));
  }
  FIRN_EXPECT_OK(pool().CheckInvariants());
  // Any call that no cache answers will do.
  FIRN_ASSERT_OK(pool().Allocate(kGranule).status());
  EXPECT_EQ(pool().GetStats().exportable_bytes, 0u);
  EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 1u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ExportTest, NeitherFreeNorTheReleaseWaitsForTheDevice) {
  const FilledBlock block = MustAllocate(kGranule, 1);
  const FilledBlock used = MustAllocate(kGranule, 2, AllocateOptions());
  const ExportedBlock exported = MustExport(block);
  FIRN_ASSERT_OK(pool().Free(used.ptr));  // waits for nothing, and has no token
  // Whoever waited for the device would meet the error.
  on_cpu_->faults().FailNthOf(DriverCall::kCtxSynchronize, 0,
                              DriverResult::kUnknown);
  FIRN_EXPECT_OK(pool().Free(block.ptr));
  ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  FIRN_EXPECT_OK(pool().Trim(pool().GetStats().held_bytes).status());
  EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 1u);
  EXPECT_EQ(on_cpu_->faults().failures(), 0u);
}

TEST_P(ExportTest, WhatWasNeverExportedIsUsedAgainWithinTheClass) {
  for (uint64_t round = 0; round < 4; ++round) {
    const FilledBlock block = MustAllocate(2 * kGranule, round);
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
    FIRN_ASSERT_OK(pool().Free(block.ptr));
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
  }
  PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.handles_created, 2u);
  EXPECT_EQ(stats.possibly_held_elsewhere, 0u);
  EXPECT_EQ(stats.zeroed_bytes, 8 * kGranule);
  // Not even the bytes of an earlier block of this class are seen.
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool().Allocate(kKiB, Exportable()));
  EXPECT_EQ(pool().GetStats().handles_created, 2u);
  const char* const bytes = static_cast<char*>(ptr);
  EXPECT_TRUE(std::all_of(bytes, bytes + kGranule,
                          [](char byte) { return byte == 0; }));
  FIRN_ASSERT_OK(pool().Free(ptr));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ExportTest, BlocksHaveTheirGranulesToThemselves) {
  const FilledBlock first = MustAllocate(512, 1);
  const FilledBlock second = MustAllocate(512, 2);
  const FilledBlock third = MustAllocate(kGranule + 512, 3);
  const FilledBlock movable = MustAllocate(512, 4, AllocateOptions());
  EXPECT_EQ(pool().GetStats().exportable_bytes, 4 * kGranule);
  EXPECT_EQ(pool().GetStats().used_bytes, 5 * kGranule);
  for (const FilledBlock& block : {first, second, third}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.ptr) % kGranule, 0u);
  }
  EXPECT_EQ(CountDamaged({first, second, third, movable}), 0u);
}

TEST_P(ExportTest, AlignmentBeyondAGranuleIsKept) {
  AllocateOptions options = Exportable();
  options.alignment_bytes = 4 * kGranule;
  const FilledBlock block = MustAllocate(kGranule, 1, options);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.ptr) % (4 * kGranule), 0u);
  EXPECT_EQ(MustExport(block).granule_count(), 1u);
}

TEST_P(ExportTest, ABlockMayBeExportedAgain) {
  const FilledBlock block = MustAllocate(kGranule, 1);
  Importer first(MustExport(block), GetParam());
  Importer second(MustExport(block), GetParam());
  ASSERT_NE(first.data(), nullptr);
  ASSERT_NE(second.data(), nullptr);
  Fill({first.data(), kGranule, 9});
  EXPECT_TRUE(IsIntact({second.data(), kGranule, 9}));
  FIRN_ASSERT_OK(pool().Free(block.ptr));
  RetireAll();
  EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 1u);
}

TEST_P(ExportTest, DescriptorsAreClosedUnlessTheyAreReleased) {
  const FilledBlock block = MustAllocate(3 * kGranule, 1);
  int kept = -1;
  int closed = -1;
  {
    ExportedBlock exported = MustExport(block);
    ASSERT_EQ(exported.granule_count(), 3u);
    closed = exported.descriptor(0);
    kept = exported.ReleaseDescriptor(1);
    EXPECT_EQ(exported.descriptor(1), -1);
    ExportedBlock owner(std::move(exported));
    EXPECT_EQ(exported.granule_count(), 0u);
    EXPECT_EQ(exported.type(), ShareableHandleType::kNone);
    EXPECT_EQ(owner.descriptor(0), closed);
    EXPECT_TRUE(IsOpen(closed));
    const int second = MustExport(block).descriptor(2);
    EXPECT_FALSE(IsOpen(second));
    ExportedBlock other = MustExport(block);
    const int others = other.descriptor(0);
    other = std::move(owner);
    EXPECT_FALSE(IsOpen(others));
    EXPECT_TRUE(IsOpen(closed));
  }
  EXPECT_FALSE(IsOpen(closed));
  EXPECT_TRUE(IsOpen(kept));
  EXPECT_EQ(close(kept), 0);
}

TEST_P(ExportTest, WhatCannotBeExportedIsRefused) {
  const FilledBlock block = MustAllocate(kGranule, 1);
  const FilledBlock movable = MustAllocate(kGranule, 2, AllocateOptions());
  EXPECT_THAT(pool().Export(static_cast<char*>(block.ptr) + 512).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ptr")));
  EXPECT_THAT(pool().Export(movable.ptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("kExportable")));
  FIRN_ASSERT_OK(pool().Free(block.ptr));
  EXPECT_THAT(pool().Export(block.ptr).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ptr")));
  PoolOptions options;
  options.rdma_capable = true;
  MakePool(options);
  const FilledBlock registered = MustAllocate(kGranule, 3);
  EXPECT_THAT(pool().Export(registered.ptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("export_type")));
}

TEST_P(ExportTest, RdmaCapableMemoryIsReleasedWhetherOrNotItWasExported) {
  for (const auto type : {ShareableHandleType::kNone,
                          ShareableHandleType::kPosixFileDescriptor}) {
    PoolOptions options;
    options.export_type = type;
    options.rdma_capable = true;
    MakePool(options);
    for (uint64_t round = 1; round <= 3; ++round) {
      const FilledBlock block = MustAllocate(2 * kGranule, round);
      FIRN_ASSERT_OK(pool().Free(block.ptr));
      RetireAll();
      const PoolStats stats = pool().GetStats();
      EXPECT_EQ(stats.possibly_held_elsewhere, 2 * round);
      EXPECT_EQ(stats.handles_released, 2 * round);
      EXPECT_EQ(stats.exportable_bytes, 0u);
      FIRN_ASSERT_OK(pool().CheckInvariants());
    }
  }
}

TEST_P(ExportTest, AnAllocationThatWouldFailWaitsForWhatRetires) {
  const uint64_t most = testing::kExportCapacityGranules;
  for (uint64_t round = 0; round < 3; ++round) {
    const FilledBlock block = MustAllocate(most * kGranule, round);
    ASSERT_NE(block.ptr, nullptr);
    const ExportedBlock exported = MustExport(block);
    FIRN_ASSERT_OK(pool().Free(block.ptr));
    // And the same with movable memory, which takes the place of it.
    const FilledBlock movable =
        MustAllocate(most * kGranule, 9, AllocateOptions());
    ASSERT_NE(movable.ptr, nullptr);
    FIRN_ASSERT_OK(pool().Free(movable.ptr));
    EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, (round + 1) * most);
    FIRN_ASSERT_OK(pool().CheckInvariants());
  }
}

TEST_P(ExportTest, ThreadsExportWhileOthersMove) {
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; !stop.load(); ++round) {
        const absl::StatusOr<void*> ptr =
            pool().Allocate(2 * kGranule, Exportable());
        const absl::StatusOr<void*> movable = pool().Allocate(kGranule / 4);
        if (!ptr.ok() || !movable.ok()) {
          ++wrong;
          break;
        }
        const FilledBlock block = {*ptr, 2 * kGranule, 1000 * t + round};
        Fill(block);
        if (round % 2 == 0 && !pool().Export(*ptr).ok()) ++wrong;
        std::this_thread::yield();
        if (!IsIntact(block)) ++wrong;
        if (!pool().Free(*ptr).ok() || !pool().Free(*movable).ok()) ++wrong;
      }
    });
  }
  for (int i = 0; i < 40; ++i) {
    FIRN_EXPECT_OK(pool().Compact().status());
    FIRN_EXPECT_OK(pool().CheckInvariants());
    std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  FIRN_ASSERT_OK(pool().Compact().status());
  FIRN_ASSERT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

TEST_P(ExportTest, TheImporterOutlivesThePool) {
  const FilledBlock block = MustAllocate(2 * kGranule, 1);
  Importer importer(MustExport(block), GetParam());
  on_cpu_->DestroyPool();
  ASSERT_NE(importer.data(), nullptr);
  EXPECT_TRUE(IsIntact({importer.data(), 2 * kGranule, 1}));
}

INSTANTIATE_TEST_SUITE_P(Extremes, ExportTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
