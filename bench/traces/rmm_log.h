// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The CSV log of the RAPIDS Memory Manager's logging adaptor, read as a stream.
//
// Columns, found by name: Thread,Time,Action,Pointer,Size,Stream. Actions:
// allocate, free, and "allocate failure", which is passed over; but a failure
// of 0 bytes, which no allocator reports, is how an exported trace marks a
// state to be probed. An allocation of 0 bytes holds no memory: it and its free
// are passed over. A free of some bytes at the null pointer, legal everywhere,
// is an unknown free. Memory that is live at the end is no error. A free of any
// other unknown pointer, or an allocation at a live one, is FailedPrecondition:
// the log cannot be replayed.
//
// Time starts at 0 with the first row. Threads log out of order, so time that
// falls a little stands still instead; a fall of more than 12 hours is a new
// day, and for a row of the last minute before it that comes after it time
// stands still, too. Hours may rise beyond 24. Streams and threads are numbered
// in the order in which events name them, with 0 for the default stream. The
// log of one device is expected.

#ifndef FIRN_BENCH_TRACES_RMM_LOG_H_
#define FIRN_BENCH_TRACES_RMM_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/csv_reader.h"
#include "bench/traces/live_blocks.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

// Thread safety: none. Memory grows with the live blocks, and with the number
// of different streams and threads.
class RmmLog : public TraceSource {
 public:
  // Whether a file whose first line has these fields is meant to be one: at
  // least half of the columns are there.
  static bool Recognise(const std::vector<absl::string_view>& header);

  static absl::StatusOr<std::unique_ptr<TraceSource>> Open(
      const TraceSpec& spec);

  absl::string_view name() const override { return name_; }
  absl::StatusOr<bool> Next(TraceEvent* event) override;
  absl::Status Rewind() override;

 private:
  RmmLog(absl::string_view name, CsvReader rows);

  // Handles the current row; true if `event` is filled.
  absl::StatusOr<bool> ReadRow(TraceEvent* event);
  absl::StatusOr<bool> ReadAllocate(uint64_t pointer, TraceEvent* event);
  absl::StatusOr<bool> ReadFree(uint64_t pointer, TraceEvent* event);
  absl::Status AdvanceClock();
  absl::Status CannotReplay(absl::string_view reason) const;

  std::string name_;
  CsvReader rows_;
  LiveBlocks live_;
  HandleNumbers streams_;
  HandleNumbers threads_;
  bool started_ = false;
  int64_t start_us_ = 0;  // time of day of the first row
  int64_t clock_us_ = 0;  // latest time of day met on this day
  int64_t days_us_ = 0;   // days that have gone by
  int64_t time_us_ = 0;   // of the current event
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_RMM_LOG_H_
