// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the pool's calls cost on the host, on a ghost device: no contents and
// no driver time, only the pool's own work.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "firn/core/pool.h"
#include "firn/core/pool_options.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCapacityBytes = uint64_t{8} << 30;

absl::StatusOr<std::unique_ptr<Pool>> MakeGhostPool() {
  CpuDriverOptions driver_options;
  driver_options.storage = CpuStorage::kGhost;
  driver_options.device_bytes = kCapacityBytes + 2 * kMiB;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(driver_options));
  if (!driver.ok()) return driver.status();
  PoolOptions options;
  options.driver = *std::move(driver);
  options.capacity_bytes = kCapacityBytes;
  return Pool::Create(std::move(options));
}

// One iteration: a block is allocated and freed again, its memory still mapped.
void AllocateAndFree(benchmark::State& state, uint64_t bytes) {
  absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool();
  if (!pool.ok()) {
    state.SkipWithError(pool.status().ToString().c_str());
    return;
  }
  for (auto _ : state) {
    absl::StatusOr<void*> block = (*pool)->Allocate(bytes);
    if (!block.ok() || !(*pool)->Free(*block).ok()) {
      state.SkipWithError("an allocation or its free failed");
      return;
    }
  }
}

void BM_Pool_SmallPair(benchmark::State& state) {
  AllocateAndFree(state, 1024);
}
BENCHMARK(BM_Pool_SmallPair);

void BM_Pool_8MiBPair(benchmark::State& state) {
  AllocateAndFree(state, 8 * kMiB);
}
BENCHMARK(BM_Pool_8MiBPair);

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
    absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool();
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
