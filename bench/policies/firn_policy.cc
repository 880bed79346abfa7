// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/firn_policy.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "bench/policies/block_contents.h"
#include "firn/core/placement/size_rounding.h"
#include "firn/core/pool_options.h"
#include "firn/core/pool_stats.h"
#include "firn/core/snapshot_export.h"

namespace firn::bench {
namespace {

// Of a snapshot: a file of some 10 MB.
constexpr uint32_t kHistoryEntries = uint32_t{1} << 16;

void* ToPointer(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

uint64_t ToAddress(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> FirnPolicy::Create(
    const PolicyOptions& options) {
  if (options.verify && options.storage != CpuStorage::kReal) {
    return absl::InvalidArgumentError("contents exist in real storage only");
  }
  if (options.idle_share.has_value() &&
      options.compaction != CompactionMode::kBackground) {
    return absl::InvalidArgumentError(
        "an idle share is moved in the background only");
  }
  CpuDriverOptions driver_options;
  driver_options.storage = options.storage;
  // Ghost devices have a granule more than the pool may hold, so that it is
  // the pool's own budget that is reached first.
  driver_options.device_bytes = options.capacity_bytes + options.granule_bytes;
  // The pool never relies on what was in memory before; what a block holds is
  // written by this policy.
  driver_options.poison = false;
  absl::StatusOr<std::unique_ptr<CpuDriver>> device =
      CpuDriver::Create(std::move(driver_options));
  if (!device.ok()) return device.status();
  auto driver = std::make_shared<CountingDriver>(
      device->get(), CostModel(options.cost), options.granule_bytes);

  PoolOptions pool_options;
  pool_options.driver = driver;
  pool_options.capacity_bytes = options.capacity_bytes;
  pool_options.granule_bytes = options.granule_bytes;
  pool_options.placement = options.placement;
  if (options.keeps_history) pool_options.history_entries = kHistoryEntries;
  // What is not declared idle counts as in use all the time.
  pool_options.move_on_failure =
      options.compaction != CompactionMode::kOff && !options.idle_share;
  absl::StatusOr<std::unique_ptr<Pool>> pool =
      Pool::Create(std::move(pool_options));
  if (!pool.ok()) return pool.status();
  std::unique_ptr<FirnPolicy> policy(new FirnPolicy(
      options, *std::move(device), std::move(driver), *std::move(pool)));
  if (options.compaction == CompactionMode::kController) {
    const absl::Status made = policy->MakeController();
    if (!made.ok()) return made;
  }
  return std::unique_ptr<Policy>(std::move(policy));
}

absl::Status FirnPolicy::MakeController() {
  ControllerOptions options;
  // Between two events nobody launches anything.
  options.level = CompactionLevel::kCallerPromises;
  options.now = [this] {
    return absl::UnixEpoch() +
           absl::Microseconds(clock_us_ + DriverAndCopyUs() - look_start_us_);
  };
  absl::StatusOr<std::unique_ptr<Controller>> controller =
      Controller::Create(pool_.get(), std::move(options));
  if (!controller.ok()) return controller.status();
  controller_ = *std::move(controller);
  return absl::OkStatus();
}

FirnPolicy::FirnPolicy(const PolicyOptions& options,
                       std::unique_ptr<CpuDriver> device,
                       std::shared_ptr<CountingDriver> driver,
                       std::unique_ptr<Pool> pool)
    : granule_bytes_(options.granule_bytes),
      compaction_(options.compaction),
      verify_(options.verify),
      keeps_history_(options.keeps_history),
      device_(std::move(device)),
      driver_(std::move(driver)),
      pool_(std::move(pool)),
      usage_(pool_->GetUsage()),
      trigger_(options.granule_bytes,
               options.tolerated_waste_percent.value_or(
                   BackgroundTrigger::kToleratedWastePercent)) {
  if (options.idle_share) idle_share_.emplace(*options.idle_share);
}

std::optional<std::string> FirnPolicy::Snapshot() {
  if (!keeps_history_) return std::nullopt;
  return SnapshotToPickle(pool_->TakeMemorySnapshot());
}

absl::StatusOr<uint64_t> FirnPolicy::Allocate(uint64_t bytes,
                                              uint32_t /*stream*/) {
  const double start_us =
      compaction_ == CompactionMode::kOff ? 0 : DriverAndCopyUs();
  absl::StatusOr<void*> block = pool_->Allocate(bytes);
  if (absl::Status noted = NoteUsage(start_us); !noted.ok()) return noted;
  if (!block.ok()) return block.status();
  if (idle_share_) idle_share_->Add(ToAddress(*block));
  if (verify_) {
    if (absl::Status filled = FillNewBlock(*block, bytes); !filled.ok()) {
      return filled;
    }
  }
  return ToAddress(*block);
}

absl::Status FirnPolicy::Free(uint64_t address, uint32_t /*stream*/) {
  if (verify_) {
    const auto filled = filled_.find(address);
    if (filled == filled_.end()) {
      return absl::InternalError(
          absl::StrFormat("a block at %#x was never filled", address));
    }
    CheckBlock(ToPointer(address), &filled->second);
    filled_.erase(filled);
  }
  absl::Status freed = pool_->Free(ToPointer(address));
  usage_ = pool_->GetUsage();
  if (freed.ok() && idle_share_) idle_share_->Remove(address);
  return freed;
}

absl::Status FirnPolicy::LookAt(int64_t time_us) {
  // What a pass has taken may reach beyond the next events.
  clock_us_ = std::max(clock_us_, static_cast<double>(time_us));
  look_start_us_ = DriverAndCopyUs();
  if (absl::UnixEpoch() + absl::Microseconds(clock_us_) < next_look_) {
    return absl::OkStatus();
  }
  const double start_us = look_start_us_;
  next_look_ = controller_->Step();
  clock_us_ += DriverAndCopyUs() - start_us;
  look_start_us_ = DriverAndCopyUs();
  return NoteUsage(start_us);
}

absl::Status FirnPolicy::Tick(int64_t time_us) {
  if (controller_ != nullptr) return LookAt(time_us);
  if (absl::Status declared = DeclareIdleShare(); !declared.ok()) {
    return declared;
  }
  if (compaction_ != CompactionMode::kBackground || !trigger_.Tick() ||
      !IsWasteful()) {
    return absl::OkStatus();
  }
  return RunPass().status();
}

absl::StatusOr<bool> FirnPolicy::TickIdle(int64_t time_us) {
  if (controller_ != nullptr) {
    const absl::Status looked = LookAt(time_us);
    if (!looked.ok()) return looked;
    return usage_.used_bytes >= usage_.live_bytes + 2 * granule_bytes_;
  }
  if (compaction_ != CompactionMode::kBackground || !IsWasteful()) {
    return false;
  }
  if (!trigger_.TickIdle()) return true;
  const absl::StatusOr<uint64_t> recovered = RunPass();
  if (!recovered.ok()) return recovered.status();
  return *recovered > 0;
}

bool FirnPolicy::IsWasteful() const {
  return trigger_.IsWasteful(usage_.used_bytes, usage_.live_bytes);
}

absl::StatusOr<uint64_t> FirnPolicy::RunPass() {
  const double start_us = DriverAndCopyUs();
  CompactOptions options;
  options.wanted_granules =
      trigger_.WantedGranules(usage_.used_bytes, usage_.live_bytes);
  if (idle_share_) options.level = CompactionLevel::kDeclaredIdle;
  absl::StatusOr<CompactionReport> report = pool_->Compact(options);
  if (!report.ok()) return report.status();
  trigger_.PassDone(report->granules_recovered);
  absl::Status noted = NoteUsage(start_us);
  if (!noted.ok()) return noted;
  return report->granules_recovered;
}

absl::StatusOr<CompactionReport> FirnPolicy::PlanFullPass() {
  CompactOptions options;
  options.dry_run = true;
  return pool_->Compact(options);
}

absl::StatusOr<std::optional<FullPassOutcome>> FirnPolicy::FullPass() {
  if (compaction_ == CompactionMode::kOff || idle_share_) return std::nullopt;
  const double start_us = DriverAndCopyUs();
  absl::Status done = pool_->Compact().status();
  if (done.ok()) done = NoteUsage(start_us);
  if (!done.ok()) return done;
  // Of what the pass left: its own report has the bound of what it found.
  const absl::StatusOr<CompactionReport> left = PlanFullPass();
  if (!left.ok()) return left.status();
  return FullPassOutcome{left->granules_before, left->lower_bound_granules};
}

absl::Status FirnPolicy::DeclareIdleShare() {
  if (!idle_share_) return absl::OkStatus();
  while (const std::optional<IdleShare::Change> change = idle_share_->Next()) {
    void* const block = ToPointer(change->address);
    absl::Status declared = change->is_idle
                                ? pool_->MarkIdle(block, /*stream=*/nullptr)
                                : pool_->MarkActive(block);
    if (!declared.ok()) return declared;
  }
  return absl::OkStatus();
}

double FirnPolicy::DriverAndCopyUs() const {
  return driver_->driver_us() + driver_->copy_us();
}

absl::Status FirnPolicy::NoteUsage(double start_us) {
  const PoolUsage before = std::exchange(usage_, pool_->GetUsage());
  if (usage_.granules_moved == before.granules_moved) return absl::OkStatus();
  pause_us_.push_back(DriverAndCopyUs() - start_us);
  return verify_ ? CheckMovedBlocks() : absl::OkStatus();
}

absl::Status FirnPolicy::FillNewBlock(void* block, uint64_t bytes) {
  absl::StatusOr<uint64_t> generation = pool_->Generation(block);
  if (!generation.ok()) return generation.status();
  const uint64_t seed = next_seed_++;
  FillBlock(block, bytes, seed);
  filled_[ToAddress(block)] = {bytes, seed, *generation, false};
  return absl::OkStatus();
}

void FirnPolicy::CheckBlock(const void* block, FilledBlock* filled) {
  if (filled->found_damaged ||
      BlockIsIntact(block, filled->bytes, filled->seed)) {
    return;
  }
  filled->found_damaged = true;
  ++content_errors_;
}

absl::Status FirnPolicy::CheckMovedBlocks() {
  for (auto& [address, filled] : filled_) {
    absl::StatusOr<uint64_t> generation = pool_->Generation(ToPointer(address));
    if (!generation.ok()) return generation.status();
    if (*generation == filled.generation) continue;
    filled.generation = *generation;
    CheckBlock(ToPointer(address), &filled);
  }
  return absl::OkStatus();
}

PolicyUsage FirnPolicy::usage() const {
  return {usage_.used_bytes, usage_.held_bytes, usage_.mapped_vgs};
}

PolicyReport FirnPolicy::Report() {
  const PoolStats stats = pool_->GetStats();
  const DriverCalls calls = driver_->calls();
  PolicyReport report;
  report.driver_calls = {calls.create, calls.map, calls.unmap, calls.set_access,
                         calls.release};
  report.driver_us_modelled = driver_->driver_us();
  report.driver_us_create = driver_->create_us();
  report.bytes_copied = stats.bytes_copied;
  report.bytes_recovered = stats.granules_recovered * granule_bytes_;
  report.granules_moved = stats.granules_moved;
  report.pause_us = pause_us_;
  report.content_errors = content_errors_;

  // With every block at its address; without the planner's word, the bytes
  // alone.
  const absl::StatusOr<CompactionReport> plan = PlanFullPass();
  report.lower_bound_bytes =
      granule_bytes_ * (plan.ok() ? plan->lower_bound_granules
                                  : DivideUp(stats.live_bytes, granule_bytes_));
  return report;
}

}  // namespace firn::bench
