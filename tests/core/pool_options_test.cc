// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/pool_options.h"

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::kKiB;
using ::firn::testing::kMiB;
using ::firn::testing::PoolOnCpu;
using ::firn::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PoolOptionsTest, DefaultsAreValid) {
  FIRN_EXPECT_OK(PoolOptions().Validate());
}

TEST(PoolOptionsTest, EachBadFieldIsNamedWithItsValue) {
  PoolOptions options;
  options.granule_bytes = 3 * kMiB;
  EXPECT_THAT(options.Validate(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("granule_bytes"), HasSubstr("3145728"),
                             HasSubstr("power of two"))));
  options = PoolOptions();
  options.granule_bytes = 128 * kMiB;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("granule_bytes")));
  options = PoolOptions();
  options.granule_bytes = 2 * kMiB;
  options.capacity_bytes = kMiB;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("capacity_bytes")));
  options = PoolOptions();
  options.address_space_factor = 1;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("address_space_factor")));
  options = PoolOptions();
  options.device_ordinal = -1;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("device_ordinal")));
}

TEST(PoolOptionsTest, AHistoryHasItsBounds) {
  PoolOptions options;
  options.history_entries = 1 << 24;
  options.history_stacks = true;
  FIRN_EXPECT_OK(options.Validate());
  options.history_entries = (1 << 24) + 1;
  EXPECT_THAT(options.Validate(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("history_entries: 16777217")));
  options.history_entries = 0;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("history_stacks")));
}

TEST(PoolOptionsTest, AnAlignmentIsAPowerOfTwoUpToAGibibyte) {
  AllocateOptions options;
  FIRN_EXPECT_OK(options.Validate());
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{1} << 30}) {
    options.alignment_bytes = alignment;
    FIRN_EXPECT_OK(options.Validate());
  }
  for (const uint64_t alignment :
       {uint64_t{0}, uint64_t{3}, uint64_t{1} << 31}) {
    options.alignment_bytes = alignment;
    EXPECT_THAT(
        options.Validate(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("alignment_bytes: ", alignment))));
  }
}

TEST(PoolOptionsTest, ClassesAndLifetimesAreThoseThereAre) {
  AllocateOptions options;
  for (const auto memory_class : {MemoryClass::kMovable, MemoryClass::kPinned,
                                  MemoryClass::kExportable}) {
    options.memory_class = memory_class;
    FIRN_EXPECT_OK(options.Validate());
  }
  options.memory_class = static_cast<MemoryClass>(3);
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("memory_class: 3")));
  options = AllocateOptions();
  for (const auto lifetime :
       {Lifetime::kUnknown, Lifetime::kShort, Lifetime::kLong}) {
    options.lifetime = lifetime;
    FIRN_EXPECT_OK(options.Validate());
  }
  options.lifetime = static_cast<Lifetime>(255);
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("lifetime: 255")));
}

TEST(PoolOptionsTest, MemoryIsExportedAsFileDescriptorsOrNotAtAll) {
  PoolOptions options;
  options.rdma_capable = true;
  FIRN_EXPECT_OK(options.Validate());
  options.export_type = ShareableHandleType::kPosixFileDescriptor;
  FIRN_EXPECT_OK(options.Validate());
  for (const int type : {2, 8, 9, -1}) {
    options.export_type = static_cast<ShareableHandleType>(type);
    EXPECT_THAT(
        options.Validate(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(absl::StrCat("export_type: ", type, ";")),
                       HasSubstr("kPosixFileDescriptor"))));
  }
}

TEST(PoolOptionsTest, PeersAreNamedOnceAndInTheFieldThatFits) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  FIRN_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Driver> driver,
                            CpuDriver::Create(driver_options));
  const auto refused = [](const PoolOptions& options, const char* field) {
    EXPECT_THAT(options.Validate(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  };
  PoolOptions options;
  options.peers = {driver};
  refused(options, "peers: given without driver");
  options.driver = driver;
  FIRN_EXPECT_OK(options.Validate());
  // The pool's own device is no peer of it.
  EXPECT_THAT(Pool::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("peers: device 0 twice")));
  options.peers = {nullptr};
  refused(options, "peers: a null pointer");
  options.peers.clear();
  options.peer_ordinals = {1};
  refused(options, "peer_ordinals: given with driver");
  options = PoolOptions();
  options.peer_ordinals = {1, 2, 1};
  refused(options, "peer_ordinals: device 1 twice");
  options.peer_ordinals = {0};
  refused(options, "peer_ordinals: device 0 twice");
  options.peer_ordinals = {-1};
  refused(options, "peer_ordinals: -1");
}

TEST(PoolOptionsTest, TheMarksOfTheCacheMustBeInOrder) {
  PoolOptions options;
  options.prepared_bytes = 8 * kMiB;
  options.max_cached_bytes = 4 * kMiB;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("max_cached_bytes")));
  options.max_cached_bytes = 0;
  options.capacity_bytes = 4 * kMiB;
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("prepared_bytes")));
  options = PoolOptions();
  options.max_cached_time = absl::ZeroDuration();
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("max_cached_time")));
  options = PoolOptions();
  options.max_wait = -absl::Seconds(1);
  EXPECT_THAT(options.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("max_wait")));
}

TEST(PoolOptionsTest, TheBudgetOfMappingsHoldsTheCapacityAtLeast) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.device_bytes = 64 * kMiB;
  PoolOptions options;
  options.capacity_bytes = 32 * kMiB;
  options.max_mapped_vgs = 15;
  EXPECT_THAT(PoolOnCpu::Create(driver_options, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("max_mapped_vgs: 15"),
                             HasSubstr("16 granules"))));
  options.max_mapped_vgs = 16;
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                            PoolOnCpu::Create(driver_options, options));
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> block = on_cpu->pool().Allocate(700 * kKiB);
    if (!block.ok()) break;
    blocks.push_back(*block);
    EXPECT_LE(on_cpu->pool().GetStats().mapped_vgs, 16u);
  }
  // Blocks of that size have a virtual granule each, and share granules.
  EXPECT_EQ(blocks.size(), 16u);
  FIRN_EXPECT_OK(on_cpu->pool().CheckInvariants());
}

TEST(PoolOptionsTest, APassIsRefusedOptionsThatMakeNoSense) {
  CompactOptions options;
  options.level = static_cast<CompactionLevel>(3);
  EXPECT_THAT(options.Validate(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("level: 3"), HasSubstr("(2)"))));
  for (const auto field :
       {&CompactOptions::max_wait, &CompactOptions::max_pause,
        &CompactOptions::max_duration}) {
    options = CompactOptions();
    options.*field = absl::ZeroDuration();
    FIRN_EXPECT_OK(options.Validate());
    options.*field = -absl::Milliseconds(3);
    EXPECT_THAT(options.Validate(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("max_"), HasSubstr("-3ms"))));
  }
  FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu, PoolOnCpu::Ghost(16 * kMiB));
  EXPECT_THAT(
      on_cpu->pool().Compact(options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_duration")));
}

TEST(PoolOptionsTest, WhatDependsOnTheDeviceIsRefusedByCreate) {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  PoolOptions options;
  options.granule_bytes = kMiB;  // half of the device's granularity
  EXPECT_THAT(PoolOnCpu::Create(driver_options, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("granule_bytes"), HasSubstr("1048576"),
                             HasSubstr("granularity of 2097152"))));
  options = PoolOptions();
  options.capacity_bytes = kMiB;
  EXPECT_THAT(PoolOnCpu::Create(driver_options, options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("capacity_bytes"),
                             HasSubstr("less than one granule"))));
}

TEST(PoolOptionsTest, GranulesMayBeLargerOrSmallerThanUsual) {
  for (const uint64_t granule : {64 * kKiB, 2 * kMiB, 8 * kMiB}) {
    SCOPED_TRACE(granule);
    CpuDriverOptions driver_options;
    driver_options.storage = CpuStorage::kGhost;
    driver_options.granularity_bytes = granule < 2 * kMiB ? granule : 2 * kMiB;
    driver_options.device_bytes = 64 * granule;
    PoolOptions options;
    options.granule_bytes = granule;
    options.capacity_bytes = 32 * granule;
    FIRN_ASSERT_OK_AND_ASSIGN(auto on_cpu,
                              PoolOnCpu::Create(driver_options, options));
    EXPECT_EQ(on_cpu->pool().GetStats().granule_bytes, granule);
    for (uint64_t bytes = 512; bytes < 8 * granule; bytes = bytes * 3 / 2) {
      FIRN_ASSERT_OK_AND_ASSIGN(void* ptr, on_cpu->pool().Allocate(bytes));
      FIRN_ASSERT_OK(on_cpu->pool().Free(ptr));
    }
    FIRN_EXPECT_OK(on_cpu->pool().CheckInvariants());
  }
}

}  // namespace
}  // namespace firn
