// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What an answer costs in a pool whose capacity is used up, all that is free
// lying in 100,000 fragments of 4 KiB between live blocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"

namespace firn {
namespace {

constexpr uint64_t kBlockBytes = 4 * kKiB;
constexpr size_t kFragments = 100'000;
// Whole granules of 2 MiB.
constexpr uint64_t kCapacityBytes =
    (2 * kFragments * kBlockBytes / (2 * kMiB) + 1) * (2 * kMiB);

// Fills the pool with blocks of 4 KiB to the last byte, and frees every second
// one, in the order of their addresses, until there are so many fragments.
// Blocks that are neighbours in a granule are so in the addresses of a window,
// and windows have an even number of them: no two fragments touch.
absl::StatusOr<std::unique_ptr<Pool>> MakeFragmentedPool() {
  absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return pool.status();
  std::vector<void*> blocks;
  for (uint64_t i = 0; i < kCapacityBytes / kBlockBytes; ++i) {
    const absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes);
    if (!block.ok()) return block.status();
    blocks.push_back(*block);
  }
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i < kFragments; ++i) {
    const absl::Status freed = (*pool)->Free(blocks[2 * i]);
    if (!freed.ok()) return freed;
  }
  const PoolStats stats = (*pool)->GetStats();
  if (stats.used_bytes != kCapacityBytes ||
      stats.live_bytes != kCapacityBytes - kFragments * kBlockBytes) {
    return absl::InternalError(absl::StrCat(
        "not the fragments that were meant: used ", stats.used_bytes, ", live ",
        stats.live_bytes, " of ", kCapacityBytes));
  }
  return pool;
}

// Two blocks and more do not fit anywhere.
absl::Status Refuses(Pool* pool, uint64_t bytes) {
  const absl::StatusOr<void*> block = pool->Allocate(bytes);
  if (absl::IsResourceExhausted(block.status())) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      bytes, " bytes: ", block.status().ToString(), "; should not fit"));
}

void BM_Pool_Succeed(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool = MakeFragmentedPool();
  if (!pool.ok()) return SkipWith(&state, pool.status());
  for (auto _ : state) {
    if (!AllocateAndFree(pool->get(), kBlockBytes)) {
      state.SkipWithError("an allocation or its free failed");
      return;
    }
  }
}
BENCHMARK(BM_Pool_Succeed);

void Fail(benchmark::State& state, const std::vector<uint64_t>& sizes) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool = MakeFragmentedPool();
  if (!pool.ok()) return SkipWith(&state, pool.status());
  for (const uint64_t bytes : sizes) {
    const absl::Status refuses = Refuses(pool->get(), bytes);
    if (!refuses.ok()) return SkipWith(&state, refuses);
  }
  size_t i = 0;
  for (auto _ : state) {
    const absl::StatusOr<void*> block = (*pool)->Allocate(sizes[i]);
    if (block.ok()) {
      state.SkipWithError("what should not fit was allocated");
      return;
    }
    if (++i == sizes.size()) i = 0;
  }
}

// One allocation of 64 KiB.
void BM_Pool_Fail(benchmark::State& state) { Fail(state, {64 * kKiB}); }
BENCHMARK(BM_Pool_Fail);

// One allocation of a size that is another with every call: from 8 KiB to 8
// MiB, of every kind of placement.
void BM_Pool_FailMixed(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 256; ++i) {
    const uint64_t octave_bytes = (8 * kKiB) << (random() % 10);
    sizes.push_back(octave_bytes + random() % octave_bytes);
  }
  Fail(state, sizes);
}
BENCHMARK(BM_Pool_FailMixed);

}  // namespace
}  // namespace firn
