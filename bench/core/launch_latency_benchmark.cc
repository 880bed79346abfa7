// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long it takes a thread to launch small work while another thread runs
// passes that move memory, against the same without passes: inside launch
// scopes (level 1), and outside of any while only memory that was declared idle
// moves (level 2); on devices that do not wait for work in flight when memory
// is unmapped, and on such that do (draining).
//
// Times are real. What the driver takes is modelled: its one lock is held for
// the time that the profile a100 charges for each call (LockedDriver), by moves
// and launches alike. So a launch waits for calls of a pass that came before,
// and at level 1 also while the gate is closed: for what was launched, the
// plan, and the moves. On a host that has other things to do the tail of real
// time is its scheduler's, as the cells without passes show. modelled_*_us is
// what remains without it: how much of the driver's modelled time, of whichever
// thread, has passed from the start of a launch to its end, and, where the
// device drains, of the time of the work that its calls waited for. A call that
// was being made counts whole; what the pool itself takes, and how long it
// waits for launched work behind a closed gate, does not count.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/core/ghost_pool.h"
#include "bench/core/locked_driver.h"
#include "benchmark/benchmark.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"

namespace firn {
namespace {

constexpr CostProfile kProfile = CostProfile::kA100;
constexpr uint64_t kBlockBytes = 64 * kKiB;
constexpr uint64_t kPoolBytes = 64 * kMiB;
// Of blocks that are allocated before a pass, and that are left of them.
constexpr size_t kBlocksBefore = 16 * 2 * kMiB / kBlockBytes;
constexpr size_t kBlocksLeft = kBlocksBefore / 8;
constexpr absl::Duration kMaxPause = absl::Milliseconds(2);
constexpr absl::Duration kBetweenPasses = absl::Milliseconds(5);

constexpr int kLaunches = 10'000;
constexpr absl::Duration kBetweenLaunches = absl::Microseconds(100);
constexpr absl::Duration kWork = absl::Microseconds(20);

// A pool on a ghost device behind a lock. Destroyed in reverse.
struct Scene {
  std::unique_ptr<CpuDriver> device;
  std::unique_ptr<CountingDriver> counting;
  std::shared_ptr<LockedDriver> driver;
  std::unique_ptr<Pool> pool;
  StreamHandle stream = nullptr;
};

absl::StatusOr<Scene> MakeScene(CpuSync sync) {
  CpuDriverOptions device_options;
  device_options.storage = CpuStorage::kGhost;
  device_options.device_bytes = kPoolBytes + 2 * kMiB;
  device_options.sync = sync;
  absl::StatusOr<std::unique_ptr<CpuDriver>> device =
      CpuDriver::Create(std::move(device_options));
  if (!device.ok()) return device.status();
  Scene scene;
  scene.device = *std::move(device);
  scene.counting = std::make_unique<CountingDriver>(
      scene.device.get(), CostModel(kProfile), 2 * kMiB);
  scene.driver = std::make_shared<LockedDriver>(
      scene.device.get(), scene.counting.get(), kProfile,
      /*is_draining=*/sync == CpuSync::kDraining, kWork);
  if (scene.driver->StreamCreate(&scene.stream, kStreamNonBlocking) !=
      DriverResult::kSuccess) {
    return absl::InternalError("the device made no stream");
  }
  PoolOptions options;
  options.driver = scene.driver;
  options.capacity_bytes = kPoolBytes;
  absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(std::move(options));
  if (!pool.ok()) return pool.status();
  scene.pool = *std::move(pool);
  return scene;
}

// The thread that fragments the pool again and again and, if passes are asked
// for, compacts it each time.
class OtherThread {
 public:
  OtherThread(Pool* pool, CompactionLevel level, bool with_passes)
      : pool_(pool),
        level_(level),
        with_passes_(with_passes),
        thread_([this] { Run(); }) {}
  ~OtherThread() { (void)Stop(); }

  // Its first error. From then on its counts stand.
  absl::Status Stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  uint64_t passes() const { return passes_; }
  uint64_t moves() const { return moves_; }

 private:
  void Run() {
    while (status_.ok() && !is_over_) {
      status_ = Fragment();
      if (status_.ok() && with_passes_) status_ = Pass();
      absl::SleepFor(kBetweenPasses);
    }
  }

  // What is left of the last time goes as well.
  absl::Status Fragment() {
    absl::Status status = FreeUntil(0);
    while (status.ok() && blocks_.size() < kBlocksBefore) {
      const absl::StatusOr<void*> block = pool_->Allocate(kBlockBytes);
      if (block.ok()) blocks_.push_back(*block);
      status = block.status();
    }
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    if (status.ok()) status = FreeUntil(kBlocksLeft);
    if (level_ != CompactionLevel::kDeclaredIdle) return status;
    for (void* const block : blocks_) {
      if (status.ok()) status = pool_->MarkIdle(block, /*stream=*/nullptr);
    }
    return status;
  }
  absl::Status FreeUntil(size_t left) {
    while (blocks_.size() > left) {
      const absl::Status freed = pool_->Free(blocks_.back());
      if (!freed.ok()) return freed;
      blocks_.pop_back();
    }
    return absl::OkStatus();
  }

  absl::Status Pass() {
    CompactOptions options;
    options.level = level_;
    options.max_pause = kMaxPause;
    const absl::StatusOr<CompactionReport> report = pool_->Compact(options);
    if (!report.ok()) return report.status();
    ++passes_;
    moves_ += report->moves;
    return absl::OkStatus();
  }

  Pool* const pool_;
  const CompactionLevel level_;
  const bool with_passes_;
  std::mt19937_64 random_{1};
  std::vector<void*> blocks_;
  // Read by others once the thread has ended.
  absl::Status status_;
  uint64_t passes_ = 0;
  uint64_t moves_ = 0;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

class Latencies {
 public:
  Latencies() { us_.reserve(kLaunches); }

  void Add(double us) { us_.push_back(us); }
  void Report(const std::string& prefix, benchmark::State* state) {
    std::sort(us_.begin(), us_.end());
    state->counters[prefix + "p50_us"] = At(0.5);
    state->counters[prefix + "p99_us"] = At(0.99);
    state->counters[prefix + "p999_us"] = At(0.999);
  }

 private:
  double At(double share) const {
    return us_[static_cast<size_t>(share *
                                   static_cast<double>(us_.size() - 1))];
  }

  std::vector<double> us_;
};

// One iteration is one launch, from before the scope to after it.
void BM_LaunchLatency(benchmark::State& state) {
  const bool is_scoped = state.range(0) == 1;
  const bool with_passes = state.range(1) == 1;
  absl::StatusOr<Scene> scene =
      MakeScene(state.range(2) == 1 ? CpuSync::kDraining : CpuSync::kLazy);
  if (!scene.ok()) return SkipWith(&state, scene.status());
  Pool& pool = *scene->pool;
  const absl::StatusOr<void*> used = pool.Allocate(kBlockBytes);
  if (!used.ok()) return SkipWith(&state, used.status());
  const KernelRange range = {reinterpret_cast<uintptr_t>(*used), kBlockBytes,
                             /*writes=*/true};
  // Gated passes are made from now on: a scope's end writes a token.
  if (is_scoped) pool.launch_gate()->Arm();

  Latencies real;
  Latencies modelled;
  OtherThread other(&pool,
                    is_scoped ? CompactionLevel::kLaunchScopes
                              : CompactionLevel::kDeclaredIdle,
                    with_passes);
  for (auto _ : state) {
    absl::SleepFor(kBetweenLaunches);
    const double passed_before_us = scene->driver->passed_us();
    const absl::Time start = absl::Now();
    DriverResult result;
    {
      std::optional<LaunchScope> scope;
      if (is_scoped) scope.emplace(pool, scene->stream);
      result = scene->driver->Launch(scene->stream, range);
    }
    const absl::Duration latency = absl::Now() - start;
    state.SetIterationTime(absl::ToDoubleSeconds(latency));
    real.Add(absl::ToDoubleMicroseconds(latency));
    modelled.Add(scene->driver->passed_us() - passed_before_us);
    if (result != DriverResult::kSuccess) {
      state.SkipWithError("a launch was refused");
      break;
    }
  }
  const absl::Status status = other.Stop();
  if (!status.ok()) return SkipWith(&state, status);
  if (scene->driver->StreamSynchronize(scene->stream) !=
      DriverResult::kSuccess) {
    return state.SkipWithError("work that was launched has failed");
  }
  if (with_passes && other.moves() == 0) {
    return state.SkipWithError("no pass has moved anything");
  }

  real.Report("", &state);
  modelled.Report("modelled_", &state);
  state.counters["launches"] = kLaunches;
  state.counters["passes"] = static_cast<double>(other.passes());
  state.counters["moves"] = static_cast<double>(other.moves());
}
BENCHMARK(BM_LaunchLatency)
    ->ArgNames({"level", "moves", "draining"})
    ->ArgsProduct({{1, 2}, {0, 1}, {0, 1}})
    ->Iterations(kLaunches)
    ->UseManualTime();

}  // namespace
}  // namespace firn
