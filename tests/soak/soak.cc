// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/soak/soak.h"

#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "firn/core/controller.h"
#include "firn/core/domain.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pin.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/mutex.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/sanitizers.h"

namespace firn::testing {
namespace {

// What all threads share.
struct Stage {
  std::shared_ptr<CpuDriver> driver;
  std::unique_ptr<Pool> pool;
  std::vector<StreamHandle> streams;
  std::vector<Domain> domains;
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> checks{0};
  std::atomic<uint64_t> content_errors{0};
  std::atomic<uint64_t> failed_allocations{0};
  std::atomic<uint64_t> captures{0};

  Mutex mutex;
  uint64_t refused_calls ABSL_GUARDED_BY(mutex) = 0;
  std::string first_refusal ABSL_GUARDED_BY(mutex);

  // Whether it is; counts it otherwise.
  bool IsOk(const absl::Status& status, const char* what) {
    if (status.ok()) return true;
    MutexLock lock(&mutex);
    if (refused_calls++ == 0) {
      first_refusal = absl::StrCat(what, ": ", status.ToString());
    }
    return false;
  }
  bool IsOk(DriverResult result, const char* what) {
    return IsOk(ToStatus(result, what), what);
  }
};

// One thread's blocks, all used on one stream.
class Worker {
 public:
  Worker(Stage* stage, const SoakOptions& options, int index)
      : stage_(stage),
        pool_(*stage->pool),
        stream_(
            stage->streams[static_cast<size_t>(index) % stage->streams.size()]),
        domain_(
            stage->domains[static_cast<size_t>(index) % stage->domains.size()]
                .id()),
        granule_bytes_(options.granule_bytes),
        most_live_bytes_(options.capacity_bytes / 2 /
                         static_cast<uint64_t>(options.threads)),
        random_(options.seed * 1'000 + static_cast<uint64_t>(index)),
        next_seed_(random_()) {}

  void Run() {
    if (!stage_->IsOk(
            stage_->driver->StreamCreate(&own_stream_, kStreamNonBlocking),
            "StreamCreate")) {
      return;
    }
    while (!stage_->is_over.load()) {
      Perform();
      stage_->operations.fetch_add(1, std::memory_order_relaxed);
    }
    while (!blocks_.empty()) Free(blocks_.size() - 1);
    DestroyGraph();
    stage_->IsOk(stage_->driver->StreamSynchronize(stream_),
                 "StreamSynchronize");
    stage_->IsOk(pool_.ReleaseStream(stream_), "ReleaseStream");
    stage_->IsOk(stage_->driver->StreamDestroy(own_stream_), "StreamDestroy");
  }

 private:
  struct Block {
    FilledBlock filled;
    bool is_idle = false;
    Pin pin;
    uint64_t pinned_generation = 0;
    bool is_pinned = false;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  void Perform() {
    if (blocks_.empty() || live_bytes_ < most_live_bytes_ / 2) {
      return Allocate();
    }
    const size_t i = Draw(blocks_.size());
    switch (Draw(12)) {
      case 0:
      case 1:
      case 2:
        return live_bytes_ < most_live_bytes_ ? Allocate() : Free(i);
      case 3:
      case 4:
        return Free(i);
      case 5:
      case 6:
        return Check(&blocks_[i]);
      case 7:
        return Rewrite(&blocks_[i]);
      case 8:
      case 9:
        return Rest(&blocks_[i]);
      case 10:
        return Draw(50) == 0 ? RestAll() : Hold(&blocks_[i]);
      default:
        return Draw(4) == 0 ? Capture(&blocks_[i]) : Check(&blocks_[i]);
    }
  }

  void Allocate() {
    AllocateOptions options;
    options.stream = stream_;
    options.domain = domain_;
    // From 512 bytes to 16 KiB, and now and then more than a granule.
    const uint64_t bytes = Draw(40) == 0
                               ? granule_bytes_ + Draw(2 * granule_bytes_)
                               : (uint64_t{512} << Draw(6)) + Draw(512);
    const absl::StatusOr<void*> ptr = pool_.Allocate(bytes, options);
    if (!ptr.ok()) {
      if (absl::IsResourceExhausted(ptr.status())) {
        stage_->failed_allocations.fetch_add(1);
        if (!blocks_.empty()) Free(Draw(blocks_.size()));
      } else {
        stage_->IsOk(ptr.status(), "Allocate");
      }
      return;
    }
    Block block;
    block.filled.ptr = *ptr;
    block.filled.bytes = bytes;
    block.filled.seed = next_seed_++;
    live_bytes_ += bytes;
    const LaunchScope scope(pool_, stream_);
    stage_->IsOk(FillOnStream(stage_->driver.get(), block.filled, stream_),
                 "LaunchKernel");
    blocks_.push_back(std::move(block));
  }

  // The work that uses it may still be in flight.
  void Free(size_t i) {
    Unpin(&blocks_[i]);
    live_bytes_ -= blocks_[i].filled.bytes;
    {
      const LaunchScope scope(pool_, stream_);
      if (!blocks_[i].is_idle) LaunchCheck(blocks_[i].filled, stream_);
    }
    stage_->IsOk(pool_.Free(blocks_[i].filled.ptr, stream_), "Free");
    std::swap(blocks_[i], blocks_.back());
    blocks_.pop_back();
  }

  // Inside a scope that names `stream`.
  void LaunchCheck(const FilledBlock& filled, StreamHandle stream) {
    KernelRange range;
    range.address = reinterpret_cast<uintptr_t>(filled.ptr);
    range.bytes = filled.bytes;
    Stage* const stage = stage_;
    stage_->IsOk(stage_->driver->LaunchKernel(
                     stream, {range},
                     [stage, filled] {
                       stage->checks.fetch_add(1, std::memory_order_relaxed);
                       if (!IsIntact(filled))
                         stage->content_errors.fetch_add(1);
                     }),
                 "LaunchKernel");
  }

  void Check(Block* block) {
    Activate(block);
    const LaunchScope scope(pool_, stream_);
    LaunchCheck(block->filled, stream_);
  }

  void Rewrite(Block* block) {
    const bool was_idle = block->is_idle;
    Activate(block);
    // A copy that was given up may still be reading, for nothing: the sanitizer
    // would call that a race.
    if (was_idle || kUnderThreadSanitizer) return Check(block);
    block->filled.seed = next_seed_++;
    const LaunchScope scope(pool_, stream_);
    stage_->IsOk(FillOnStream(stage_->driver.get(), block->filled, stream_),
                 "LaunchKernel");
  }

  void Rest(Block* block) {
    if (block->is_idle) return Check(block);
    if (stage_->IsOk(pool_.MarkIdle(block->filled.ptr, stream_), "MarkIdle")) {
      block->is_idle = true;
    }
  }

  // Everything rests for a while, as a model does that is asleep.
  void RestAll() {
    for (Block& block : blocks_) {
      if (!block.is_idle) Rest(&block);
    }
    absl::SleepFor(absl::Milliseconds(5));
    for (Block& block : blocks_) Check(&block);
  }

  void Activate(Block* block) {
    if (!block->is_idle) return;
    stage_->IsOk(pool_.MarkActive(block->filled.ptr), "MarkActive");
    block->is_idle = false;
  }

  // One block at a time.
  void Hold(Block* block) {
    for (Block& one : blocks_) Unpin(&one);
    absl::StatusOr<Pin> pin = pool_.PinBlock(block->filled.ptr, "soak");
    if (!stage_->IsOk(pin.status(), "PinBlock")) return;
    block->pin = std::move(*pin);
    block->is_pinned = true;
    const absl::StatusOr<uint64_t> generation =
        pool_.Generation(block->filled.ptr);
    if (stage_->IsOk(generation.status(), "Generation")) {
      block->pinned_generation = *generation;
    }
  }

  void Unpin(Block* block) {
    if (!block->is_pinned) return;
    const absl::StatusOr<uint64_t> generation =
        pool_.Generation(block->filled.ptr);
    if (stage_->IsOk(generation.status(), "Generation") &&
        *generation != block->pinned_generation) {
      stage_->IsOk(absl::InternalError("a pinned block has moved"), "Pin");
    }
    block->pin = Pin();
    block->is_pinned = false;
  }

  // A graph that checks the block, launched on the block's stream.
  void Capture(Block* block) {
    Activate(block);
    Driver* const driver = stage_->driver.get();
    DestroyGraph();
    const LaunchScope scope(pool_, own_stream_, stream_);
    if (!stage_->IsOk(
            driver->StreamBeginCapture(own_stream_, CaptureMode::kThreadLocal),
            "StreamBeginCapture")) {
      return;
    }
    LaunchCheck(block->filled, own_stream_);
    GraphHandle graph = nullptr;
    if (!stage_->IsOk(driver->StreamEndCapture(own_stream_, &graph),
                      "StreamEndCapture")) {
      return;
    }
    stage_->IsOk(driver->GraphInstantiate(&graph_, graph, 0),
                 "GraphInstantiate");
    stage_->IsOk(driver->GraphDestroy(graph), "GraphDestroy");
    stage_->IsOk(driver->GraphLaunch(graph_, stream_), "GraphLaunch");
    stage_->captures.fetch_add(1);
  }

  void DestroyGraph() {
    if (graph_ == nullptr) return;
    stage_->IsOk(stage_->driver->GraphExecDestroy(graph_), "GraphExecDestroy");
    graph_ = nullptr;
  }

  Stage* const stage_;
  Pool& pool_;
  const StreamHandle stream_;
  const DomainId domain_;
  const uint64_t granule_bytes_;
  const uint64_t most_live_bytes_;
  std::mt19937_64 random_;
  uint64_t next_seed_;
  StreamHandle own_stream_ = nullptr;
  GraphExecHandle graph_ = nullptr;
  std::vector<Block> blocks_;
  uint64_t live_bytes_ = 0;
};

absl::Status Prepare(const SoakOptions& options, Stage* stage) {
  CpuDriverOptions driver_options;
  driver_options.sync = options.sync;
  driver_options.device_bytes = 2 * options.capacity_bytes;
  driver_options.granularity_bytes = options.granule_bytes;
  absl::StatusOr<std::unique_ptr<CpuDriver>> driver =
      CpuDriver::Create(std::move(driver_options));
  if (!driver.ok()) return driver.status();
  stage->driver = std::move(*driver);
  PoolOptions pool_options;
  pool_options.driver = stage->driver;
  pool_options.capacity_bytes = options.capacity_bytes;
  absl::StatusOr<std::unique_ptr<Pool>> pool =
      Pool::Create(std::move(pool_options));
  if (!pool.ok()) return pool.status();
  stage->pool = std::move(*pool);
  for (int i = 0; i < options.streams; ++i) {
    StreamHandle stream = nullptr;
    const DriverResult result =
        stage->driver->StreamCreate(&stream, kStreamNonBlocking);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "StreamCreate");
    }
    stage->streams.push_back(stream);
  }
  for (int i = 0; i < options.domains; ++i) {
    DomainOptions domain_options;
    domain_options.name = absl::StrCat("tenant ", i);
    absl::StatusOr<Domain> domain =
        stage->pool->CreateDomain(std::move(domain_options));
    if (!domain.ok()) return domain.status();
    stage->domains.push_back(std::move(*domain));
  }
  return absl::OkStatus();
}

// One that never rests.
absl::StatusOr<std::unique_ptr<Controller>> StartController(
    Pool* pool, CompactionLevel level) {
  ControllerOptions options;
  options.level = level;
  options.policy.is_wanted_by_others = true;
  options.policy.tolerated_waste_bytes = 0;
  options.policy.tolerated_waste_percent = 0;
  options.policy.least_effort_percent = 50;
  options.policy.greatest_effort_percent = 50;
  options.policy.look_interval = absl::Milliseconds(1);
  options.policy.back_off = absl::Microseconds(100);
  return Controller::Start(pool, std::move(options));
}

}  // namespace

absl::StatusOr<SoakResult> RunSoak(const SoakOptions& options) {
  Stage stage;
  const absl::Status prepared = Prepare(options, &stage);
  if (!prepared.ok()) return prepared;
  const absl::Time begin = absl::Now();
  SoakResult result;
  {
    absl::StatusOr<std::unique_ptr<Controller>> gated =
        StartController(stage.pool.get(), CompactionLevel::kLaunchScopes);
    if (!gated.ok()) return gated.status();
    absl::StatusOr<std::unique_ptr<Controller>> beside =
        StartController(stage.pool.get(), CompactionLevel::kDeclaredIdle);
    if (!beside.ok()) return beside.status();
    std::vector<std::thread> threads;
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back(
          [&stage, &options, i] { Worker(&stage, options, i).Run(); });
    }
    absl::SleepFor(options.duration);
    stage.is_over.store(true);
    for (std::thread& thread : threads) thread.join();
  }
  result.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  if (stage.driver->CtxSynchronize() != DriverResult::kSuccess) {
    ++result.sticky_errors;
  }
  const PoolStats stats = stage.pool->GetStats();
  result.operations = stage.operations;
  result.checks = stage.checks;
  result.moves = stats.granules_moved;
  result.failed_allocations = stage.failed_allocations;
  result.captures = stage.captures;
  result.content_errors = stage.content_errors;
  {
    MutexLock lock(&stage.mutex);
    result.refused_calls = stage.refused_calls;
    result.first_refusal = stage.first_refusal;
  }
  if (stats.live_allocations != 0 || stats.live_bytes != 0) {
    return absl::InternalError(
        absl::StrCat(stats.live_allocations, " blocks of ", stats.live_bytes,
                     " bytes are live after all were freed"));
  }
  const absl::Status invariants = stage.pool->CheckInvariants();
  if (!invariants.ok()) return invariants;
  stage.domains.clear();
  stage.pool.reset();
  for (const StreamHandle stream : stage.streams) {
    if (stage.driver->StreamDestroy(stream) != DriverResult::kSuccess) {
      ++result.sticky_errors;
    }
  }
  return result;
}

std::string SoakLine(const SoakOptions& options, const SoakResult& result) {
  return absl::StrCat(
      "soak: mode=", options.sync == CpuSync::kLazy ? "lazy" : "draining",
      " seconds=", static_cast<uint64_t>(result.seconds),
      " moves=", result.moves, " content_errors=", result.content_errors,
      " sticky_errors=", result.sticky_errors);
}

}  // namespace firn::testing
