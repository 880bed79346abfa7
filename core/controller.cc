// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/controller.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "firn/core/fragmentation_stats.h"
#include "firn/core/steady_time.h"

namespace firn {
namespace {

std::string WhyNothingMoves(const Pool& pool) {
  const PoolStats stats = pool.GetStats();
  return stats.moving ? "" : stats.moving_reason;
}

}  // namespace

absl::Status ControllerOptions::Validate() const {
  const absl::Status valid = policy.Validate();
  if (!valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("policy.", valid.message()));
  }
  CompactOptions pass;
  pass.level = level;
  pass.max_wait = max_wait;
  pass.max_pause = max_pause;
  return pass.Validate();
}

Controller::Controller(Pool* pool, ControllerOptions options)
    : pool_(pool),
      options_(std::move(options)),
      line_prefix_(absl::StrCat("firn[",
                                absl::Utf8SafeCEscape(options_.pool_name),
                                "] controller: ")),
      unmovable_reason_(WhyNothingMoves(*pool)),
      policy_(options_.policy) {}

absl::StatusOr<std::unique_ptr<Controller>> Controller::Create(
    Pool* pool, ControllerOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  if (pool == nullptr) return absl::InvalidArgumentError("pool: null");
  if (!options.now) options.now = SteadyNow;
  return std::unique_ptr<Controller>(new Controller(pool, std::move(options)));
}

absl::StatusOr<std::unique_ptr<Controller>> Controller::Start(
    Pool* pool, ControllerOptions options) {
  if (options.level == CompactionLevel::kCallerPromises) {
    return absl::InvalidArgumentError(
        "level: kCallerPromises; nobody promises anything for a controller's "
        "thread: kLaunchScopes or kDeclaredIdle");
  }
  if (options.now) {
    return absl::InvalidArgumentError(
        "now: set; a controller's thread waits by the system's clock");
  }
  absl::StatusOr<std::unique_ptr<Controller>> controller =
      Create(pool, std::move(options));
  if (!controller.ok()) return controller.status();
  try {
    // The thread is joined before the controller goes, so a plain pointer will
    // do.
    (*controller)->thread_ = std::thread(&Controller::Run, controller->get());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", error.what()));
  }
  return controller;
}

Controller::~Controller() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    is_ending_ = true;
    changed_.Signal();
  }
  thread_.join();
}

bool Controller::WaitUntil(absl::Time time) {
  MutexLock lock(&mutex_);
  while (!is_ending_ && !is_woken_) {
    const absl::Duration left = time - SteadyNow();
    if (left <= absl::ZeroDuration()) break;
    changed_.WaitWithTimeout(&mutex_, left);
  }
  is_woken_ = false;
  return !is_ending_;
}

void Controller::Run() {
  do {
  } while (WaitUntil(Step()));
}

void Controller::Wake() {
  MutexLock lock(&mutex_);
  is_woken_ = true;
  changed_.Signal();
}

void Controller::Log(absl::string_view text) const {
  if (options_.log && !text.empty()) {
    options_.log(absl::StrCat(line_prefix_, text));
  }
}

HeapFigures Controller::Figures() const {
  const PoolUsage usage = pool_->GetUsage();
  HeapFigures heap;
  heap.granule_bytes = usage.granule_bytes;
  heap.live_bytes =
      usage.live_bytes - std::min(usage.live_bytes, usage.spilled_bytes);
  heap.used_bytes = usage.used_bytes;
  heap.limit_bytes = usage.limit_bytes;
  heap.failed_allocations = usage.failed_allocations;
  return heap;
}

absl::Time Controller::Step() {
  MutexLock lock(&step_mutex_);
  ++stats_.looks;
  if (!unmovable_reason_.empty()) {
    if (stats_.looks == 1) {
      Log(absl::StrCat("asleep, as nothing moves: ", unmovable_reason_));
    }
    return absl::InfiniteFuture();
  }
  const HeapFigures heap = Figures();
  const PassDecision decision =
      policy_.Decide(options_.now(), heap, [this, &heap] {
        const FragmentationStats stats = pool_->GetFragmentation();
        FragmentFigures fragments;
        fragments.recoverable_bytes =
            stats.potential_granules * heap.granule_bytes;
        fragments.free_pieces = stats.free_pieces;
        return fragments;
      });
  Log(decision.reason);
  if (decision.trigger != PassTrigger::kNone) {
    MakePass(decision).IgnoreError();  // logged, and counted
  }
  return decision.next_look;
}

absl::StatusOr<CompactionReport> Controller::CompactNow() {
  MutexLock lock(&step_mutex_);
  const PassDecision decision = policy_.DecideByHand(options_.now());
  Log(decision.reason);
  return MakePass(decision);
}

absl::StatusOr<CompactionReport> Controller::MakePass(
    const PassDecision& decision) {
  CompactOptions pass;
  pass.level = options_.level;
  pass.max_wait = options_.max_wait;
  pass.max_pause = options_.max_pause;
  pass.max_duration = decision.max_duration;
  pass.wanted_granules = decision.wanted_granules;
  const absl::Time begin = options_.now();
  const absl::StatusOr<CompactionReport> report = pool_->Compact(pass);
  const absl::Time end = options_.now();
  const uint64_t recovered = report.ok() ? report->granules_recovered : 0;
  const HeapFigures after = Figures();
  if (report.ok()) {
    policy_.NoteResult(end, decision, end - begin, recovered, after);
  } else {
    policy_.NoteFailure(end, decision);
  }

  ++stats_.passes[static_cast<size_t>(decision.trigger)];
  if (!report.ok()) ++stats_.failed_passes;
  if (report.ok() && recovered == 0) ++stats_.fruitless_passes;
  stats_.granules_recovered += recovered;
  stats_.pass_time += end - begin;
  const std::string took = absl::FormatDuration(end - begin);
  if (report.ok()) {
    Log(absl::StrCat(
        "the pass recovered ", recovered, " granules in ", took, ", copied ",
        report->bytes_copied, " bytes; ", report->rejected_sources,
        " granules fitted nowhere, ", report->pinned_granules, " pinned, ",
        report->vetoed_sources, " vetoed, ", report->busy_granules, " busy"));
  } else {
    Log(absl::StrCat("the pass failed after ", took, ": ",
                     report.status().message()));
  }
  if (options_.trims && recovered > 0) {
    const absl::StatusOr<uint64_t> released = pool_->Trim(after.used_bytes);
    Log(released.ok() ? absl::StrCat("gave back ", *released, " bytes")
                      : absl::StrCat("could not give back: ",
                                     released.status().message()));
  }
  return report;
}

ControllerStats Controller::stats() const {
  MutexLock lock(&step_mutex_);
  ControllerStats stats = stats_;
  stats.back_off_shift = policy_.back_off_shift();
  return stats;
}

}  // namespace firn
