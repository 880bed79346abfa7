// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool's fragmentation in figures, against a count of what lies where.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fragmentation_identities.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FragmentationIdentities;
using ::firn::testing::kKiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::SyncName;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kGranule = 64 * kKiB;
constexpr uint64_t kQuanta = kGranule / kQuantumBytes;

// Of granules this small every block takes up what was asked for, in whole
// quanta.
class PoolFragmentationTest : public ::testing::TestWithParam<CpuSync> {
 protected:
  void SetUp() override { MakePool(32); }

  void MakePool(uint64_t granules) {
    on_cpu_.reset();
    CpuDriverOptions driver_options;
    driver_options.sync = GetParam();
    driver_options.granularity_bytes = kGranule;
    driver_options.device_bytes = 2 * granules * kGranule;
    PoolOptions options;
    options.capacity_bytes = granules * kGranule;
    FIRN_ASSERT_OK_AND_ASSIGN(on_cpu_,
                              PoolOnCpu::Create(driver_options, options));
  }
  void TearDown() override { EXPECT_EQ(on_cpu_->cpu().loss(), ""); }

  Pool& pool() { return on_cpu_->pool(); }
  void* MustAllocate(uint64_t bytes, const AllocateOptions& options = {}) {
    const absl::StatusOr<void*> ptr = pool().Allocate(bytes, options);
    FIRN_EXPECT_OK(ptr.status());
    return ptr.ok() ? *ptr : nullptr;
  }
  FragmentationStats MustGet() {
    const FragmentationStats figures = pool().GetFragmentation();
    const PoolStats stats = pool().GetStats();
    FIRN_EXPECT_OK(FragmentationIdentities(figures).With(stats).status());
    // Nothing here is on its way to the driver.
    if (figures.lost_bytes == 0) {
      EXPECT_EQ(figures.used_bytes + figures.empty_bytes, stats.held_bytes);
    }
    return figures;
  }

  std::unique_ptr<PoolOnCpu> on_cpu_;
};

// What is live on each granule, found out block by block and quantum by
// quantum: the driver tells what an address is mapped to.
class CountedGranules {
 public:
  CountedGranules(Driver* driver, const std::vector<FilledBlock>& blocks,
                  const std::set<void*>& pinned) {
    for (const FilledBlock& block : blocks) {
      const DevicePtr begin = reinterpret_cast<uintptr_t>(block.ptr);
      requested_bytes_ += block.bytes;
      for (DevicePtr at = begin; at < begin + block.bytes;
           at += kQuantumBytes) {
        const DevicePtr vg = at / kGranule * kGranule;
        PhysicalHandle handle = 0;
        EXPECT_EQ(driver->MemRetainAllocationHandle(&handle, vg),
                  DriverResult::kSuccess);
        EXPECT_EQ(driver->MemRelease(handle), DriverResult::kSuccess);
        const uint64_t offset = (at - vg) / kQuantumBytes;
        EXPECT_TRUE(granules_[handle].insert(offset).second);
        vgs_[vg].insert(offset);
        if (vg >= begin && vg + kGranule <= begin + block.bytes) {
          filled_.insert(handle);
        }
        if (pinned.count(block.ptr) > 0) pinned_.insert(handle);
      }
    }
  }

  void ExpectSame(const FragmentationStats& figures) const {
    uint64_t live_quanta = 0;
    std::map<uint64_t, uint64_t> holes;  // by quanta
    for (const auto& [handle, live] : granules_) {
      live_quanta += live.size();
      uint64_t end = 0;
      for (const uint64_t offset : live) {
        if (offset > end) ++holes[offset - end];
        end = offset + 1;
      }
      if (end < kQuanta) ++holes[kQuanta - end];
    }
    const uint64_t used = granules_.size();
    EXPECT_EQ(figures.requested_bytes, requested_bytes_);
    EXPECT_EQ(figures.allocated_bytes, live_quanta * kQuantumBytes);
    EXPECT_EQ(figures.kept_bytes, 0u);
    EXPECT_EQ(figures.lost_bytes, 0u);
    EXPECT_EQ(figures.used_granules, used);
    EXPECT_EQ(figures.waste_bytes, used * kGranule - requested_bytes_);
    uint64_t pieces = 0;
    std::map<uint64_t, uint64_t> pieces_up_to;
    for (const auto& [quanta, count] : holes) {
      pieces += count;
      uint64_t up_to_bytes = kQuantumBytes;
      while (up_to_bytes < quanta * kQuantumBytes) up_to_bytes *= 2;
      pieces_up_to[up_to_bytes] += count;
    }
    EXPECT_EQ(figures.free_pieces, pieces);
    EXPECT_EQ(figures.free_bytes,
              used * kGranule - live_quanta * kQuantumBytes);
    EXPECT_EQ(figures.largest_free_bytes,
              holes.empty() ? 0 : holes.rbegin()->first * kQuantumBytes);
    for (const SizeBucket& bucket : figures.free_sizes) {
      EXPECT_EQ(bucket.pieces, pieces_up_to[bucket.up_to_bytes])
          << bucket.up_to_bytes;
    }
    ExpectSameFits(figures, holes);
    ExpectSameBounds(figures, live_quanta);
  }

 private:
  static void ExpectSameFits(const FragmentationStats& figures,
                             const std::map<uint64_t, uint64_t>& holes) {
    for (const RequestFit& fit : figures.requests) {
      const uint64_t quanta = fit.request_bytes / kQuantumBytes;
      double free = static_cast<double>(figures.empty_bytes) / kQuantumBytes;
      double usable = free;
      double served = free / static_cast<double>(quanta);
      for (const auto& [length, count] : holes) {
        free += static_cast<double>(length * count);
        if (length < quanta || quanta == kQuanta) continue;
        usable += static_cast<double>(length * count);
        served += static_cast<double>(length / quanta * count);
      }
      EXPECT_NEAR(fit.unusable_share, free == 0 ? 1 : 1 - usable / free, 1e-9);
      EXPECT_NEAR(
          fit.extfrag_share,
          free == 0 ? 0 : 1 - served * static_cast<double>(quanta) / free,
          1e-9);
    }
  }
  void ExpectSameBounds(const FragmentationStats& figures,
                        uint64_t live_quanta) const {
    std::vector<uint64_t> depths(kQuanta);
    uint64_t large = 0;
    for (const auto& [vg, live] : vgs_) {
      if (live.size() * 2 > kQuanta) ++large;
      for (const uint64_t offset : live) ++depths[offset];
    }
    const uint64_t deepest = *std::max_element(depths.begin(), depths.end());
    std::set<PhysicalHandle> stay = filled_;
    stay.insert(pinned_.begin(), pinned_.end());
    EXPECT_EQ(figures.bound_by_bytes_granules,
              (live_quanta + kQuanta - 1) / kQuanta);
    EXPECT_EQ(figures.bound_by_depth_granules, deepest);
    EXPECT_EQ(figures.bound_by_large_granules, large);
    EXPECT_EQ(figures.bound_by_pins_granules, stay.size());
    EXPECT_NEAR(figures.depth_skew,
                static_cast<double>(deepest * kQuanta) /
                    static_cast<double>(live_quanta),
                1e-9);
  }

  uint64_t requested_bytes_ = 0;
  std::map<PhysicalHandle, std::set<uint64_t>> granules_;  // live offsets
  std::map<DevicePtr, std::set<uint64_t>> vgs_;            // likewise
  std::set<PhysicalHandle> filled_;  // by one virtual granule of one block
  std::set<PhysicalHandle> pinned_;
};

TEST_P(PoolFragmentationTest, ANewPoolHasNothingAndWastesNothing) {
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.used_bytes, 0u);
  EXPECT_EQ(figures.utilization, 1);
  EXPECT_EQ(figures.internal_fragmentation, 0);
  EXPECT_EQ(figures.external_fragmentation, 0);
  EXPECT_EQ(figures.depth_skew, 1);
  EXPECT_THAT(figures.live_sizes, IsEmpty());
  EXPECT_THAT(figures.free_sizes, IsEmpty());
  std::vector<uint64_t> sizes;
  for (const RequestFit& fit : figures.requests) {
    EXPECT_EQ(fit.unusable_share, 1);
    sizes.push_back(fit.request_bytes);
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre(512, 2 * kKiB, 8 * kKiB, 32 * kKiB,
                                            64 * kKiB));
}

TEST_P(PoolFragmentationTest, AFewBlocksAreCountedToTheByte) {
  // Windows of their own: beside each other on one granule.
  MustAllocate(kGranule / 2 - 100);
  MustAllocate(kGranule / 4);
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.live_blocks, 2u);
  EXPECT_EQ(figures.requested_bytes, kGranule / 4 * 3 - 100);
  EXPECT_EQ(figures.allocated_bytes, kGranule / 4 * 3);
  EXPECT_EQ(figures.used_bytes, kGranule);
  EXPECT_EQ(figures.free_bytes, kGranule / 4);
  EXPECT_EQ(figures.waste_bytes, kGranule / 4 + 100);
  EXPECT_DOUBLE_EQ(figures.internal_fragmentation,
                   100.0 / static_cast<double>(kGranule / 4 * 3));
  EXPECT_DOUBLE_EQ(figures.utilization,
                   static_cast<double>(kGranule / 4 * 3 - 100) /
                       static_cast<double>(kGranule));
  EXPECT_EQ(figures.lower_bound_granules, 1u);
  EXPECT_EQ(figures.potential_granules, 0u);
  ASSERT_THAT(figures.live_sizes, SizeIs(7));
  EXPECT_EQ(figures.live_sizes[5].up_to_bytes, 16 * kKiB);
  EXPECT_EQ(figures.live_sizes[5].pieces, 1u);
  EXPECT_EQ(figures.live_sizes[5].sum_bytes, 16 * kKiB);
  EXPECT_EQ(figures.live_sizes[6].up_to_bytes, 32 * kKiB);
  EXPECT_EQ(figures.live_sizes[6].pieces, 1u);
  EXPECT_EQ(figures.live_sizes[6].sum_bytes, 32 * kKiB - 100);
}

TEST_P(PoolFragmentationTest, AgreesWithACountOfWhatLiesWhere) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    MakePool(32);
    std::mt19937_64 random(seed);
    std::vector<FilledBlock> blocks;
    // Whole granules as well, and enough of half granules and quarters that
    // granules get filled to the last quantum.
    const std::vector<uint64_t> sizes = {512,          3000,
                                         8 * kKiB,     kGranule / 4,
                                         kGranule / 2, kGranule / 2 + 5000,
                                         kGranule,     kGranule * 5 / 2};
    while (true) {
      const uint64_t bytes = sizes[random() % sizes.size()];
      const absl::StatusOr<void*> ptr = pool().Allocate(bytes);
      if (!ptr.ok()) break;
      blocks.push_back({*ptr, bytes, blocks.size()});
      Fill(blocks.back());
    }
    CountedGranules(&on_cpu_->cpu(), blocks, {}).ExpectSame(MustGet());

    std::shuffle(blocks.begin(), blocks.end(), random);
    while (blocks.size() > 25) {
      FIRN_ASSERT_OK(pool().Free(blocks.back().ptr));
      blocks.pop_back();
    }
    CountedGranules(&on_cpu_->cpu(), blocks, {}).ExpectSame(MustGet());

    const std::set<void*> pinned = {blocks[0].ptr, blocks[1].ptr,
                                    blocks[2].ptr};
    std::vector<Pin> pins;
    for (void* const ptr : pinned) {
      FIRN_ASSERT_OK_AND_ASSIGN(Pin pin, pool().PinBlock(ptr, "a test"));
      pins.push_back(std::move(pin));
    }
    const FragmentationStats before = MustGet();
    CountedGranules(&on_cpu_->cpu(), blocks, pinned).ExpectSame(before);

    FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report, pool().Compact());
    const FragmentationStats after = MustGet();
    CountedGranules(&on_cpu_->cpu(), blocks, pinned).ExpectSame(after);
    // The same is live at the same offsets: so are the bounds, and what a pass
    // recovers is taken off what it could.
    EXPECT_EQ(before.lower_bound_granules, report.lower_bound_granules);
    EXPECT_EQ(after.lower_bound_granules, report.lower_bound_granules);
    EXPECT_EQ(after.used_granules, report.granules_after);
    EXPECT_EQ(after.potential_granules,
              before.potential_granules - report.granules_recovered);
    EXPECT_GT(report.granules_recovered, 0u);
    EXPECT_EQ(CountDamaged(blocks), 0u);
  }
}

// As the caches hand it out and take it back, not behind the lock.
TEST_P(PoolFragmentationTest, SmallBlocksOfCachesAreCountedToTheByte) {
  std::vector<void*> blocks;
  uint64_t requested_bytes = 0;
  for (uint64_t i = 1; i <= 500; ++i) {
    blocks.push_back(MustAllocate(i));
    requested_bytes += i;
  }
  EXPECT_EQ(MustGet().requested_bytes, requested_bytes);
  for (size_t i = 0; i < 400; ++i) {
    FIRN_EXPECT_OK(pool().Free(blocks[i]));
    requested_bytes -= i + 1;
  }
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.requested_bytes, requested_bytes);
  EXPECT_EQ(figures.allocated_bytes, 100 * kQuantumBytes);
  EXPECT_EQ(figures.kept_bytes, 0u);
  ASSERT_THAT(figures.live_sizes, SizeIs(1));
  EXPECT_EQ(figures.live_sizes[0].pieces, 100u);
}

TEST_P(PoolFragmentationTest, FreedBlocksThatWaitAreKeptNotLive) {
  std::vector<StreamHandle> streams(2);
  for (StreamHandle& stream : streams) {
    ASSERT_EQ(on_cpu_->cpu().StreamCreate(&stream, kStreamNonBlocking),
              DriverResult::kSuccess);
  }
  // With two streams the caches keep what they have.
  for (size_t i = 0; i < 100; ++i) {
    AllocateOptions options;
    options.stream = streams[i % 2];
    void* const ptr = MustAllocate(1000, options);
    FIRN_EXPECT_OK(pool().Free(ptr, streams[i % 2]));
  }
  const PoolStats stats = pool().GetStats();
  EXPECT_GT(stats.parked_blocks, 0u);
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.live_blocks, 0u);
  EXPECT_EQ(figures.utilization, 0);
  EXPECT_GE(figures.kept_bytes, stats.parked_blocks * 1024);
  EXPECT_EQ(figures.kept_bytes + figures.free_bytes, figures.used_bytes);
}

TEST_P(PoolFragmentationTest, WhatAGraphPoolKeepsIsNotLive) {
  FIRN_ASSERT_OK(pool().BeginPool(GraphPoolId{1}));
  void* const small = MustAllocate(1000);
  void* const large = MustAllocate(kGranule * 3 / 2);
  MustAllocate(2000);
  FIRN_ASSERT_OK(pool().Free(small));
  FIRN_ASSERT_OK(pool().Free(large));
  FIRN_ASSERT_OK(pool().EndPool(GraphPoolId{1}));
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.requested_bytes, 2000u);
  EXPECT_EQ(figures.allocated_bytes, 2 * kKiB);
  EXPECT_EQ(figures.kept_bytes, kGranule * 3 / 2 + kKiB);
  // It stands in the way of passes all the same.
  EXPECT_EQ(figures.bound_by_bytes_granules, 2u);
  FIRN_ASSERT_OK(pool().ReleasePool(GraphPoolId{1}));
  FIRN_ASSERT_OK(pool().Compact().status());
  EXPECT_EQ(MustGet().kept_bytes, 0u);
}

TEST_P(PoolFragmentationTest, WhatMayNotMoveIsNoPotential) {
  AllocateOptions pinned;
  pinned.memory_class = MemoryClass::kPinned;
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(MustAllocate(kGranule / 2 + kQuantumBytes, pinned));
  }
  for (size_t i = 0; i < blocks.size(); i += 2) {
    FIRN_EXPECT_OK(pool().Free(blocks[i]));
  }
  FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.used_granules, 10u);
  EXPECT_EQ(figures.lower_bound_granules, 10u);
  EXPECT_EQ(figures.bound_by_bytes_granules, 10u);
  EXPECT_EQ(figures.potential_granules, 0u);
  EXPECT_EQ(figures.depth_skew, 1);
  EXPECT_EQ(figures.free_pieces, 10u);
  // Beside what may.
  void* const movable = MustAllocate(1000);
  figures = MustGet();
  EXPECT_EQ(figures.used_granules, 11u);
  EXPECT_EQ(figures.lower_bound_granules, 11u);
  EXPECT_EQ(figures.depth_skew, kQuanta / 2.0);
  FIRN_EXPECT_OK(pool().Free(movable));
}

// Parts that share no granule, each with another bound.
TEST_P(PoolFragmentationTest, TheBoundIsTheSumOverDomains) {
  std::vector<Domain> domains;
  for (int i = 0; i < 2; ++i) {
    DomainOptions domain_options;
    domain_options.name = absl::StrCat("tenant ", i);
    FIRN_ASSERT_OK_AND_ASSIGN(Domain domain,
                              pool().CreateDomain(domain_options));
    domains.push_back(std::move(domain));
  }
  AllocateOptions options;
  options.domain = domains[0].id();
  std::vector<void*> large;
  for (int i = 0; i < 4; ++i) {
    large.push_back(MustAllocate(kGranule / 2 + 5000, options));
  }
  options.domain = domains[1].id();
  std::vector<void*> small;
  for (int i = 0; i < 48; ++i) {
    small.push_back(MustAllocate(kGranule / 16, options));
  }
  const FragmentationStats figures = MustGet();
  EXPECT_EQ(figures.bound_by_large_granules, 4u);
  EXPECT_EQ(figures.bound_by_bytes_granules, 3u + 3u);
  EXPECT_EQ(figures.lower_bound_granules, 4u + 3u);
  EXPECT_EQ(figures.used_granules, 7u);
  // What a domain that is gone leaves is unmapped, and empty all the same.
  for (void* const ptr : large) FIRN_EXPECT_OK(pool().Free(ptr));
  domains.erase(domains.begin());
  DomainOptions last;
  last.name = "last";
  FIRN_ASSERT_OK(pool().CreateDomain(last).status());
  EXPECT_EQ(pool().GetStats().cached_bytes, 4 * kGranule);
  EXPECT_EQ(MustGet().empty_bytes, 4 * kGranule);
}

TEST_P(PoolFragmentationTest, NoCallOfTheDriverIsMade) {
  for (int i = 0; i < 40; ++i) {
    void* const ptr = MustAllocate(i % 2 == 0 ? 5000 : kGranule + 5000);
    if (i % 3 == 0) {
      FIRN_EXPECT_OK(pool().Free(ptr));
    }
  }
  const auto calls = [this] {
    uint64_t sum = 0;
    for (int i = 0; i < kDriverCallCount; ++i) {
      const auto call = static_cast<DriverCall>(i);
      sum += on_cpu_->counting().count(call) + on_cpu_->counting().failed(call);
    }
    return sum;
  };
  const uint64_t before = calls();
  pool().GetFragmentation();
  EXPECT_EQ(calls(), before);
  FIRN_EXPECT_OK(pool().CheckInvariants());
}

// A pass that fails, and whose first step cannot be undone.
TEST_P(PoolFragmentationTest, WhatIsBesideLostAddressesIsForNobody) {
  std::vector<void*> blocks;
  for (int i = 0; i < 128; ++i) blocks.push_back(MustAllocate(kGranule / 8));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 8 != i / 8 % 8) {
      FIRN_EXPECT_OK(pool().Free(blocks[i]));
    }
  }
  ASSERT_EQ(MustGet().lost_bytes, 0u);
  on_cpu_->faults().FailNthOf(DriverCall::kMemUnmap, 1, DriverResult::kUnknown);
  on_cpu_->faults().FailRandomlyOf(DriverCall::kMemMap, 1.0, 1,
                                   DriverResult::kUnknown);
  EXPECT_FALSE(pool().Compact().ok());
  on_cpu_->faults().Reset();
  const FragmentationStats figures = MustGet();
  EXPECT_GT(figures.lost_bytes, 0u);
  EXPECT_GT(figures.bound_by_pins_granules, 0u);
}

TEST_P(PoolFragmentationTest, TheTextHasALineForEachFigure) {
  MustAllocate(1000);
  MustAllocate(5000);
  const std::string text = MustGet().ToString();
  for (const char* const line :
       {"requested_bytes: 6000\n", "utilization: 0.0",
        "potential_granules: 0\n",
        "requests of 512: unusable_share 0, extfrag_share 0\n",
        "live_sizes up to 1024: pieces 1, sum_bytes 1000\n",
        "greatest_bound: bytes\n"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(line));
  }
}

TEST(FragmentationStatsTest, TheGreatestBoundIsNamed) {
  FragmentationStats figures;
  EXPECT_EQ(figures.greatest_bound(), "bytes");
  uint64_t* const bounds[] = {
      &figures.bound_by_bytes_granules, &figures.bound_by_depth_granules,
      &figures.bound_by_large_granules, &figures.bound_by_pins_granules,
      &figures.bound_by_packing_granules};
  const char* const names[] = {"bytes", "depth", "large", "pins", "packing"};
  for (size_t i = 0; i < std::size(bounds); ++i) {
    *bounds[i] = i + 1;
    EXPECT_EQ(figures.greatest_bound(), names[i]);
  }
  figures.bound_by_depth_granules = 5;
  EXPECT_EQ(figures.greatest_bound(), "depth");
}

INSTANTIATE_TEST_SUITE_P(Extremes, PoolFragmentationTest,
                         ::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                         SyncName);

}  // namespace
}  // namespace firn
