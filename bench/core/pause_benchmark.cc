// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long launches are held back: by gated passes that are to keep to a pause,
// in a pool whose blocks come and go between them; and by a full pass, with and
// without copies before the gate closes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "bench/core/ghost_pool.h"
#include "benchmark/benchmark.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn {
namespace {

constexpr uint64_t kPoolBytes = 1024 * kMiB;
constexpr absl::Duration kMaxPause = absl::Milliseconds(2);
constexpr int kPasses = 10'000;

// Blocks of mixed sizes, three in ten of which are live at a time.
class Churn {
 public:
  explicit Churn(Pool* pool) : pool_(pool) {}

  absl::Status Fill() {
    while (true) {
      const absl::StatusOr<void*> block = Allocate();
      if (absl::IsResourceExhausted(block.status())) break;
      if (!block.ok()) return block.status();
      blocks_.push_back(*block);
    }
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    return Shrink(blocks_.size() * 3 / 10);
  }
  // Some come, and as many go.
  absl::Status Step() {
    constexpr size_t kBlocks = 200;
    const size_t left = blocks_.size();
    for (size_t i = 0; i < kBlocks; ++i) {
      const absl::StatusOr<void*> block = Allocate();
      if (!block.ok()) return block.status();
      blocks_.push_back(*block);
      std::swap(blocks_.back(), blocks_[random_() % blocks_.size()]);
    }
    return Shrink(left);
  }

 private:
  absl::StatusOr<void*> Allocate() {
    return pool_->Allocate(uint64_t{4096} << random_() % 8);
  }
  absl::Status Shrink(size_t left) {
    while (blocks_.size() > left) {
      const absl::Status freed = pool_->Free(blocks_.back());
      if (!freed.ok()) return freed;
      blocks_.pop_back();
    }
    return absl::OkStatus();
  }

  Pool* const pool_;
  std::mt19937_64 random_{1};
  std::vector<void*> blocks_;
};

// One iteration is the pause of one pass: planning ahead, and what happens
// between passes, is not measured.
void BM_GatedPass_MaxPause2ms(benchmark::State& state) {
  const absl::StatusOr<std::unique_ptr<Pool>> pool = MakeGhostPool(kPoolBytes);
  if (!pool.ok()) return SkipWith(&state, pool.status());
  { const LaunchScope scope(**pool, nullptr); }
  Churn churn(pool->get());
  absl::Status status = churn.Fill();
  CompactOptions options;
  options.level = CompactionLevel::kLaunchScopes;
  options.max_pause = kMaxPause;
  std::vector<absl::Duration> pauses;
  uint64_t moves = 0;
  for (auto _ : state) {
    if (!status.ok()) return SkipWith(&state, status);
    const absl::StatusOr<CompactionReport> report = (*pool)->Compact(options);
    if (!report.ok()) return SkipWith(&state, report.status());
    state.SetIterationTime(absl::ToDoubleSeconds(report->pause));
    pauses.push_back(report->pause);
    moves += report->moves;
    status = churn.Step();
  }
  std::sort(pauses.begin(), pauses.end());
  const auto within =
      std::upper_bound(pauses.begin(), pauses.end(), kMaxPause) -
      pauses.begin();
  const auto at = [&pauses](double share) {
    const auto index =
        static_cast<size_t>(share * static_cast<double>(pauses.size() - 1));
    return absl::ToDoubleMicroseconds(pauses[index]);
  };
  state.counters["within_max_pause"] =
      static_cast<double>(within) / static_cast<double>(pauses.size());
  state.counters["pause_us_p50"] = at(0.5);
  state.counters["pause_us_p999"] = at(0.999);
  state.counters["moves"] = static_cast<double>(moves);
}
BENCHMARK(BM_GatedPass_MaxPause2ms)->Iterations(kPasses)->UseManualTime();

// A pool on real memory of which one block in four is left, everywhere.
struct Quarter {
  std::unique_ptr<Pool> pool;
  std::vector<void*> blocks;
};

absl::StatusOr<Quarter> MakeQuarter() {
  constexpr uint64_t kBytes = 256 * kMiB;
  constexpr uint64_t kBlockBytes = 64 * kKiB;
  CpuDriverOptions driver_options;
  driver_options.device_bytes = kBytes + 2 * kMiB;
  absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
      CpuDriver::Create(std::move(driver_options));
  if (!cpu.ok()) return cpu.status();
  PoolOptions options;
  options.driver = *std::move(cpu);
  options.capacity_bytes = kBytes;
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(std::move(options));
  if (!pool.ok()) return pool.status();
  Quarter quarter;
  quarter.pool = *std::move(pool);
  std::vector<void*> all;
  while (true) {
    const absl::StatusOr<void*> block = quarter.pool->Allocate(kBlockBytes);
    if (!block.ok()) break;
    std::memset(*block, 1, kBlockBytes);
    all.push_back(*block);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 4 == 0) {
      quarter.blocks.push_back(all[i]);
      continue;
    }
    const absl::Status freed = quarter.pool->Free(all[i]);
    if (!freed.ok()) return freed;
  }
  return quarter;
}

// One iteration is the pause of a pass over all of it. `declared`: all blocks
// are read-only, and copied before the gate closes; otherwise behind it. The
// plan is made before in either case.
void FullPass(benchmark::State& state, bool declared) {
  uint64_t bytes = 0;
  absl::Duration pause;
  for (auto _ : state) {
    absl::StatusOr<Quarter> quarter = MakeQuarter();
    if (!quarter.ok()) return SkipWith(&state, quarter.status());
    Pool& pool = *quarter->pool;
    { const LaunchScope scope(pool, nullptr); }
    CompactOptions options;
    options.level = CompactionLevel::kLaunchScopes;
    options.max_pause = absl::Minutes(1);
    if (declared) {
      options.level = CompactionLevel::kDeclaredIdle;
      for (void* const block : quarter->blocks) {
        const absl::Status marked = pool.MarkReadOnly(block, nullptr);
        if (!marked.ok()) return SkipWith(&state, marked);
      }
    }
    const absl::StatusOr<CompactionReport> report = pool.Compact(options);
    if (!report.ok()) return SkipWith(&state, report.status());
    state.SetIterationTime(absl::ToDoubleSeconds(report->pause));
    bytes += report->bytes_copied;
    pause += report->pause;
  }
  state.counters["mib_copied"] =
      static_cast<double>(bytes) / static_cast<double>(kMiB);
  state.counters["pause_us_per_mib"] = absl::ToDoubleMicroseconds(pause) *
                                       static_cast<double>(kMiB) /
                                       static_cast<double>(bytes);
}
void BM_FullPass_Gated(benchmark::State& state) {
  FullPass(state, /*declared=*/false);
}
BENCHMARK(BM_FullPass_Gated)->Iterations(10)->UseManualTime();
void BM_FullPass_ReadOnly(benchmark::State& state) {
  FullPass(state, /*declared=*/true);
}
BENCHMARK(BM_FullPass_ReadOnly)->Iterations(10)->UseManualTime();

}  // namespace
}  // namespace firn
