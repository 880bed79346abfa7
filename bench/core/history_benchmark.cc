// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What watching a pool costs: the history on every call, and snapshots of many
// blocks.

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/core/snapshot_export.h"

namespace firn {
namespace {

constexpr uint64_t kCapacityBytes = uint64_t{8} << 30;
constexpr uint64_t kBlockBytes = 4 * kKiB;

// As BM_Pool_SmallPair, with the last 65,536 events kept.
void PairWithHistory(benchmark::State& state, bool with_stacks) {
  PoolOptions options;
  options.history_entries = 1 << 16;
  options.history_stacks = with_stacks;
  const absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes, nullptr, std::move(options));
  if (!pool.ok()) return SkipWith(&state, pool.status());
  for (auto _ : state) {
    if (!AllocateAndFree(pool->get(), kBlockBytes)) {
      state.SkipWithError("an allocation or its free failed");
      return;
    }
  }
}

void BM_Pool_SmallPair_History(benchmark::State& state) {
  PairWithHistory(state, /*with_stacks=*/false);
}
BENCHMARK(BM_Pool_SmallPair_History);

void BM_Pool_SmallPair_HistoryStacks(benchmark::State& state) {
  PairWithHistory(state, /*with_stacks=*/true);
}
BENCHMARK(BM_Pool_SmallPair_HistoryStacks);

// --- Snapshots of 100,000 blocks ---

constexpr int kBlocks = 100'000;
constexpr uint64_t kSnapshotHistory = 1 << 18;

// Blocks from 512 bytes on, with the allocations of all of them in the history.
absl::StatusOr<std::unique_ptr<Pool>> MakeFullPool() {
  PoolOptions options;
  options.history_entries = kSnapshotHistory;
  absl::StatusOr<std::unique_ptr<Pool>> pool =
      MakeGhostPool(kCapacityBytes, nullptr, std::move(options));
  if (!pool.ok()) return pool;
  for (int i = 0; i < kBlocks; ++i) {
    const absl::StatusOr<void*> block =
        (*pool)->Allocate(i % 1000 == 0 ? 3 * kMiB : uint64_t{512} << i % 7);
    if (!block.ok()) return block.status();
  }
  return pool;
}

// Of the calling thread, so far.
int64_t CountPreemptions() {
  rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// The snapshot and its file.
void BM_Pool_ExportSnapshot_100kBlocks(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool = MakeFullPool();
  if (!pool.ok()) return SkipWith(&state, pool.status());
  uint64_t bytes = 0;
  for (auto _ : state) {
    bytes = SnapshotToPickle((*pool)->TakeMemorySnapshot()).size();
  }
  state.counters["file_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Pool_ExportSnapshot_100kBlocks)->Unit(benchmark::kMillisecond);

// One iteration is a snapshot, while another thread allocates and frees blocks
// behind the pool's lock. longest_wait_ms: the longest time that such a pair
// took, of those during which the thread was not preempted (the thread that
// holds the lock may have been); longest_wait_alone_ms: likewise, in as much
// time without snapshots, which is the machine's own.
void BM_Pool_TakeSnapshot_100kBlocks(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool = MakeFullPool();
  if (!pool.ok()) return SkipWith(&state, pool.status());
  std::atomic<bool> stop{false};
  std::atomic<int64_t> longest_ns{0};
  std::atomic<uint64_t> failures{0};
  std::thread other([&, used_pool = pool->get()] {
    while (!stop.load(std::memory_order_relaxed)) {
      const int64_t preemptions = CountPreemptions();
      const auto begin = std::chrono::steady_clock::now();
      if (!AllocateAndFree(used_pool, 3 * kMiB)) ++failures;
      const int64_t ns =
          std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin)
              .count();
      if (ns > longest_ns.load(std::memory_order_relaxed) &&
          CountPreemptions() == preemptions) {
        longest_ns.store(ns, std::memory_order_relaxed);
      }
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    benchmark::DoNotOptimize((*pool)->TakeMemorySnapshot());
  }
  const auto end = std::chrono::steady_clock::now();
  const int64_t longest_with_ns = longest_ns.exchange(0);
  while (std::chrono::steady_clock::now() - end < end - begin) {
    benchmark::DoNotOptimize(end);
  }
  stop.store(true);
  other.join();
  if (failures != 0) state.SkipWithError("an allocation or its free failed");
  state.counters["longest_wait_ms"] =
      static_cast<double>(longest_with_ns) / 1e6;
  state.counters["longest_wait_alone_ms"] =
      static_cast<double>(longest_ns.load()) / 1e6;
}
BENCHMARK(BM_Pool_TakeSnapshot_100kBlocks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace firn
