// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool with DebugOptions, beside what moves, shares and places its memory:
// passes over declared blocks, classical structures, peers and exported blocks.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "firn/core/exported_block.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/debug_scene.h"
#include "tests/support/exporting_pool.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::DebugDriverOptions;
using ::firn::testing::DebugPoolOptions;
using ::firn::testing::DebugSetting;
using ::firn::testing::Exportable;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::MakeExportingPool;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::ReportLog;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DebugModeMovesTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void MakePool(PlacementKind placement) {
    PoolOptions options = DebugPoolOptions(&log_);
    options.placement = placement;
    FIRN_ASSERT_OK_AND_ASSIGN(
        on_cpu_, PoolOnCpu::Create(DebugDriverOptions({GetParam(), true}),
                                   std::move(options)));
  }

  Pool& pool() { return on_cpu_->pool(); }

  // Every other one of many blocks is left.
  std::vector<FilledBlock> Scatter() {
    std::vector<FilledBlock> all;
    for (uint64_t i = 0; i < 120; ++i) {
      const absl::StatusOr<void*> ptr = pool().Allocate(10 * kKiB);
      FIRN_EXPECT_OK(ptr.status());
      if (!ptr.ok()) return {};
      all.push_back({*ptr, 10 * kKiB, i});
      Fill(all.back());
    }
    std::vector<FilledBlock> left;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 3 == 0) {
        left.push_back(all[i]);
      } else {
        FIRN_EXPECT_OK(pool().Free(all[i].ptr));
      }
    }
    // The quarantine is emptied.
    FIRN_EXPECT_OK(pool().Trim().status());
    return left;
  }

  ReportLog log_;
  std::unique_ptr<PoolOnCpu> on_cpu_;
};

INSTANTIATE_TEST_SUITE_P(Extremes, DebugModeMovesTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

TEST_P(DebugModeMovesTest, DeclaredBlocksMoveTogetherWithTheirGuards) {
  MakePool(PlacementKind::kFirn);
  const std::vector<FilledBlock> blocks = Scatter();
  for (const FilledBlock& block : blocks) {
    FIRN_ASSERT_OK(pool().MarkIdle(block.ptr, nullptr));
  }
  on_cpu_->cpu().CtxSynchronize();
  CompactOptions options;
  options.level = CompactionLevel::kDeclaredIdle;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            pool().Compact(options));
  EXPECT_GT(report.moves, 0u);
  EXPECT_EQ(CountDamaged(blocks), 0u);
  FIRN_EXPECT_OK(pool().CheckInvariants());
  EXPECT_THAT(log_.Take(), IsEmpty());
  // They are watched where they are now.
  for (const FilledBlock& block : blocks) {
    FIRN_ASSERT_OK(pool().MarkActive(block.ptr));
    static_cast<char*>(block.ptr)[block.bytes] = 'x';
  }
  EXPECT_THAT(pool().CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("behind its end"), HasSubstr("0x78"))));
  EXPECT_THAT(log_.Take(), SizeIs(blocks.size()));
}

TEST_P(DebugModeMovesTest, StructuresPlaceGuardedBlocks) {
  for (const PlacementKind placement :
       {PlacementKind::kFreeList, PlacementKind::kSizeHash,
        PlacementKind::kSlab, PlacementKind::kBuddy, PlacementKind::kTiered}) {
    MakePool(placement);
    const std::vector<FilledBlock> blocks = Scatter();
    FIRN_ASSERT_OK(pool().Compact({}).status());
    EXPECT_EQ(CountDamaged(blocks), 0u) << PlacementKindName(placement);
    FIRN_EXPECT_OK(pool().CheckInvariants()) << PlacementKindName(placement);
    EXPECT_THAT(log_.Take(), IsEmpty()) << PlacementKindName(placement);
    static_cast<char*>(blocks[0].ptr)[-1] = 'x';
    EXPECT_THAT(
        pool().CheckInvariants(),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("before its start")))
        << PlacementKindName(placement);
    EXPECT_THAT(log_.Take(), SizeIs(1)) << PlacementKindName(placement);
  }
}

TEST_P(DebugModeMovesTest, ABlockThatAPeerWritesTooFarIsFound) {
  CpuDriverOptions driver_options = DebugDriverOptions({GetParam(), true});
  driver_options.device_count = 2;
  auto devices = CpuDriver::CreateDevices(driver_options);
  FIRN_ASSERT_OK(devices.status());
  const std::shared_ptr<CpuDriver> own = std::move((*devices)[0]);
  const std::shared_ptr<CpuDriver> peer = std::move((*devices)[1]);
  PoolOptions options = DebugPoolOptions(&log_);
  options.driver = own;
  options.peers = {peer};
  FIRN_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Pool> pool, Pool::Create(options));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const block, pool->Allocate(1000));
  own->CtxSynchronize();
  const uintptr_t end = reinterpret_cast<uintptr_t>(block) + 1000;
  const auto write = [&](uint64_t from, char value) {
    const KernelRange range = {from, 8, true};
    return peer->LaunchKernel(nullptr, {range}, [from, value] {
      std::memset(reinterpret_cast<void*>(from), value, 8);
    });
  };
  ASSERT_EQ(write(end - 8, 'w'), DriverResult::kSuccess);
  peer->CtxSynchronize();
  FIRN_EXPECT_OK(pool->CheckInvariants());
  ASSERT_EQ(write(end, 'x'), DriverResult::kSuccess);
  peer->CtxSynchronize();
  EXPECT_THAT(pool->CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("8 bytes at offsets 1000 to 1007")));
  // What it has done before a free is none of it.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const other, pool->Allocate(1000));
  own->CtxSynchronize();
  ASSERT_EQ(write(reinterpret_cast<uintptr_t>(other), 'w'),
            DriverResult::kSuccess);
  peer->CtxSynchronize();
  log_.Take();
  FIRN_EXPECT_OK(pool->Free(other));
  FIRN_EXPECT_OK(pool->Trim().status());
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_P(DebugModeMovesTest, ExportableBlocksAreExportedWholeAndUnguarded) {
  PoolOptions options = DebugPoolOptions(&log_);
  options.capacity_bytes = 2 * kMiB;
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, MakeExportingPool(options, GetParam()));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr,
                            pool().Allocate(100 * kKiB, Exportable()));
  const FilledBlock block = {ptr, 100 * kKiB, 1};
  Fill(block);
  FIRN_ASSERT_OK_AND_ASSIGN(const ExportedBlock exported, pool().Export(ptr));
  EXPECT_EQ(exported.bytes(), block.bytes);
  EXPECT_EQ(exported.offset_bytes(), 0u);
  EXPECT_TRUE(IsIntact(block));
  // Blocks beside it are guarded as ever.
  FIRN_ASSERT_OK_AND_ASSIGN(void* const guarded, pool().Allocate(1000));
  FIRN_EXPECT_OK(pool().CheckInvariants());
  static_cast<char*>(guarded)[1000] = 'x';
  EXPECT_THAT(pool().CheckInvariants(), StatusIs(absl::StatusCode::kInternal,
                                                 HasSubstr("behind its end")));
  FIRN_EXPECT_OK(pool().Free(ptr));
  FIRN_EXPECT_OK(pool().Free(guarded));
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

}  // namespace
}  // namespace firn
