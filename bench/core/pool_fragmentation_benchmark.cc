// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What it costs to ask a pool of 70,000 granules how fragmented it is, and for
// how long others wait for its lock meanwhile.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"

namespace firn {
namespace {

constexpr uint64_t kCapacityBytes = uint64_t{70'000} * 2 * kMiB;

// Fills the pool with blocks of up to twice `mean_bytes`, and frees two of
// three.
absl::StatusOr<std::unique_ptr<Pool>> MakeRubble(uint64_t mean_bytes) {
  absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool(kCapacityBytes);
  if (!pool.ok()) return pool.status();
  std::mt19937_64 random(1);
  std::vector<void*> blocks;
  while (true) {
    const absl::StatusOr<void*> block =
        (*pool)->Allocate(1 + random() % (2 * mean_bytes));
    if (!block.ok()) break;
    blocks.push_back(*block);
  }
  for (void* const block : blocks) {
    if (random() % 3 == 0) continue;
    const absl::Status freed = (*pool)->Free(block);
    if (!freed.ok()) return freed;
  }
  return pool;
}

void BM_Pool_GetFragmentation(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeRubble(static_cast<uint64_t>(state.range(0)) * kKiB);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  std::atomic<bool> stop{false};
  double longest_wait_ms = 0;
  std::thread other([&] {
    while (!stop.load()) {
      const absl::Time start = absl::Now();
      (*pool)->GetUsage();
      longest_wait_ms = std::max(
          longest_wait_ms, absl::ToDoubleMilliseconds(absl::Now() - start));
      absl::SleepFor(absl::Microseconds(100));
    }
  });
  for (auto _ : state) {
    benchmark::DoNotOptimize((*pool)->GetFragmentation());
  }
  stop.store(true);
  other.join();
  const FragmentationStats figures = (*pool)->GetFragmentation();
  state.counters["blocks"] = static_cast<double>(figures.live_blocks);
  state.counters["granules"] = static_cast<double>(figures.used_granules);
  state.counters["longest_wait_ms"] = longest_wait_ms;
}
BENCHMARK(BM_Pool_GetFragmentation)
    ->Arg(20)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(8000)
    ->ArgName("mean_kib")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace firn
