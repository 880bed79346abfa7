// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The driver refuses to export, or fails on the way there and back: nothing is
// lost, and nothing that was exported is used again.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "firn/core/exported_block.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/export_scene.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/importer.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::Exportable;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::Importer;
using ::firn::testing::IsIntact;
using ::firn::testing::IsOpen;
using ::firn::testing::StatusIs;
using ::firn::testing::SyncName;
using ::testing::HasSubstr;

constexpr uint64_t kGranule = testing::kExportGranuleBytes;

class ExportFailureTest : public testing::ExportScene {};

TEST_P(ExportFailureTest, FailingToExportOneGranuleLeavesNoDescriptor) {
  const FilledBlock block = MustAllocate(3 * kGranule, 1);
  const int lowest = MustExport(block).descriptor(0);
  for (uint64_t n = 0; n < 3; ++n) {
    on_cpu_->faults().FailNthOf(DriverCall::kMemExportToShareableHandle, n,
                                DriverResult::kUnknown);
    EXPECT_THAT(pool().Export(block.ptr).status(),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("cuMemExportToShareableHandle")));
    on_cpu_->faults().Reset();
    // The lowest number is given out first.
    EXPECT_FALSE(IsOpen(lowest));
    EXPECT_FALSE(IsOpen(lowest + 1));
    FIRN_ASSERT_OK(pool().CheckInvariants());
  }
  FIRN_ASSERT_OK(pool().Free(block.ptr));
  RetireAll();
  EXPECT_EQ(pool().GetStats().possibly_held_elsewhere, 3u);
}

TEST_P(ExportFailureTest, FailingToExportTheFirstTimeCountsWhatWasExported) {
  const FilledBlock block = MustAllocate(3 * kGranule, 1);
  on_cpu_->faults().FailNthOf(DriverCall::kMemExportToShareableHandle, 1,
                              DriverResult::kUnknown);
  EXPECT_FALSE(pool().Export(block.ptr).ok());
  on_cpu_->faults().Reset();
  FIRN_ASSERT_OK(pool().Free(block.ptr));
  RetireAll();
  FIRN_ASSERT_OK(pool().CheckInvariants());
  const PoolStats stats = pool().GetStats();
  EXPECT_EQ(stats.possibly_held_elsewhere, 1u);
  // The other two are as new.
  EXPECT_EQ(stats.cached_bytes, 2 * kGranule);
  FIRN_ASSERT_OK(pool().Trim().status());
  EXPECT_EQ(pool().GetStats().held_bytes, 0u);
}

// Allocates, exports, frees and trims with each driver call failing in turn.
TEST_P(ExportFailureTest, WhicheverDriverCallFailsNothingIsLost) {
  uint64_t reported = 0;
  for (uint64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    MakePool(ExportingOptions());
    const FilledBlock other = MustAllocate(kGranule / 2, 5, AllocateOptions());
    on_cpu_->faults().Reset();
    on_cpu_->faults().FailNth(n, DriverResult::kUnknown);
    uint64_t failed = 0;
    const auto try_twice = [&](auto call) {
      absl::Status status = call();
      if (!status.ok()) {
        ++failed;
        FIRN_EXPECT_OK(pool().CheckInvariants());
        status = call();
      }
      FIRN_EXPECT_OK(status);
    };
    void* ptr = nullptr;
    try_twice([&] {
      const absl::StatusOr<void*> result =
          pool().Allocate(2 * kGranule + 1, Exportable());
      ptr = result.value_or(nullptr);
      return result.status();
    });
    ASSERT_NE(ptr, nullptr);
    const FilledBlock block = {ptr, 2 * kGranule + 1, 6};
    EXPECT_TRUE(std::all_of(static_cast<char*>(ptr),
                            static_cast<char*>(ptr) + 3 * kGranule,
                            [](char byte) { return byte == 0; }));
    Fill(block);
    ExportedBlock exported;
    try_twice([&] {
      absl::StatusOr<ExportedBlock> result = pool().Export(ptr);
      if (result.ok()) exported = *std::move(result);
      return result.status();
    });
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
    try_twice([&] { return pool().Free(ptr); });
    ASSERT_EQ(on_cpu_->cpu().CtxSynchronize(), DriverResult::kSuccess);
    try_twice([&] { return pool().Trim().status(); });
    const bool reached = on_cpu_->faults().failures() > 0;
    on_cpu_->faults().Reset();
    EXPECT_LE(failed, 1u);
    reported += failed;
    FIRN_ASSERT_OK(pool().Trim().status());
    FIRN_ASSERT_OK(pool().CheckInvariants());
    const PoolStats stats = pool().GetStats();
    EXPECT_EQ(stats.possibly_held_elsewhere, 3u);
    EXPECT_EQ(stats.exportable_bytes, 0u);
    EXPECT_EQ(stats.held_bytes, kGranule);
    Importer importer(exported, GetParam());
    ASSERT_NE(importer.data(), nullptr);
    EXPECT_TRUE(IsIntact({importer.data(), block.bytes, 6}));
    EXPECT_TRUE(IsIntact(other));
    if (!reached || HasFailure()) break;
  }
  EXPECT_GE(reported, 10u);
}

INSTANTIATE_TEST_SUITE_P(Extremes, ExportFailureTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
