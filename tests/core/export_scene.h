// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests of exported blocks share: a pool with exportable memory, and steps
// that are to succeed.

#ifndef FIRN_TESTS_CORE_EXPORT_SCENE_H_
#define FIRN_TESTS_CORE_EXPORT_SCENE_H_

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/core/exported_block.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/exporting_pool.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

inline bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) != -1; }

class ExportScene : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(ExportingOptions()); }

  static PoolOptions ExportingOptions() {
    PoolOptions options;
    options.export_type = ShareableHandleType::kPosixFileDescriptor;
    return options;
  }

  void MakePool(const PoolOptions& options) {
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_, MakeExportingPool(options, GetParam()));
  }

  Pool& pool() { return on_cpu_->pool(); }

  FilledBlock MustAllocate(uint64_t bytes, uint64_t seed,
                           AllocateOptions options = Exportable()) {
    const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
    FIRN_EXPECT_OK(ptr.status());
    const FilledBlock block = {ptr.value_or(nullptr), bytes, seed};
    if (ptr.ok()) Fill(block);
    return block;
  }

  ExportedBlock MustExport(const FilledBlock& block) {
    absl::StatusOr<ExportedBlock> exported = pool().Export(block.ptr);
    FIRN_EXPECT_OK(exported.status());
    return exported.ok() ? *std::move(exported) : ExportedBlock();
  }

  // Calls the pool until it has unmapped and released all that retires.
  void RetireAll() {
    for (int i = 0; i < 2000; ++i) {
      FIRN_ASSERT_OK(pool().Trim(pool().GetStats().held_bytes).status());
      const PoolStats stats = pool().GetStats();
      if (stats.pending_free_bytes == 0 && stats.used_bytes == 0) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    FAIL() << "something is still not released";
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_EXPORT_SCENE_H_
