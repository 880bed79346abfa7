// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_engine.h"

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/policies/background_trigger.h"
#include "bench/replay/full_passes.h"
#include "bench/replay/latency_sampler.h"

namespace firn::bench {
namespace {

// Events between two calls of on_progress.
constexpr uint64_t kProgressIntervalEvents = uint64_t{1} << 14;

class Replayer {
 public:
  Replayer(const TraceSummary& summary, Policy* policy,
           const ReplayOptions& options, double clock_cost_ns)
      : summary_(summary),
        policy_(policy),
        recorder_(summary.peak_live_bytes, options.granule_bytes,
                  summary.first_time_us == summary.last_time_us),
        series_(options.series),
        at_peak_(options.at_peak),
        full_passes_(options.full_passes, summary.events),
        alloc_times_(clock_cost_ns),
        free_times_(clock_cost_ns) {}

  // Lets the time before an event pass: background work may go on.
  absl::Status PassTime(int64_t until_us);
  absl::Status Apply(const TraceEvent& event);
  uint64_t events() const { return figures_.events; }
  uint64_t failed_allocs() const { return figures_.failed_allocs; }
  ReplayFigures Finish();

 private:
  // The address of a block that is not there: never allocated, or in vain.
  static constexpr uint64_t kNoAddress = ~uint64_t{0};

  absl::Status Allocate(const TraceEvent& event);
  absl::Status Free(const TraceEvent& event);
  absl::Status MakeFullPasses();
  void RecordUsage();
  absl::Status Failure(const TraceEvent& event,
                       const absl::Status& status) const;

  const TraceSummary& summary_;
  Policy* const policy_;
  UsageRecorder recorder_;
  UsageSeries* const series_;
  const std::function<absl::Status()> at_peak_;
  FullPasses full_passes_;
  LatencySampler alloc_times_;
  LatencySampler free_times_;
  std::vector<uint64_t> addresses_;  // by the trace's id
  uint64_t live_bytes_ = 0;
  // As live_bytes_, had no allocation failed: tells when the peak is reached.
  uint64_t trace_live_bytes_ = 0;
  bool peak_seen_ = false;
  int64_t time_us_ = 0;  // of the last event, or of what was done since
  ReplayFigures figures_;
};

absl::Status Replayer::Failure(const TraceEvent& event,
                               const absl::Status& status) const {
  return absl::InternalError(absl::StrFormat(
      "event %d, at %.6f s, %s of %d bytes: %s", figures_.events,
      static_cast<double>(event.time_us) / 1e6,
      event.kind == TraceEventKind::kAllocate ? "an allocation" : "a free",
      event.bytes, std::string(status.message())));
}

absl::Status Replayer::Allocate(const TraceEvent& event) {
  if (event.id >= addresses_.size()) {
    addresses_.resize(event.id + 1, kNoAddress);
  }
  ++figures_.allocs;
  trace_live_bytes_ += event.bytes;
  absl::StatusOr<uint64_t> address = alloc_times_.Time(
      [&] { return policy_->Allocate(event.bytes, event.stream); });
  if (address.ok()) {
    addresses_[event.id] = *address;
    live_bytes_ += event.bytes;
    figures_.bytes_allocated += event.bytes;
    return absl::OkStatus();
  }
  if (!absl::IsResourceExhausted(address.status())) {
    return Failure(event, address.status());
  }
  ++figures_.failed_allocs;
  return absl::OkStatus();
}

absl::Status Replayer::Free(const TraceEvent& event) {
  trace_live_bytes_ -= event.bytes;
  if (event.id >= addresses_.size() || addresses_[event.id] == kNoAddress) {
    return absl::OkStatus();  // its allocation failed
  }
  const uint64_t address = addresses_[event.id];
  addresses_[event.id] = kNoAddress;
  const absl::Status status =
      free_times_.Time([&] { return policy_->Free(address, event.stream); });
  if (!status.ok()) return Failure(event, status);
  ++figures_.frees;
  live_bytes_ -= event.bytes;
  return absl::OkStatus();
}

absl::Status Replayer::MakeFullPasses() {
  while (full_passes_.IsDue(figures_.events)) {
    const absl::StatusOr<std::optional<FullPassOutcome>> pass =
        policy_->FullPass();
    if (!pass.ok()) return pass.status();
    if (!pass->has_value()) return absl::OkStatus();
    full_passes_.Done(**pass);
  }
  return absl::OkStatus();
}

void Replayer::RecordUsage() {
  const PolicyUsage usage = policy_->usage();
  const MemoryState state = {live_bytes_, usage.used_bytes, usage.held_bytes,
                             usage.mapped_vgs};
  recorder_.Record(time_us_, state);
  if (series_ != nullptr) series_->Record(time_us_, state);
}

absl::Status Replayer::PassTime(int64_t until_us) {
  constexpr int64_t kIntervalUs = BackgroundTrigger::kIdleIntervalUs;
  if (figures_.events == 0) return absl::OkStatus();
  while (until_us - time_us_ > kIntervalUs) {
    const absl::StatusOr<bool> may_gain_more =
        policy_->TickIdle(time_us_ + kIntervalUs - summary_.first_time_us);
    if (!may_gain_more.ok()) {
      return absl::InternalError(
          absl::StrCat("after event ", figures_.events, ": ",
                       std::string(may_gain_more.status().message())));
    }
    time_us_ += kIntervalUs;
    RecordUsage();
    if (!*may_gain_more) break;
  }
  return absl::OkStatus();
}

absl::Status Replayer::Apply(const TraceEvent& event) {
  if (event.kind == TraceEventKind::kProbe) {
    recorder_.Probe();
    return absl::OkStatus();
  }
  if (event.kind == TraceEventKind::kUnknownFree) {
    ++figures_.unknown_frees;
    return absl::OkStatus();
  }
  ++figures_.events;
  absl::Status status =
      event.kind == TraceEventKind::kAllocate ? Allocate(event) : Free(event);
  if (!status.ok()) return status;
  status = policy_->Tick(event.time_us - summary_.first_time_us);
  if (status.ok()) status = MakeFullPasses();
  if (!status.ok()) return Failure(event, status);
  time_us_ = event.time_us;
  RecordUsage();
  if (!peak_seen_ && trace_live_bytes_ == summary_.peak_live_bytes) {
    peak_seen_ = true;
    figures_.lower_bound_bytes_at_peak = policy_->Report().lower_bound_bytes;
    if (at_peak_) return at_peak_();
  }
  return absl::OkStatus();
}

ReplayFigures Replayer::Finish() {
  figures_.full_passes = full_passes_.figures();
  figures_.usage = recorder_.Finish();
  figures_.policy = policy_->Report();
  figures_.alloc_ns_p50 = alloc_times_.Quantile(0.5);
  figures_.alloc_ns_p99 = alloc_times_.Quantile(0.99);
  figures_.free_ns_p50 = free_times_.Quantile(0.5);
  figures_.free_ns_p99 = free_times_.Quantile(0.99);
  return figures_;
}

}  // namespace

absl::StatusOr<ReplayFigures> Replay(TraceSource* trace,
                                     const TraceSummary& summary,
                                     Policy* policy,
                                     const ReplayOptions& options) {
  if (absl::Status status = trace->Rewind(); !status.ok()) return status;
  Replayer replayer(summary, policy, options, MeasureClockCostNs());
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> has_event = trace->Next(&event);
    if (!has_event.ok()) return has_event.status();
    if (!*has_event) break;
    absl::Status status = replayer.PassTime(event.time_us);
    if (status.ok()) status = replayer.Apply(event);
    if (!status.ok()) {
      return status;
    }
    if (options.stop_at_failure && replayer.failed_allocs() > 0) break;
    if (options.on_progress &&
        replayer.events() % kProgressIntervalEvents == 0) {
      options.on_progress(replayer.events());
    }
  }
  return replayer.Finish();
}

}  // namespace firn::bench
