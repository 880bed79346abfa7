// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool reports about itself, written to a log at a rhythm.
//
//   firn::StatsReporterOptions options;
//   options.pool_name = "training";
//   options.sink = [](absl::string_view text) { LOG(INFO) << text; };
//   absl::StatusOr<std::unique_ptr<firn::StatsReporter>> reporter =
//       firn::StatsReporter::Start(pool.get(), std::move(options));

#ifndef FIRN_CORE_STATS_REPORTER_H_
#define FIRN_CORE_STATS_REPORTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "firn/core/pool.h"
#include "firn/core/pool_stats.h"
#include "firn/vmm/mutex.h"

namespace firn {

struct StatsReporterOptions {
  // From one report to the next; more than 0. InfiniteDuration: only those that
  // are asked for.
  absl::Duration interval = absl::Minutes(1);
  // Stands in every line, as "firn[NAME] "; escaped where it is no plain text.
  std::string pool_name;
  // Whether GetFragmentation is in it, which is a walk over all granules.
  bool with_fragmentation = true;
  // Gets each report: a text of several lines, each with its newline. Called by
  // one thread at a time, with no lock of the pool held: it may allocate and
  // free, but neither destroy the reporter nor wait for somebody who is in
  // ReportNow. While it takes its time the next reports wait, and the pool does
  // not. Empty: the report goes to stderr.
  std::function<void(absl::string_view)> sink;

  // InvalidArgument names the field.
  absl::Status Validate() const;
};

// Owns a thread that makes a report every interval: a line for each number of
// PoolStats, counters with how much they have grown since the last report (or
// the start), a line for each rung that an allocation has come to, and a line
// for each of FragmentationStats (docs/statistics.md). A
// report that came late, because a sink was slow, moves the next ones: none is
// made up for.
//
// Each report calls GetStats and GetFragmentation, and empties the caches of
// threads as they do. They make no driver call, and so disturb no capture.
//
// Thread safety: ReportNow may be called from any thread.
class StatsReporter {
 public:
  // Owns neither `pool`, which must outlive it, nor what the sink refers to.
  // InvalidArgument: an option, by its name, or no pool; ResourceExhausted: the
  // system starts no more threads.
  static absl::StatusOr<std::unique_ptr<StatsReporter>> Start(
      const Pool* pool, StatsReporterOptions options);
  // Once this has returned no report is made. Waits for one that is under way,
  // the sink included, and not for the interval.
  ~StatsReporter();
  StatsReporter(const StatsReporter&) = delete;
  StatsReporter& operator=(const StatsReporter&) = delete;

  // One more report, written by the calling thread; the rhythm stays. Waits for
  // a report that is under way: so not to be called inside a LaunchScope or a
  // move hook, which an allocation in the sink may be waiting for. Called by
  // the sink it does nothing.
  void ReportNow();

 private:
  StatsReporter(const Pool* pool, StatsReporterOptions options);

  void Run();
  // Whether that time has come; false, and sooner, if the thread is to end.
  bool WaitUntil(absl::Time time) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string MakeReport() ABSL_EXCLUSIVE_LOCKS_REQUIRED(report_mutex_);

  const Pool* const pool_;
  const StatsReporterOptions options_;
  const std::string line_prefix_;

  // Held while a report is made and written; before the pool's locks.
  Mutex report_mutex_;
  PoolStats last_stats_ ABSL_GUARDED_BY(report_mutex_);
  LadderStats last_ladder_ ABSL_GUARDED_BY(report_mutex_);
  absl::Time last_time_ ABSL_GUARDED_BY(report_mutex_);
  uint64_t reports_ ABSL_GUARDED_BY(report_mutex_) = 0;
  // The thread that is in the sink; none: the id of no thread.
  std::atomic<std::thread::id> writer_{std::thread::id()};

  // Held for moments only.
  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace firn

#endif  // FIRN_CORE_STATS_REPORTER_H_
