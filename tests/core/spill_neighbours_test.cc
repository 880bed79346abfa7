// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Spilling among what else a pool has: domains, move hooks, debug mode.

#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/spill_pool_scene.h"
#include "tests/support/held_stream.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Values;

constexpr uint64_t kGranuleBytes = SpillPool::kGranuleBytes;
constexpr uint64_t kHostGranules = SpillPool::kHostGranules;

class SpillNeighboursTest : public ::testing::TestWithParam<CpuSync> {};

INSTANTIATE_TEST_SUITE_P(Extremes, SpillNeighboursTest,
                         Values(CpuSync::kLazy, CpuSync::kDraining), SyncName);

// --- Domains ---

DomainOptions Named(const char* name) {
  DomainOptions options;
  options.name = name;
  return options;
}

bool IsZeroBut(const char* bytes, uint64_t count, uint64_t skip_begin,
               uint64_t skip_end) {
  for (uint64_t i = 0; i < count; ++i) {
    if (i >= skip_begin && i < skip_end) continue;
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST_P(SpillNeighboursTest, HostMemoryOfAnotherDomainIsZeroedFirst) {
  SpillPool scene(GetParam());
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain one,
                            scene.pool().CreateDomain(Named("one")));
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain two,
                            scene.pool().CreateDomain(Named("two")));
  AllocateOptions in_one;
  in_one.domain = one.id();
  AllocateOptions in_two;
  in_two.domain = two.id();
  // The host's granules get to see the first domain's bytes, whole granules.
  scene.FillUp(kGranuleBytes, in_one);
  scene.AllowAll();
  scene.ExpectRescued(kHostGranules * kGranuleBytes, in_one);
  scene.FreeAll();
  EXPECT_EQ(scene.pool().GetStats().host_used_bytes, 0u);
  EXPECT_EQ(scene.ledger().bytes(), kHostGranules * kGranuleBytes);
  // A block of the other domain fills a part of a granule.
  ASSERT_TRUE(scene.Add(kGranuleBytes / 2, in_two));
  scene.AllowAll();
  while (!scene.IsOnHost(scene.blocks()[0])) {
    ASSERT_TRUE(scene.Add(kGranuleBytes, in_one));
  }
  const FilledBlock& small = scene.blocks()[0];
  const auto address = reinterpret_cast<uintptr_t>(small.ptr);
  const uintptr_t begin = address / kGranuleBytes * kGranuleBytes;
  EXPECT_TRUE(IsZeroBut(reinterpret_cast<const char*>(begin), kGranuleBytes,
                        address - begin, address - begin + small.bytes));
  // And so is what it comes back to.
  while (scene.blocks().size() > 1) {
    scene.FreeAt(scene.blocks().size() - 1);
  }
  FIRN_ASSERT_OK(scene.pool().MarkActive(small.ptr));
  EXPECT_TRUE(IsZeroBut(reinterpret_cast<const char*>(begin), kGranuleBytes,
                        address - begin, address - begin + small.bytes));
  scene.ExpectSound();
  scene.FreeAll();
}

TEST_P(SpillNeighboursTest, AtItsLimitADomainSpillsWhatIsItsOwn) {
  SpillPool scene(GetParam());
  DomainOptions limited;
  limited.name = "limited";
  limited.limit.hard_bytes = 4 * kGranuleBytes;
  FIRN_ASSERT_OK_AND_ASSIGN(const Domain domain,
                            scene.pool().CreateDomain(limited));
  AllocateOptions inside;
  inside.domain = domain.id();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(scene.Add(kGranuleBytes));
  scene.AllowAll();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(scene.Add(kGranuleBytes, inside));
  scene.ExpectFails(kGranuleBytes, "no granule holds nothing but idle blocks",
                    inside);
  scene.AllowAll();
  scene.ExpectRescued(kGranuleBytes, inside);
  EXPECT_EQ(scene.CountOnHost(), 1u);
  scene.FreeAll();
}

TEST_P(SpillNeighboursTest, ADomainIsGoneOnlyWhenNothingOfItIsOnTheHost) {
  SpillPool scene(GetParam());
  FIRN_ASSERT_OK_AND_ASSIGN(Domain domain,
                            scene.pool().CreateDomain(Named("gone")));
  AllocateOptions inside;
  inside.domain = domain.id();
  ASSERT_TRUE(scene.Add(kGranuleBytes, inside));
  scene.AllowAll();
  scene.FillUp(kGranuleBytes);
  ASSERT_TRUE(scene.IsOnHost(scene.blocks()[0]));
  domain = Domain();
  for (int i = 0; i < 3; ++i) {
    // Makes room for others.
    FIRN_ASSERT_OK_AND_ASSIGN(const Domain other,
                              scene.pool().CreateDomain(Named("other")));
    scene.ExpectSound();
  }
  scene.FreeAt(1);
  FIRN_ASSERT_OK(scene.pool().MarkActive(scene.blocks()[0].ptr));
  scene.ExpectSound();
}

// --- Hooks ---

TEST_P(SpillNeighboursTest, HooksHearOfBothWays) {
  SpillPool scene(GetParam());
  ASSERT_TRUE(scene.Add(4 * kGranuleBytes + 20 * kKiB));
  scene.FillUp(4 * kKiB);
  FIRN_ASSERT_OK(scene.pool().AllowSpill(scene.blocks()[0].ptr, nullptr));
  uint64_t before = 0;
  uint64_t moved = 0;
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock> blocks) {
    before += blocks.size();
    return absl::OkStatus();
  };
  hook.after_move = [&](absl::Span<const MovingBlock> blocks) {
    for (const MovingBlock& block : blocks) {
      if (block.ptr == scene.blocks()[0].ptr &&
          block.new_generation > block.old_generation) {
        ++moved;
      }
    }
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            scene.pool().AddMoveHook(hook));
  FIRN_ASSERT_OK(scene.pool().Compact().status());
  const uint64_t before_spill = before;
  moved = 0;
  scene.ExpectRescued(3 * kGranuleBytes);
  // Once, though three of its granules went.
  EXPECT_EQ(before - before_spill, 1u);
  EXPECT_EQ(moved, 1u);
  scene.FreeAt(scene.blocks().size() - 1);
  FIRN_ASSERT_OK(scene.pool().MarkActive(scene.blocks()[0].ptr));
  EXPECT_EQ(before - before_spill, 2u);
  EXPECT_EQ(moved, 2u);
  scene.ExpectSound();
}

TEST_P(SpillNeighboursTest, HooksMayVetoBothWays) {
  SpillPool scene(GetParam());
  scene.FillUp(kGranuleBytes);
  scene.AllowAll();
  std::set<const void*> stays;
  MoveHook hook;
  hook.before_move = [&](absl::Span<const MovingBlock> blocks) {
    for (const MovingBlock& block : blocks) {
      if (stays.count(block.ptr) > 0) return absl::AbortedError("it stays");
    }
    return absl::OkStatus();
  };
  FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                            scene.pool().AddMoveHook(hook));
  for (const FilledBlock& block : scene.blocks()) stays.insert(block.ptr);
  scene.ExpectFails(kGranuleBytes, "move hooks want what is left to stay");
  EXPECT_EQ(scene.pool().GetStats().vetoed_sources, scene.blocks().size());
  EXPECT_EQ(scene.ledger().bytes(), 0u);
  // Others go instead.
  const void* const free_to_go = scene.blocks()[7].ptr;
  stays.erase(free_to_go);
  scene.ExpectRescued(kGranuleBytes);
  EXPECT_TRUE(scene.IsOnHost(scene.blocks()[7]));
  scene.FreeAt(scene.blocks().size() - 1);
  stays.insert(free_to_go);
  EXPECT_THAT(
      scene.pool().MarkActive(free_to_go),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("move hook")));
  EXPECT_TRUE(scene.IsOnHost(scene.blocks()[7]));
  stays.clear();
  FIRN_ASSERT_OK(scene.pool().MarkActive(free_to_go));
  scene.ExpectSound();
}

TEST_P(SpillNeighboursTest, AHookMayFreeOrActivateWhatIsAboutToGo) {
  for (const bool frees : {false, true}) {
    SpillPool scene(GetParam());
    scene.FillUp(kGranuleBytes);
    scene.AllowAll();
    int calls = 0;
    MoveHook hook;
    hook.before_move = [&](absl::Span<const MovingBlock> blocks) {
      if (++calls > 1) return absl::OkStatus();
      if (frees) {
        for (size_t i = 0; i < scene.blocks().size(); ++i) {
          if (scene.blocks()[i].ptr != blocks[0].ptr) continue;
          scene.FreeAt(i);
          break;
        }
      } else {
        FIRN_EXPECT_OK(scene.pool().MarkActive(blocks[0].ptr));
      }
      return absl::OkStatus();
    };
    FIRN_ASSERT_OK_AND_ASSIGN(const MoveHookRegistration registration,
                              scene.pool().AddMoveHook(hook));
    ASSERT_TRUE(scene.Add(kGranuleBytes));
    scene.ExpectSound();
    EXPECT_EQ(scene.CountOnHost(), frees ? 0u : 1u);
  }
}

// --- Other pools ---

TEST_P(SpillNeighboursTest, BlocksOfAStructureGoAndComeBack) {
  for (const PlacementKind placement :
       {PlacementKind::kFreeList, PlacementKind::kBestFit,
        PlacementKind::kSizeHash, PlacementKind::kSlab, PlacementKind::kBuddy,
        PlacementKind::kTiered}) {
    SCOPED_TRACE(std::string(PlacementKindName(placement)));
    PoolOptions options = SpillPool::Options();
    options.placement = placement;
    SpillPool scene(GetParam(), options);
    // Some of a free list's lie across the ends of granules.
    scene.FillUp(24 * kKiB);
    scene.AllowAll();
    EXPECT_TRUE(scene.Add(2 * kGranuleBytes));
    EXPECT_EQ(scene.StatsOf(Rung::kSpill).rescued, 1u);
    scene.ExpectSound();
    ASSERT_NE(scene.FindOnHost(), nullptr);
    // Nothing new comes to what is on the host.
    const uint64_t spilled = scene.pool().GetStats().spilled_bytes;
    scene.FreeAt(
        static_cast<size_t>(scene.FindOnHost() - scene.blocks().data()));
    EXPECT_LT(scene.pool().GetStats().spilled_bytes, spilled);
    for (int i = 0; i < 20; ++i) scene.Add(512);
    scene.ExpectSound();
    while (scene.FindOnHost() != nullptr) {
      const FilledBlock* const next = scene.FindOnHost();
      if (scene.pool().MarkActive(next->ptr).ok()) continue;
      // There is no room yet.
      ASSERT_FALSE(scene.IsOnHost(scene.blocks().back()));
      scene.FreeAt(scene.blocks().size() - 1);
    }
    EXPECT_EQ(scene.pool().GetStats().spilled_bytes, 0u);
    scene.ExpectSound();
  }
}

TEST_P(SpillNeighboursTest, APoolInDebugModeSpills) {
  PoolOptions options = SpillPool::Options();
  options.debug.enabled = true;
  SpillPool scene(GetParam(), options);
  scene.FillUp(kGranuleBytes / 2);
  scene.AllowAll();
  ASSERT_TRUE(scene.Add(2 * kGranuleBytes));
  EXPECT_GT(scene.CountOnHost(), 0u);
  EXPECT_EQ(CountDamaged(scene.blocks()), 0u);
  FIRN_EXPECT_OK(scene.pool().CheckInvariants());
  scene.FreeAt(scene.blocks().size() - 1);
  FIRN_ASSERT_OK(scene.pool().Trim().status());
  while (const FilledBlock* const spilled = scene.FindOnHost()) {
    FIRN_ASSERT_OK(scene.pool().MarkActive(spilled->ptr));
  }
  EXPECT_EQ(CountDamaged(scene.blocks()), 0u);
  FIRN_EXPECT_OK(scene.pool().CheckInvariants());
}

}  // namespace
}  // namespace firn::testing
