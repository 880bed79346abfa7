// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/stats_reporter.h"

#include <cstdio>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "firn/core/stats_fields.h"
#include "firn/core/steady_time.h"

namespace firn {
namespace {

void WriteToStderr(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// " (+3)"; a counter that has fallen would be a defect, and is shown as it is.
std::string Growth(uint64_t before, uint64_t now) {
  return now >= before ? absl::StrCat(" (+", now - before, ")")
                       : absl::StrCat(" (-", before - now, ")");
}

// A line for each number of the table.
void AppendStats(const PoolStats& before, const PoolStats& now,
                 absl::string_view prefix, std::string* text) {
  for (const StatsField<PoolStats>& field : PoolStatsFields()) {
    if (const auto* const flag =
            std::get_if<bool PoolStats::*>(&field.member)) {
      absl::StrAppend(text, prefix, field.name, ": ", now.**flag ? "yes" : "no",
                      "\n");
      continue;
    }
    const auto* const number =
        std::get_if<uint64_t PoolStats::*>(&field.member);
    if (number == nullptr) continue;
    absl::StrAppend(text, prefix, field.name, ": ", now.**number,
                    field.kind == StatKind::kCounter
                        ? Growth(before.**number, now.**number)
                        : "",
                    "\n");
  }
}

// A line for each rung that any allocation has come to.
void AppendLadder(const LadderStats& before, const LadderStats& now,
                  absl::string_view prefix, std::string* text) {
  for (size_t i = 0; i < now.size(); ++i) {
    const RungStats& rung = now[i];
    if (rung.tried == 0) continue;
    absl::StrAppend(text, prefix, "ladder ", rung.name, ": tried ", rung.tried,
                    Growth(before[i].tried, rung.tried), ", rescued ",
                    rung.rescued, Growth(before[i].rescued, rung.rescued),
                    ", recovered_bytes ", rung.recovered_bytes,
                    Growth(before[i].recovered_bytes, rung.recovered_bytes),
                    "\n");
  }
}

}  // namespace

absl::Status StatsReporterOptions::Validate() const {
  if (interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "interval: ", absl::FormatDuration(interval), "; must be more than 0"));
  }
  return absl::OkStatus();
}

StatsReporter::StatsReporter(const Pool* pool, StatsReporterOptions options)
    : pool_(pool),
      options_(std::move(options)),
      line_prefix_(absl::StrCat(
          "firn[", absl::Utf8SafeCEscape(options_.pool_name), "] ")),
      last_stats_(pool->GetStats()),
      last_ladder_(pool->GetLadderStats()),
      last_time_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<StatsReporter>> StatsReporter::Start(
    const Pool* pool, StatsReporterOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  if (pool == nullptr) return absl::InvalidArgumentError("pool: null");
  if (!options.sink) options.sink = WriteToStderr;
  std::unique_ptr<StatsReporter> reporter(
      new StatsReporter(pool, std::move(options)));
  try {
    // The thread is joined before the reporter goes, so a plain pointer will
    // do.
    reporter->thread_ = std::thread(&StatsReporter::Run, reporter.get());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", error.what()));
  }
  return reporter;
}

StatsReporter::~StatsReporter() {
  if (!thread_.joinable()) return;  // it was never started
  {
    MutexLock lock(&mutex_);
    is_ending_ = true;
    changed_.Signal();
  }
  thread_.join();
}

bool StatsReporter::WaitUntil(absl::Time time) {
  MutexLock lock(&mutex_);
  while (!is_ending_) {
    const absl::Duration left = time - SteadyNow();
    if (left <= absl::ZeroDuration()) return true;
    changed_.WaitWithTimeout(&mutex_, left);
  }
  return false;
}

void StatsReporter::Run() {
  absl::Time next = SteadyNow() + options_.interval;
  while (WaitUntil(next)) {
    ReportNow();
    next += options_.interval;
    const absl::Time now = SteadyNow();
    if (next <= now) next = now + options_.interval;
  }
}

void StatsReporter::ReportNow() {
  if (writer_.load() == std::this_thread::get_id()) return;
  MutexLock lock(&report_mutex_);
  const std::string text = MakeReport();
  writer_.store(std::this_thread::get_id());
  options_.sink(text);
  writer_.store(std::thread::id());
}

std::string StatsReporter::MakeReport() {
  PoolStats stats = pool_->GetStats();
  const absl::Time now = SteadyNow();
  ++reports_;
  const absl::Duration elapsed =
      absl::Trunc(now - last_time_, absl::Milliseconds(1));
  std::string text = absl::StrCat(
      line_prefix_, "report ", reports_, ", ", absl::FormatDuration(elapsed),
      reports_ == 1 ? " after the start\n" : " after the last one\n");
  AppendStats(last_stats_, stats, line_prefix_, &text);
  LadderStats ladder = pool_->GetLadderStats();
  AppendLadder(last_ladder_, ladder, line_prefix_, &text);
  if (options_.with_fragmentation) {
    const std::string lines = pool_->GetFragmentation().ToString();
    for (const absl::string_view line :
         absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&text, line_prefix_, "fragmentation ", line, "\n");
    }
  }
  last_stats_ = std::move(stats);
  last_ladder_ = std::move(ladder);
  last_time_ = now;
  return text;
}

}  // namespace firn
