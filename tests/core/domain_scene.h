// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools with domains on the CPU driver, and looks at what lies beneath.

#ifndef FIRN_TESTS_CORE_DOMAIN_SCENE_H_
#define FIRN_TESTS_CORE_DOMAIN_SCENE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

inline constexpr uint64_t kDomainGranule = 64 * kKiB;

class DomainScene : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(32, /*move_on_failure=*/false); }

  void MakePool(uint64_t granules, bool move_on_failure) {
    CpuDriverOptions driver_options;
    driver_options.sync = GetParam();
    driver_options.granularity_bytes = kDomainGranule;
    driver_options.device_bytes = 2 * granules * kDomainGranule;
    PoolOptions options;
    options.capacity_bytes = granules * kDomainGranule;
    options.move_on_failure = move_on_failure;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_,
                              PoolOnCpu::Create(driver_options, options));
  }

  void TearDown() override {
    if (on_cpu_ == nullptr) return;
    FIRN_EXPECT_OK(pool().CheckInvariants());
  }

  Pool& pool() { return on_cpu_->pool(); }

  Domain MustCreate(absl::string_view name, MemoryLimit limit = {}) {
    DomainOptions options;
    options.name = std::string(name);
    options.limit = limit;
    absl::StatusOr<Domain> domain = pool().CreateDomain(options);
    FIRN_EXPECT_OK(domain.status());
    return domain.ok() ? *std::move(domain) : Domain();
  }

  absl::StatusOr<void*> AllocateIn(const Domain& domain, uint64_t bytes) {
    AllocateOptions options;
    options.domain = domain.id();
    return pool().Allocate(bytes, options);
  }

  // Blocks of `bytes` until there is no room, or `most` of them.
  std::vector<FilledBlock> FillUp(const Domain& domain, uint64_t bytes,
                                  uint64_t most = ~uint64_t{0}) {
    std::vector<FilledBlock> blocks;
    while (blocks.size() < most) {
      const absl::StatusOr<void*> ptr = AllocateIn(domain, bytes);
      if (!ptr.ok()) break;
      blocks.push_back({*ptr, bytes, ++last_seed_});
    }
    return blocks;
  }

  void FreeAll(const std::vector<FilledBlock>& blocks) {
    for (const FilledBlock& block : blocks) {
      FIRN_EXPECT_OK(pool().Free(block.ptr));
    }
  }

  static bool IsZero(const FilledBlock& block) {
    const char* const bytes = static_cast<const char*>(block.ptr);
    return std::all_of(bytes, bytes + block.bytes,
                       [](char byte) { return byte == 0; });
  }

  // The handles of the granules beneath the blocks.
  std::set<PhysicalHandle> HandlesOf(const std::vector<FilledBlock>& blocks) {
    std::set<PhysicalHandle> handles;
    for (const FilledBlock& block : blocks) {
      const DevicePtr begin = reinterpret_cast<uintptr_t>(block.ptr);
      DevicePtr at = begin / kDomainGranule * kDomainGranule;
      for (; at < begin + block.bytes; at += kDomainGranule) {
        PhysicalHandle handle = 0;
        EXPECT_EQ(on_cpu_->cpu().MemRetainAllocationHandle(&handle, at),
                  DriverResult::kSuccess);
        handles.insert(handle);
        EXPECT_EQ(on_cpu_->cpu().MemRelease(handle), DriverResult::kSuccess);
      }
    }
    return handles;
  }

  DomainStats StatsOf(DomainId id) {
    for (const DomainStats& stats : pool().GetDomainStats()) {
      if (stats.id == id) return stats;
    }
    ADD_FAILURE() << "no domain " << static_cast<uint32_t>(id);
    return DomainStats();
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
  uint64_t last_seed_ = 0;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_DOMAIN_SCENE_H_
