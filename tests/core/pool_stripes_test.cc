// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where windows are aligned equal stripes of a granule, a full pass ends with
// the least number of granules, by theorem (compaction/stripe_packing.h). Here
// with the pool's own placement.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;

constexpr uint64_t kGranule = 2 * kMiB;
constexpr uint64_t kGranules = 400;
// Of windows of several slots, those that a class has first are smaller.
constexpr uint64_t kMostSmallWindows = 64;

uint64_t OffsetOf(void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr) % kGranule;
}

// Blocks of `bytes` that fill the pool.
absl::StatusOr<std::vector<void*>> FillPool(Pool* pool, uint64_t bytes) {
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> block = pool->Allocate(bytes);
    if (absl::IsResourceExhausted(block.status())) return blocks;
    if (!block.ok()) return block.status();
    blocks.push_back(*block);
  }
}

// Frees what is in all but `percent` of the stripes of `stripe_bytes`, chosen
// at random.
absl::Status KeepStripes(Pool* pool, std::vector<void*> blocks,
                         uint64_t stripe_bytes, uint64_t percent,
                         uint64_t seed) {
  std::sort(blocks.begin(), blocks.end());
  std::mt19937_64 random(seed);
  uint64_t stripe = 0;
  bool is_kept = false;
  for (void* const block : blocks) {
    const uint64_t at = reinterpret_cast<uintptr_t>(block) / stripe_bytes;
    if (at != stripe) {
      stripe = at;
      is_kept = random() % 100 < percent;
    }
    if (is_kept) continue;
    if (absl::Status freed = pool->Free(block); !freed.ok()) return freed;
  }
  return absl::OkStatus();
}

// Used granules after a full pass over the bound of what is then live.
void ExpectAFullPassReachesTheBound(Pool* pool) {
  const uint64_t used_before = pool->GetStats().used_bytes / kGranule;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport pass, pool->Compact());
  CompactOptions dry_run;
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport left,
                            pool->Compact(dry_run));
  ASSERT_EQ(pass.granules_before, used_before);
  EXPECT_LT(left.granules_before, used_before);
  EXPECT_EQ(left.granules_before, pass.granules_after);
  EXPECT_GE(left.granules_before, left.lower_bound_granules);
  EXPECT_LE(static_cast<double>(left.granules_before),
            1.02 * static_cast<double>(left.lower_bound_granules))
      << pass.ToString();
  FIRN_EXPECT_OK(pool->CheckInvariants());
}

struct Occupancy {
  uint64_t block_bytes;
  uint64_t stripe_bytes;  // a window
  uint64_t percent;       // of the stripes that stay
};

class PoolStripesTest : public ::testing::TestWithParam<Occupancy> {};

TEST_P(PoolStripesTest, AFullPassReachesTheBound) {
  const Occupancy& param = GetParam();
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PoolOnCpu> on_cpu,
                              PoolOnCpu::Ghost(kGranules * kGranule));
    Pool& pool = on_cpu->pool();
    FIRN_ASSERT_OK_AND_ASSIGN(const std::vector<void*> blocks,
                              FillPool(&pool, param.block_bytes));
    ASSERT_EQ(blocks.size(), kGranules * kGranule / param.block_bytes);
    for (void* const block : blocks) {
      ASSERT_EQ(OffsetOf(block) % param.block_bytes, 0u);
    }
    // Each window is a stripe.
    ASSERT_LE(pool.GetUsage().mapped_vgs,
              kGranules * kGranule / param.stripe_bytes + kMostSmallWindows);
    FIRN_ASSERT_OK(
        KeepStripes(&pool, blocks, param.stripe_bytes, param.percent, seed));
    ExpectAFullPassReachesTheBound(&pool);
  }
}

std::vector<Occupancy> Occupancies() {
  std::vector<Occupancy> all;
  for (const uint64_t percent : {20u, 30u, 50u, 70u, 90u}) {
    // Requests of an eighth of a granule and more have windows of their own.
    all.push_back({kMiB, kMiB, percent});
    all.push_back({512 * kKiB, 512 * kKiB, percent});
    all.push_back({256 * kKiB, 256 * kKiB, percent});
    // Eight slots a window, all of which live and die together.
    all.push_back({64 * kKiB, 512 * kKiB, percent});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sizes, PoolStripesTest,
                         ::testing::ValuesIn(Occupancies()),
                         [](const ::testing::TestParamInfo<Occupancy>& info) {
                           return absl::StrCat(info.param.block_bytes / kKiB,
                                               "KiB", info.param.percent,
                                               "Percent");
                         });

}  // namespace
}  // namespace firn
