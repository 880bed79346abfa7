// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool of a device on which no memory can be moved.

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/fixed_pool_on_cpu.h"
#include "tests/support/fragmentation_identities.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::CountDamaged;
using ::firn::testing::Fill;
using ::firn::testing::FilledBlock;
using ::firn::testing::FragmentationIdentities;
using ::firn::testing::FreeBytes;
using ::firn::testing::IsIntact;
using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::MakeFixedPool;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::firn::testing::WithoutVirtualMemory;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DriverResult kOk = DriverResult::kSuccess;

// Addresses that are no multiples of a quantum, as CUDA does not promise any.
class OddAddresses : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult MemAlloc(DevicePtr* address, size_t bytes) override {
    const DriverResult result = base()->MemAlloc(address, bytes + 256);
    if (result == kOk) *address += 256;
    return result;
  }
  DriverResult MemFree(DevicePtr address) override {
    return base()->MemFree(address - 256);
  }
};

TEST(FixedPoolTest, SaysThatNothingMovesAndWhy) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(32 * kMiB));
  const PoolStats stats = on_cpu->pool().GetStats();
  EXPECT_FALSE(stats.moving);
  EXPECT_THAT(stats.moving_reason,
              AllOf(HasSubstr("virtual memory"), HasSubstr("attribute 102")));
  EXPECT_THAT(stats.ToString(), HasSubstr("moving: no"));
  EXPECT_EQ(stats.backend, "cpu");
  EXPECT_EQ(stats.granule_bytes, 0u);
  EXPECT_EQ(stats.capacity_bytes, 32 * kMiB);
  EXPECT_EQ(stats.held_bytes, 0u);
}

TEST(FixedPoolTest, IsChosenWhereATrialOfMovingIsRefused) {
  CpuDriverOptions driver_options;
  driver_options.device_bytes = 64 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(auto cpu, CpuDriver::Create(driver_options));
  FaultingDriver faults(cpu.get());
  faults.FailRandomlyOf(DriverCall::kMemCreate, 1, 1,
                        DriverResult::kNotPermitted);
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&faults, [](Driver*) {});
  FIRN_ASSERT_OK_AND_ASSIGN(auto pool, Pool::Create(options));
  EXPECT_FALSE(pool->GetStats().moving);
  EXPECT_THAT(pool->GetStats().moving_reason,
              AllOf(HasSubstr("cuMemCreate"), HasSubstr("NOT_PERMITTED")));
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(kMiB));
  Fill({ptr, kMiB, 1});
  EXPECT_TRUE(IsIntact({ptr, kMiB, 1}));
  FIRN_EXPECT_OK(pool->Free(ptr));
}

TEST(FixedPoolTest, PeersNeedVirtualMemory) {
  CpuDriverOptions driver_options = WithoutVirtualMemory(32 * kMiB);
  driver_options.device_count = 2;
  FIRN_ASSERT_OK_AND_ASSIGN(auto devices,
                            CpuDriver::CreateDevices(driver_options));
  PoolOptions options;
  options.driver = std::move(devices[0]);
  options.peers.push_back(std::move(devices[1]));
  EXPECT_THAT(Pool::Create(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("peers"), HasSubstr("attribute 102"))));
}

TEST(FixedPoolTest, TheCapacityIsCheckedByName) {
  for (const uint64_t capacity : {uint64_t{100}, uint64_t{1} << 41}) {
    PoolOptions options;
    options.capacity_bytes = capacity;
    EXPECT_THAT(
        PoolOnCpu::Create(WithoutVirtualMemory(32 * kMiB), options).status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("capacity_bytes: ")));
  }
}

TEST(FixedPoolTest, EverySizeUpToTheCapacityIsAlignedAndWritable) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(32 * kMiB));
  Pool& pool = on_cpu->pool();
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{513}, 100 * kKiB, kMiB + 1,
                               31 * kMiB, 32 * kMiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % 512, 0u);
    Fill({ptr, bytes, bytes});
    EXPECT_TRUE(IsIntact({ptr, bytes, bytes}));
    FIRN_ASSERT_OK(pool.Free(ptr));
    FIRN_ASSERT_OK(pool.CheckInvariants());
  }
  for (uint64_t alignment = 1024; alignment <= 16 * kMiB; alignment *= 4) {
    AllocateOptions options;
    options.alignment_bytes = alignment;
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(700, options));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % alignment, 0u);
    FIRN_ASSERT_OK(pool.Free(ptr));
  }
}

TEST(FixedPoolTest, AddressesThatTheDriverDoesNotAlignAreNoHindrance) {
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto cpu, CpuDriver::Create(WithoutVirtualMemory(256 * kMiB)));
  OddAddresses odd(cpu.get());
  PoolOptions options;
  options.driver = std::shared_ptr<Driver>(&odd, [](Driver*) {});
  options.capacity_bytes = 200 * kMiB;
  {
    FIRN_ASSERT_OK_AND_ASSIGN(auto pool, Pool::Create(options));
    // More than a segment: it has one of its own, with an end to spare.
    FIRN_ASSERT_OK_AND_ASSIGN(void* large, pool->Allocate(100 * kMiB));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 512, 0u);
    AllocateOptions aligned;
    aligned.alignment_bytes = 4 * kMiB;
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool->Allocate(66 * kMiB, aligned));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % (4 * kMiB), 0u);
    Fill({ptr, 66 * kMiB, 1});
    FIRN_EXPECT_OK(pool->CheckInvariants());
    EXPECT_LE(pool->GetStats().held_bytes, 200 * kMiB);
    // What is no whole quantum at either end of a segment.
    const FragmentationStats figures = pool->GetFragmentation();
    FIRN_EXPECT_OK(
        FragmentationIdentities(figures).With(pool->GetStats()).status());
    EXPECT_EQ(figures.lost_bytes % 512, 0u);
    EXPECT_GT(figures.lost_bytes, 0u);
  }
  EXPECT_EQ(FreeBytes(*cpu), 256 * kMiB);
}

TEST(FixedPoolTest, SaysHowFragmentedItsSegmentsAre) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(128 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<void*> blocks;
  for (const uint64_t bytes : {3 * kMiB, kMiB - 100, 2 * kMiB, kMiB}) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* const ptr, pool.Allocate(bytes));
    blocks.push_back(ptr);
  }
  FIRN_ASSERT_OK(pool.Free(blocks[0]));
  FIRN_ASSERT_OK(pool.Free(blocks[2]));
  const FragmentationStats figures = pool.GetFragmentation();
  FIRN_EXPECT_OK(
      FragmentationIdentities(figures).With(pool.GetStats()).status());
  EXPECT_EQ(figures.live_blocks, 2u);
  EXPECT_EQ(figures.requested_bytes, 2 * kMiB - 100);
  EXPECT_EQ(figures.allocated_bytes, 2 * kMiB);
  // Between the blocks, and behind them.
  EXPECT_EQ(figures.free_pieces, 3u);
  EXPECT_EQ(figures.largest_free_bytes, figures.free_bytes - 5 * kMiB);
  EXPECT_EQ(figures.lost_bytes, 0u);
  // What has no meaning here.
  EXPECT_EQ(figures.used_granules, 0u);
  EXPECT_EQ(figures.lower_bound_granules, 0u);
  EXPECT_EQ(figures.potential_granules, 0u);
  EXPECT_EQ(figures.depth_skew, 1);
  EXPECT_THAT(figures.requests, ::testing::IsEmpty());

  FIRN_ASSERT_OK(pool.BeginPool(GraphPoolId{1}));
  FIRN_ASSERT_OK_AND_ASSIGN(void* const kept, pool.Allocate(1000));
  FIRN_ASSERT_OK(pool.Free(kept));
  FIRN_ASSERT_OK(pool.EndPool(GraphPoolId{1}));
  EXPECT_EQ(pool.GetFragmentation().kept_bytes, kKiB);
  FIRN_ASSERT_OK(pool.ReleasePool(GraphPoolId{1}));
  FIRN_ASSERT_OK(pool.Free(blocks[1]));
  FIRN_ASSERT_OK(pool.Free(blocks[3]));
  FIRN_ASSERT_OK(pool.Trim(pool.GetStats().held_bytes).status());
  EXPECT_EQ(pool.GetFragmentation().empty_bytes,
            pool.GetStats().held_bytes - pool.GetStats().used_bytes);
}

TEST(FixedPoolTest, FreedBlocksAreReusedWithoutADriverCall) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(128 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK_AND_ASSIGN(void* first, pool.Allocate(3 * kMiB));
  FIRN_ASSERT_OK(pool.Free(first));
  on_cpu->faults().Reset();
  for (int i = 0; i < 10; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(3 * kMiB));
    EXPECT_EQ(ptr, first);
    FIRN_ASSERT_OK(pool.Free(ptr));
  }
  EXPECT_EQ(on_cpu->faults().calls(), 0u);
  EXPECT_EQ(pool.GetStats().handles_created, 1u);
  EXPECT_EQ(pool.GetStats().held_bytes, 64 * kMiB);
}

TEST(FixedPoolTest, SegmentsShrinkToWhatTheDriverHasRoomFor) {
  // The device has less than the capacity.
  PoolOptions options;
  options.capacity_bytes = 256 * kMiB;
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto on_cpu, PoolOnCpu::Create(WithoutVirtualMemory(24 * kMiB), options));
  Pool& pool = on_cpu->pool();
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> ptr = pool.Allocate(kMiB);
    if (!ptr.ok()) {
      EXPECT_THAT(ptr.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("cuMemAlloc")));
      break;
    }
    blocks.push_back(*ptr);
  }
  EXPECT_EQ(blocks.size(), 24u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(FixedPoolTest, TheCapacityIsNeverExceededAndAFailureShowsTheFigures) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(100 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(kMiB));
    blocks.push_back(ptr);
  }
  EXPECT_EQ(pool.GetStats().held_bytes, 100 * kMiB);
  for (size_t i = 0; i < 100; i += 2) {
    FIRN_ASSERT_OK(pool.Free(blocks[i]));
  }
  EXPECT_THAT(
      pool.Allocate(2 * kMiB),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("cannot allocate 2097152 bytes"),
                     HasSubstr("longest free range 1048576"),
                     HasSubstr("cannot move"), HasSubstr("attribute 102"))));
  EXPECT_THAT(pool.Allocate(101 * kMiB),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("more than the capacity")));
  EXPECT_EQ(pool.GetStats().failed_allocations, 2u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(FixedPoolTest, EmptySegmentsThatAreTooShortGiveWayToALongerOne) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(128 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK_AND_ASSIGN(void* first, pool.Allocate(60 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* second, pool.Allocate(60 * kMiB));
  FIRN_ASSERT_OK(pool.Free(first));
  FIRN_ASSERT_OK(pool.Free(second));
  EXPECT_EQ(pool.GetStats().held_bytes, 128 * kMiB);
  FIRN_ASSERT_OK_AND_ASSIGN(void* whole, pool.Allocate(128 * kMiB));
  EXPECT_EQ(pool.GetStats().held_bytes, 128 * kMiB);
  EXPECT_EQ(pool.GetStats().handles_released, 2u);
  FIRN_ASSERT_OK(pool.Free(whole));
}

TEST(FixedPoolTest, TrimGivesEmptySegmentsBackAndKeepsOthers) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(256 * kMiB));
  Pool& pool = on_cpu->pool();
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) {
    FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(64 * kMiB));
    blocks.push_back(ptr);
  }
  for (size_t i = 1; i < 4; ++i) {
    FIRN_ASSERT_OK(pool.Free(blocks[i]));
  }
  EXPECT_EQ(pool.GetStats().cached_bytes, 192 * kMiB);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t some, pool.Trim(100 * kMiB));
  EXPECT_EQ(some, 128 * kMiB);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t rest, pool.Trim());
  EXPECT_EQ(rest, 64 * kMiB);
  EXPECT_EQ(pool.GetStats().held_bytes, 64 * kMiB);
  EXPECT_EQ(pool.GetStats().used_bytes, 64 * kMiB);
  EXPECT_EQ(FreeBytes(on_cpu->cpu()), 448 * kMiB);
  FIRN_ASSERT_OK(pool.Free(blocks[0]));
  FIRN_EXPECT_OK(pool.Trim().status());
  EXPECT_EQ(pool.GetStats().peak_held_bytes, 256 * kMiB);
  on_cpu->DestroyPool();
  EXPECT_EQ(FreeBytes(on_cpu->cpu()), 512 * kMiB);
}

TEST(FixedPoolTest, PassesAreRefusedWithTheReasonAndDryRunsFindNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(32 * kMiB));
  EXPECT_THAT(on_cpu->pool().Compact(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("attribute 102")));
  CompactOptions dry_run;
  dry_run.dry_run = true;
  FIRN_ASSERT_OK_AND_ASSIGN(const CompactionReport report,
                            on_cpu->pool().Compact(dry_run));
  EXPECT_EQ(report.granules_recovered, 0u);
  EXPECT_EQ(report.moves, 0u);
  EXPECT_EQ(on_cpu->pool().GetStats().compaction_passes, 0u);
}

TEST(FixedPoolTest, MisuseIsRefusedAndChangesNothing) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(32 * kMiB));
  Pool& pool = on_cpu->pool();
  FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, pool.Allocate(kMiB));
  char* const inside = static_cast<char*>(ptr) + 512;
  int foreign = 0;
  const auto refused = [](const char* words) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  EXPECT_THAT(pool.Free(inside), refused("inside a block"));
  EXPECT_THAT(pool.Free(&foreign), refused("not an address of this pool"));
  EXPECT_THAT(pool.Generation(inside), refused("inside a block"));
  EXPECT_THAT(pool.Allocate(0), refused("bytes: 0"));
  AllocateOptions bad;
  bad.alignment_bytes = 3;
  EXPECT_THAT(pool.Allocate(1, bad), refused("alignment_bytes: 3"));
  FIRN_EXPECT_OK(pool.Free(nullptr));
  EXPECT_EQ(pool.GetStats().live_bytes, kMiB);
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t generation, pool.Generation(ptr));
  FIRN_EXPECT_OK(pool.Allocate(kMiB).status());
  FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t later, pool.Generation(ptr));
  EXPECT_EQ(later, generation);
  FIRN_EXPECT_OK(pool.Free(ptr));
  EXPECT_THAT(pool.Free(ptr), refused("freed before"));
  EXPECT_EQ(pool.GetStats().refused_frees, 3u);
  FIRN_EXPECT_OK(pool.CheckInvariants());
}

TEST(FixedPoolTest, MemoryIsTakenWhileACaptureIsOpen) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(128 * kMiB));
  StreamHandle stream = nullptr;
  ASSERT_EQ(on_cpu->cpu().StreamCreate(&stream, kStreamNonBlocking), kOk);
  ASSERT_EQ(on_cpu->cpu().StreamBeginCapture(stream, CaptureMode::kGlobal),
            kOk);
  FIRN_EXPECT_OK(on_cpu->pool().Allocate(kMiB).status());
  EXPECT_THAT(on_cpu->pool().Allocate(1000 * kMiB).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  GraphHandle graph = nullptr;
  EXPECT_EQ(on_cpu->cpu().StreamEndCapture(stream, &graph), kOk);
  EXPECT_NE(graph, nullptr);
}

TEST(FixedPoolTest, InsideAScopeNothingIsGivenBack) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(128 * kMiB));
  Pool& pool = on_cpu->pool();
  { const LaunchScope any(pool); }  // frees have tokens from here on
  FIRN_ASSERT_OK_AND_ASSIGN(void* first, pool.Allocate(60 * kMiB));
  FIRN_ASSERT_OK_AND_ASSIGN(void* second, pool.Allocate(60 * kMiB));
  FIRN_ASSERT_OK(pool.Free(first));
  FIRN_ASSERT_OK(pool.Free(second));
  {
    LaunchScope scope(pool);
    EXPECT_THAT(pool.Allocate(128 * kMiB),
                StatusIs(absl::StatusCode::kResourceExhausted));
    FIRN_ASSERT_OK_AND_ASSIGN(const uint64_t trimmed, pool.Trim());
    EXPECT_EQ(trimmed, 0u);
    EXPECT_EQ(pool.GetStats().handles_released, 0u);
    FIRN_ASSERT_OK_AND_ASSIGN(void* small, pool.Allocate(kMiB));
    FIRN_EXPECT_OK(pool.Free(small));
  }
  FIRN_EXPECT_OK(pool.Trim().status());
  FIRN_EXPECT_OK(pool.Allocate(128 * kMiB).status());
}

TEST(FixedPoolTest, RandomWorkKeepsContentsAndInvariants) {
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, MakeFixedPool(96 * kMiB));
  Pool& pool = on_cpu->pool();
  std::mt19937_64 random(3);
  std::vector<FilledBlock> blocks;
  for (uint64_t step = 0; step < 1000; ++step) {
    if (random() % 100 < 52 || blocks.empty()) {
      const uint64_t bytes = random() % 20 == 0 ? kMiB + random() % (8 * kMiB)
                                                : 1 + random() % (256 * kKiB);
      const absl::StatusOr<void*> ptr = pool.Allocate(bytes);
      if (!ptr.ok()) continue;
      blocks.push_back({*ptr, bytes, step});
      Fill(blocks.back());
    } else {
      const size_t index = random() % blocks.size();
      ASSERT_TRUE(IsIntact(blocks[index]));
      FIRN_ASSERT_OK(pool.Free(blocks[index].ptr));
      blocks[index] = blocks.back();
      blocks.pop_back();
    }
    if (step % 50 == 0) {
      FIRN_ASSERT_OK(pool.CheckInvariants());
    }
    if (step % 400 == 399) {
      FIRN_ASSERT_OK(pool.Trim().status());
    }
  }
  EXPECT_EQ(CountDamaged(blocks), 0u);
  for (const FilledBlock& block : blocks) {
    FIRN_ASSERT_OK(pool.Free(block.ptr));
  }
  EXPECT_EQ(pool.GetStats().live_bytes, 0u);
  FIRN_ASSERT_OK(pool.Trim().status());
  EXPECT_EQ(pool.GetStats().held_bytes, 0u);
}

}  // namespace
}  // namespace firn
