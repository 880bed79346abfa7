// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Sequences that once showed something to be wrong, as the property test
// printed them.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/property/sequence.h"

namespace firn::testing::property {
namespace {

void ExpectHolds(const Setting& setting,
                 const std::vector<Operation>& operations) {
  for (const bool settled : {true, false}) {
    Setting tried = setting;
    tried.settled = settled;
    const Outcome outcome = RunSequence(tried, operations, /*check_every=*/1);
    EXPECT_TRUE(outcome.failure.empty())
        << Describe(tried, operations, outcome);
  }
}

// A granule is created in vain, as no more may be mapped, and the driver does
// not take it back.
TEST(PoolRegressionTest, AFailedReleaseKeepsTheGranuleInTheCache) {
  ExpectHolds(
      Setting{.storage = CpuStorage::kReal,
              .sync = CpuSync::kLazy,
              .granule_bytes = 131072,
              .capacity_granules = 2,
              .address_space_factor = 2,
              .max_mapped_vgs = 2,
              .move_on_failure = true},
      {Allocate{.bytes = 4096, .alignment_bytes = 512, .stream = 3},
       Free{.block = 1011, .elsewhere = false, .stream = 1},
       Allocate{.bytes = 2559, .alignment_bytes = 512, .stream = 5},
       Allocate{.bytes = 11436, .alignment_bytes = 32768, .stream = 4},
       FailCall{.calls_before = 1, .result = DriverResult::kUnknown},
       Allocate{.bytes = 12288, .alignment_bytes = 131072, .stream = 5}});
}

// A forced pass gains granules while all mappings that there may be are taken,
// some of them by what holds nothing live.
TEST(PoolRegressionTest, APassGainsGranulesWhenNoMappingIsLeft) {
  ExpectHolds(Setting{.storage = CpuStorage::kGhost,
                      .sync = CpuSync::kDraining,
                      .granule_bytes = 262144,
                      .capacity_granules = 8,
                      .address_space_factor = 16,
                      .max_mapped_vgs = 24,
                      .move_on_failure = true},
              {Allocate{.bytes = 262143, .alignment_bytes = 512, .stream = 0},
               Allocate{.bytes = 19878, .alignment_bytes = 512, .stream = 3},
               Allocate{.bytes = 511, .alignment_bytes = 512, .stream = 3},
               Allocate{.bytes = 816, .alignment_bytes = 512, .stream = 3},
               Free{.block = 29620, .elsewhere = false, .stream = 4},
               Free{.block = 35831, .elsewhere = true, .stream = 1},
               Allocate{.bytes = 87130, .alignment_bytes = 8192, .stream = 0},
               Allocate{.bytes = 492, .alignment_bytes = 512, .stream = 5},
               Allocate{.bytes = 873, .alignment_bytes = 512, .stream = 3},
               Allocate{.bytes = 643, .alignment_bytes = 512, .stream = 2},
               Free{.block = 32091, .elsewhere = false, .stream = 4},
               Allocate{.bytes = 78826, .alignment_bytes = 512, .stream = 1},
               Allocate{.bytes = 879, .alignment_bytes = 512, .stream = 0},
               Allocate{.bytes = 262145, .alignment_bytes = 512, .stream = 4},
               Allocate{.bytes = 4402, .alignment_bytes = 512, .stream = 2},
               Allocate{.bytes = 8191, .alignment_bytes = 512, .stream = 1},
               Allocate{.bytes = 65536, .alignment_bytes = 512, .stream = 1},
               Exhaust{.bytes = 65537, .stream = 2, .most = 57},
               Free{.block = 5667, .elsewhere = true, .stream = 5},
               Allocate{.bytes = 4095, .alignment_bytes = 32768, .stream = 5},
               Free{.block = 19732, .elsewhere = false, .stream = 0},
               Free{.block = 35607, .elsewhere = true, .stream = 2},
               Free{.block = 24089, .elsewhere = true, .stream = 4},
               Allocate{.bytes = 2042, .alignment_bytes = 512, .stream = 0},
               Allocate{.bytes = 2891, .alignment_bytes = 512, .stream = 1},
               Allocate{.bytes = 13998, .alignment_bytes = 512, .stream = 0},
               Free{.block = 58108, .elsewhere = true, .stream = 2},
               Free{.block = 22964, .elsewhere = true, .stream = 3},
               Free{.block = 3238, .elsewhere = false, .stream = 1},
               Allocate{.bytes = 524289, .alignment_bytes = 512, .stream = 3}});
}

// Memory was freed while the pool knew one stream only: nothing may be waited
// for inside a scope, but the use of another block must go on record.
TEST(PoolRegressionTest, AUseIsRecordedInsideAScopeAfterAFree) {
  ExpectHolds(
      Setting{.storage = CpuStorage::kReal,
              .sync = CpuSync::kLazy,
              .granule_bytes = 65536,
              .capacity_granules = 2,
              .address_space_factor = 4},
      {Allocate{.bytes = 4096, .alignment_bytes = 512, .stream = 0, .tag = 0},
       Allocate{.bytes = 4096, .alignment_bytes = 512, .stream = 0, .tag = 0},
       Free{.block = 0, .elsewhere = false, .stream = 0},
       OpenScope{.streams = 1},
       RecordUse{.block = 0,
                 .stream = 0,
                 .write = false,
                 .in_scope = false,
                 .microseconds = 0,
                 .more_streams = 0,
                 .frees = false},
       CloseScope{.scope = 0}});
}

// All of them are done when the pool is trimmed in the end.
TEST(PoolRegressionTest, TrimTakesBackManyBlocksWithRecordedUses) {
  std::vector<Operation> operations = {CreateStream{.non_blocking = true}};
  for (uint32_t block = 0; block < 40; ++block) {
    operations.push_back(
        Allocate{.bytes = 4096, .alignment_bytes = 512, .stream = 0, .tag = 0});
    operations.push_back(RecordUse{.block = block,
                                   .stream = 1,
                                   .write = false,
                                   .in_scope = false,
                                   .microseconds = 0,
                                   .more_streams = 0,
                                   .frees = false});
  }
  ExpectHolds(Setting{.storage = CpuStorage::kReal,
                      .sync = CpuSync::kLazy,
                      .granule_bytes = 65536,
                      .capacity_granules = 8},
              operations);
}

// A hook allocates, and takes more granules than the pass for a hole gains.
TEST(PoolRegressionTest, AHookThatTakesGranulesDoesNotMakeAPassLoseSome) {
  ExpectHolds(
      Setting{.storage = CpuStorage::kReal,
              .sync = CpuSync::kLazy,
              .granule_bytes = 65536,
              .capacity_granules = 29,
              .address_space_factor = 4,
              .max_mapped_vgs = 58,
              .move_on_failure = true,
              .scoped = false,
              .settled = true},
      {Allocate{.bytes = 377, .alignment_bytes = 512, .stream = 2, .tag = 0},
       AddHook{.veto_every = 5,
               .meddling = AddHook::Meddling::kFree,
               .bytes = 57755,
               .block = 8067},
       Allocate{.bytes = 7773, .alignment_bytes = 512, .stream = 4, .tag = 1},
       Allocate{.bytes = 4608, .alignment_bytes = 512, .stream = 4, .tag = 0},
       Allocate{.bytes = 6361, .alignment_bytes = 512, .stream = 2, .tag = 0},
       Allocate{.bytes = 6571, .alignment_bytes = 512, .stream = 4, .tag = 0},
       Allocate{.bytes = 621, .alignment_bytes = 512, .stream = 5, .tag = 0},
       Allocate{.bytes = 7168, .alignment_bytes = 32768, .stream = 3, .tag = 0},
       Allocate{.bytes = 6801, .alignment_bytes = 512, .stream = 5, .tag = 0},
       AddHook{.veto_every = 0,
               .meddling = AddHook::Meddling::kAllocate,
               .bytes = 37975,
               .block = 41734},
       Allocate{.bytes = 262144, .alignment_bytes = 512, .stream = 3, .tag = 0},
       Allocate{.bytes = 131073, .alignment_bytes = 512, .stream = 2, .tag = 0},
       Allocate{.bytes = 107, .alignment_bytes = 512, .stream = 4, .tag = 0},
       Allocate{.bytes = 1763, .alignment_bytes = 512, .stream = 1, .tag = 0},
       Allocate{.bytes = 3768, .alignment_bytes = 2048, .stream = 4, .tag = 0},
       Allocate{.bytes = 5119, .alignment_bytes = 512, .stream = 5, .tag = 0},
       Allocate{.bytes = 22, .alignment_bytes = 512, .stream = 2, .tag = 0},
       Allocate{.bytes = 4001, .alignment_bytes = 32768, .stream = 2, .tag = 0},
       Allocate{.bytes = 1875, .alignment_bytes = 32768, .stream = 1, .tag = 5},
       Allocate{.bytes = 6675, .alignment_bytes = 512, .stream = 3, .tag = 0},
       Allocate{.bytes = 18926, .alignment_bytes = 512, .stream = 1, .tag = 0},
       Allocate{.bytes = 208, .alignment_bytes = 16384, .stream = 1, .tag = 0},
       Allocate{.bytes = 262145, .alignment_bytes = 512, .stream = 0, .tag = 0},
       Allocate{.bytes = 2561, .alignment_bytes = 512, .stream = 4, .tag = 0},
       Allocate{.bytes = 7167, .alignment_bytes = 512, .stream = 3, .tag = 0},
       Allocate{
           .bytes = 196609, .alignment_bytes = 2048, .stream = 5, .tag = 0},
       Allocate{.bytes = 3073, .alignment_bytes = 512, .stream = 5, .tag = 1},
       Free{.block = 33128, .elsewhere = false, .stream = 3},
       Allocate{.bytes = 8192, .alignment_bytes = 512, .stream = 1, .tag = 0},
       Allocate{
           .bytes = 26689, .alignment_bytes = 32768, .stream = 3, .tag = 0},
       Allocate{.bytes = 5631, .alignment_bytes = 512, .stream = 0, .tag = 0},
       Exhaust{.bytes = 116, .stream = 0, .most = 94},
       Free{.block = 10284, .elsewhere = true, .stream = 4},
       Allocate{
           .bytes = 2049, .alignment_bytes = 16384, .stream = 5, .tag = 0}});
}

// Of work on a spilled block that is under way, the pool hears nothing.
TEST(PoolRegressionTest, ASpilledBlockIsInUseAlthoughItsUseCouldNotBeNoted) {
  ExpectHolds(
      Setting{.storage = CpuStorage::kGhost,
              .sync = CpuSync::kLazy,
              .granule_bytes = 2097152,
              .capacity_granules = 45,
              .address_space_factor = 16,
              .max_mapped_vgs = 0,
              .move_on_failure = true,
              .scoped = false,
              .settled = true,
              .exporting = true,
              .placement = PlacementKind::kTiered,
              .host_granules = 16},
      {BeginPool{.id = 2, .streams = 0}, EndPool{.id = 2},
       Oversubscribe{.bytes = 2078195,
                     .most = 43,
                     .more = 8,
                     .busy_every = 8,
                     .free_every = 0,
                     .active_every = 2},
       Free{.block = 64843, .elsewhere = false, .stream = 2},
       FailCall{.calls_before = 0, .result = DriverResult::kOutOfMemory},
       RecordUse{.block = 56405,
                 .stream = 3,
                 .write = false,
                 .in_scope = false,
                 .microseconds = 232,
                 .more_streams = 0,
                 .frees = true}});
}

}  // namespace
}  // namespace firn::testing::property
