// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the calls of one thread cost on the host.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"

namespace firn {
namespace {

constexpr uint64_t kCapacityBytes = uint64_t{8} << 30;
constexpr uint64_t kBlockBytes = 4 * kKiB;

// --- One block, allocated and freed again ---

void Pair(benchmark::State& state, uint64_t bytes) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  for (auto _ : state) {
    if (!AllocateAndFree(pool->get(), bytes)) {
      state.SkipWithError("an allocation or its free failed");
      return;
    }
  }
}

void BM_Pool_SmallPair(benchmark::State& state) { Pair(state, kBlockBytes); }
BENCHMARK(BM_Pool_SmallPair);

void BM_Pool_8MiBPair(benchmark::State& state) { Pair(state, 8 * kMiB); }
BENCHMARK(BM_Pool_8MiBPair);

// The same as SmallPair on a stream other than the default one.
void BM_Pool_NamedStreamPair(benchmark::State& state) {
  std::shared_ptr<Driver> driver;
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes, &driver);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  AllocateOptions options;
  if (driver->StreamCreate(&options.stream, kStreamNonBlocking) !=
      DriverResult::kSuccess) {
    state.SkipWithError("cannot make a stream");
    return;
  }
  for (auto _ : state) {
    const absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes, options);
    if (!block.ok() || !(*pool)->Free(*block, options.stream).ok()) {
      state.SkipWithError("an allocation or its free failed");
      return;
    }
  }
}
BENCHMARK(BM_Pool_NamedStreamPair);

// --- Among live blocks ---

// From 512 bytes to 64 KiB, as many of one octave as of the next.
uint64_t DrawBytes(std::mt19937_64* random) {
  std::uniform_real_distribution<double> octaves(9, 16);
  return static_cast<uint64_t>(std::exp2(octaves(*random)));
}

// One iteration is one operation: by turns a random one of 10,000 live blocks
// is freed, and one of random size allocated. What is random was drawn before.
void BM_Pool_SmallRandom(benchmark::State& state) {
  constexpr size_t kLive = 10'000;
  constexpr size_t kDraws = size_t{1} << 16;
  struct Draw {
    uint32_t index = 0;
    uint32_t bytes = 0;
  };
  std::mt19937_64 random(1);
  std::vector<Draw> draws(kDraws);
  for (Draw& draw : draws) {
    draw.index = static_cast<uint32_t>(random() % kLive);
    draw.bytes = static_cast<uint32_t>(DrawBytes(&random));
  }
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  std::vector<void*> live;
  for (size_t i = 0; i < kLive; ++i) {
    const absl::StatusOr<void*> block = (*pool)->Allocate(DrawBytes(&random));
    if (!block.ok()) return SkipWith(&state, block.status());
    live.push_back(*block);
  }
  size_t step = 0;
  bool is_free = true;
  for (auto _ : state) {
    const Draw& draw = draws[step % kDraws];
    if (is_free) {
      if (!(*pool)->Free(live[draw.index]).ok()) {
        state.SkipWithError("a free failed");
        return;
      }
    } else {
      const absl::StatusOr<void*> block = (*pool)->Allocate(draw.bytes);
      if (!block.ok()) return SkipWith(&state, block.status());
      live[draw.index] = *block;
      ++step;
    }
    is_free = !is_free;
  }
}
BENCHMARK(BM_Pool_SmallRandom);

// One iteration: one of `live_blocks` is freed and one of the same size
// allocated. The order of the blocks is random; the list of them is walked in
// order, so that what is measured is not the list.
void PairAtLive(benchmark::State& state, size_t live_blocks) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  std::vector<void*> live;
  live.reserve(live_blocks);
  for (size_t i = 0; i < live_blocks; ++i) {
    const absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes);
    if (!block.ok()) return SkipWith(&state, block.status());
    live.push_back(*block);
  }
  std::shuffle(live.begin(), live.end(), std::mt19937_64(1));
  size_t i = 0;
  for (auto _ : state) {
    if (!(*pool)->Free(live[i]).ok()) {
      state.SkipWithError("a free failed");
      return;
    }
    const absl::StatusOr<void*> block = (*pool)->Allocate(kBlockBytes);
    if (!block.ok()) return SkipWith(&state, block.status());
    live[i] = *block;
    if (++i == live_blocks) i = 0;
  }
}

void BM_Pool_PairAtLive_1000(benchmark::State& state) {
  PairAtLive(state, 1000);
}
BENCHMARK(BM_Pool_PairAtLive_1000);

void BM_Pool_PairAtLive_1000000(benchmark::State& state) {
  PairAtLive(state, 1'000'000);
}
BENCHMARK(BM_Pool_PairAtLive_1000000);

// --- Compaction ---

// Blocks of mixed sizes, seven in eight of which are freed again.
absl::Status Scatter(Pool* pool, std::vector<void*>* survivors) {
  constexpr uint64_t kSizes[] = {4096, 24576, 65536, 196608, 524288, 3145728};
  constexpr int kBlocks = 6000;
  std::vector<void*> casualties;
  uint64_t random = 1;
  for (int i = 0; i < kBlocks; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    absl::StatusOr<void*> block = pool->Allocate(kSizes[(random >> 33) % 6]);
    if (!block.ok()) return block.status();
    ((random >> 40) % 8 == 0 ? *survivors : casualties).push_back(*block);
  }
  for (void* block : casualties) {
    if (absl::Status freed = pool->Free(block); !freed.ok()) return freed;
  }
  return absl::OkStatus();
}

// One iteration: one whole pass over a scattered pool of about 4 GiB.
void BM_Pool_CompactMixed(benchmark::State& state) {
  uint64_t recovered_granules = 0;
  for (auto _ : state) {
    state.PauseTiming();
    absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool(kCapacityBytes);
    std::vector<void*> survivors;
    if (!pool.ok() || !Scatter(pool->get(), &survivors).ok()) {
      state.SkipWithError("cannot set up a scattered pool");
      return;
    }
    state.ResumeTiming();
    absl::StatusOr<CompactionReport> report = (*pool)->Compact();
    state.PauseTiming();
    if (!report.ok() || report->granules_recovered == 0) {
      state.SkipWithError("the pass recovered nothing");
      return;
    }
    recovered_granules = report->granules_recovered;
    pool->reset();
    state.ResumeTiming();
  }
  state.counters["recovered_granules"] =
      benchmark::Counter(static_cast<double>(recovered_granules));
}
BENCHMARK(BM_Pool_CompactMixed)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace firn
