// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_command.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/policies/background_trigger.h"
#include "bench/policies/make_policy.h"
#include "bench/replay/capacity.h"
#include "bench/replay/min_capacity.h"
#include "bench/replay/progress_line.h"
#include "bench/replay/replay_engine.h"
#include "bench/replay/replay_flags.h"
#include "bench/replay/replay_report.h"
#include "bench/replay/rmm_export.h"
#include "bench/replay/trace_summary.h"
#include "bench/replay/usage_series.h"
#include "bench/traces/byte_count.h"
#include "bench/traces/trace.h"

namespace firn::bench {
namespace {

int ExitStatusOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status)
             ? kExitBadInput
             : kExitFailure;
}

// `message` with its control characters escaped: it may hold a path, and paths
// may hold anything.
std::string OnOneLine(absl::string_view message) {
  std::string line;
  for (const char c : message) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&line, absl::CHexEscape(absl::string_view(&c, 1)));
    } else {
      line.push_back(c);
    }
  }
  return line;
}

double MultipleOfPeak(uint64_t capacity_bytes, const TraceSummary& summary) {
  return summary.peak_live_bytes == 0
             ? 0
             : static_cast<double>(capacity_bytes) /
                   static_cast<double>(summary.peak_live_bytes);
}

absl::Status WriteSnapshot(Policy* policy, const std::string& path) {
  const std::optional<std::string> snapshot = policy->Snapshot();
  if (!snapshot.has_value()) {
    return absl::InternalError(absl::StrCat(
        "--export_snapshot: policy ", policy->name(), " has kept no history"));
  }
  std::ofstream file(path, std::ios::binary);
  file << *snapshot << std::flush;
  if (file) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("--export_snapshot: '", path, "': cannot be written"));
}

// One trace, and the replays that one command line asks for.
class Command {
 public:
  Command(const ReplayFlags& flags, TraceSource* trace, TraceSummary summary,
          ProgressLine* progress)
      : flags_(flags), trace_(trace), summary_(summary), progress_(progress) {}

  absl::StatusOr<ReplayResult> Run();

 private:
  absl::StatusOr<ReplayFigures> ReplayIn(uint64_t capacity_bytes,
                                         bool stop_at_failure);
  absl::StatusOr<ReplayResult> RunInMinCapacity();
  uint64_t GivenCapacityBytes() const;

  const ReplayFlags& flags_;
  TraceSource* const trace_;
  const TraceSummary summary_;
  ProgressLine* const progress_;
};

absl::StatusOr<ReplayFigures> Command::ReplayIn(uint64_t capacity_bytes,
                                                bool stop_at_failure) {
  PolicyOptions options = flags_.policy;
  options.capacity_bytes = capacity_bytes;
  absl::StatusOr<std::unique_ptr<Policy>> policy = MakePolicy(options);
  if (!policy.ok()) return policy.status();
  progress_->SetTask(absl::StrFormat("replaying on %s in %.3f x the peak",
                                     (*policy)->name(),
                                     MultipleOfPeak(capacity_bytes, summary_)));
  ReplayOptions replay_options;
  replay_options.granule_bytes = options.granule_bytes;
  replay_options.stop_at_failure = stop_at_failure;
  replay_options.full_passes = flags_.full_passes;
  replay_options.on_progress = [this](uint64_t events) {
    progress_->Update(events, summary_.events);
  };
  if (!flags_.export_snapshot.empty()) {
    replay_options.at_peak = [this, &policy] {
      return WriteSnapshot(policy->get(), flags_.export_snapshot);
    };
  }
  if (flags_.usage_series.empty()) {
    return Replay(trace_, summary_, policy->get(), replay_options);
  }
  UsageSeries series(summary_.first_time_us, summary_.last_time_us);
  replay_options.series = &series;
  absl::StatusOr<ReplayFigures> figures =
      Replay(trace_, summary_, policy->get(), replay_options);
  if (!figures.ok()) return figures;
  const absl::Status written = WriteUsageSeries(series, flags_.usage_series);
  if (!written.ok()) return written;
  return figures;
}

uint64_t Command::GivenCapacityBytes() const {
  const uint64_t granule_bytes = flags_.policy.granule_bytes;
  if (flags_.capacity.kind == Capacity::Kind::kPeakMultiple) {
    return CapacityOfPeakMultiple(flags_.capacity.peak_millionths,
                                  summary_.peak_live_bytes, granule_bytes);
  }
  return flags_.capacity.bytes / granule_bytes * granule_bytes;
}

absl::StatusOr<ReplayResult> Command::RunInMinCapacity() {
  ReplayResult result;
  absl::StatusOr<uint64_t> capacity_bytes =
      FindMinCapacity(summary_.peak_live_bytes, flags_.policy.granule_bytes,
                      [&](uint64_t candidate_bytes) -> absl::StatusOr<bool> {
                        absl::StatusOr<ReplayFigures> figures =
                            ReplayIn(candidate_bytes, /*stop_at_failure=*/true);
                        if (!figures.ok()) return figures.status();
                        if (figures->failed_allocs > 0) return false;
                        // The last replay that fits is the one in the least
                        // capacity.
                        result.figures = *std::move(figures);
                        return true;
                      });
  if (!capacity_bytes.ok()) return capacity_bytes.status();
  result.capacity_bytes = *capacity_bytes;
  result.min_capacity_over_peak = MultipleOfPeak(*capacity_bytes, summary_);
  return result;
}

absl::StatusOr<ReplayResult> Command::Run() {
  if (flags_.capacity.kind == Capacity::Kind::kMinimum) {
    return RunInMinCapacity();
  }
  ReplayResult result;
  result.capacity_bytes = GivenCapacityBytes();
  absl::StatusOr<ReplayFigures> figures =
      ReplayIn(result.capacity_bytes, /*stop_at_failure=*/false);
  if (!figures.ok()) return figures.status();
  result.figures = *std::move(figures);
  return result;
}

absl::StatusOr<ReplayResult> RunFlags(const ReplayFlags& flags,
                                      ProgressLine* progress) {
  absl::StatusOr<std::unique_ptr<TraceSource>> trace = OpenTrace(flags.trace);
  if (!trace.ok()) return trace.status();
  if (!flags.export_rmm.empty()) {
    absl::Status target = CheckExportTarget(flags.trace, flags.export_rmm);
    if (!target.ok()) return target;
  }
  absl::StatusOr<TraceSummary> summary = SummarizeTrace(trace->get());
  if (!summary.ok()) return summary.status();
  if (summary->peak_live_bytes > kLargestCapacityBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.trace, ": its blocks need more than ",
                     FormatByteCount(kLargestCapacityBytes), " at a time"));
  }
  if (!flags.export_rmm.empty()) {
    absl::Status exported = ExportRmmLog(trace->get(), flags.export_rmm);
    if (!exported.ok()) return exported;
  }
  Command command(flags, trace->get(), *summary, progress);
  absl::StatusOr<ReplayResult> result = command.Run();
  if (!result.ok()) return result.status();
  result->trace = flags.trace;
  result->policy = flags.policy.policy;
  if (CompactsInBackground(flags.policy)) {
    result->tolerated_waste_percent =
        flags.policy.tolerated_waste_percent.value_or(
            BackgroundTrigger::kToleratedWastePercent);
  }
  return result;
}

}  // namespace

int RunReplayCommand(absl::Span<const absl::string_view> args,
                     std::ostream& out, std::ostream& err, bool show_progress) {
  const auto start = std::chrono::steady_clock::now();
  const auto fail = [&err](const absl::Status& status) {
    err << "firn_replay: " << OnOneLine(status.message()) << "\n";
    return ExitStatusOf(status);
  };
  absl::StatusOr<ReplayFlags> flags = ParseReplayFlags(args);
  if (!flags.ok()) return fail(flags.status());
  if (flags->help) {
    out << ReplayHelp();
    return kExitOk;
  }
  ProgressLine progress(&err, show_progress);
  absl::StatusOr<ReplayResult> result = RunFlags(*flags, &progress);
  progress.Clear();
  if (!result.ok()) return fail(result.status());
  result->wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  out << (flags->json ? ToJson(*result) : ToText(*result)) << std::flush;
  const uint64_t content_errors = result->figures.policy.content_errors;
  if (content_errors > 0) {
    err << "firn_replay: " << content_errors
        << " blocks did not hold what was written to them\n";
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace firn::bench
