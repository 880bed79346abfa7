// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/rmm_log.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

enum Column : size_t { kThread, kTime, kAction, kPointer, kSize, kStream };

// After midnight, a row of so shortly before it is late, not nearly a day on.
constexpr int64_t kLatestRowUs = 60 * kUsPerSecond;

std::vector<std::string> Columns() {
  return {"Thread", "Time", "Action", "Pointer", "Size", "Stream"};
}

}  // namespace

bool RmmLog::Recognise(const std::vector<absl::string_view>& header) {
  size_t found = 0;
  for (const std::string& column : Columns()) {
    if (std::find(header.begin(), header.end(), column) != header.end()) {
      ++found;
    }
  }
  return found >= Columns().size() / 2;
}

absl::StatusOr<std::unique_ptr<TraceSource>> RmmLog::Open(
    const TraceSpec& spec) {
  absl::Status keys = TraceKeys(spec, "an RMM log").Finish();
  if (!keys.ok()) return keys;
  absl::StatusOr<CsvReader> rows = CsvReader::Open(spec.path, Columns());
  if (!rows.ok()) return rows.status();
  return std::unique_ptr<TraceSource>(new RmmLog(spec.text, *std::move(rows)));
}

RmmLog::RmmLog(absl::string_view name, CsvReader rows)
    : name_(name), rows_(std::move(rows)) {}

absl::StatusOr<bool> RmmLog::Next(TraceEvent* event) {
  while (true) {
    absl::StatusOr<bool> row = rows_.NextRow();
    if (!row.ok() || !*row) return row;
    absl::StatusOr<bool> filled = ReadRow(event);
    if (!filled.ok() || *filled) return filled;
  }
}

absl::StatusOr<bool> RmmLog::ReadRow(TraceEvent* event) {
  if (absl::Status status = AdvanceClock(); !status.ok()) return status;
  const absl::string_view action = rows_.field(kAction);
  const bool fails = action == "allocate failure";
  const bool allocates = action == "allocate";
  if (!allocates && !fails && action != "free") {
    return rows_.FieldError(kAction, absl::StrCat(Quoted(action),
                                                  " is none of allocate, "
                                                  "allocate failure and free"));
  }
  absl::StatusOr<uint64_t> thread = ParseWholeNumber(rows_.field(kThread));
  if (!thread.ok()) {
    return rows_.FieldError(kThread, thread.status().message());
  }
  absl::StatusOr<uint64_t> pointer = ParsePointer(rows_.field(kPointer));
  if (!pointer.ok()) {
    return rows_.FieldError(kPointer, pointer.status().message());
  }
  absl::StatusOr<uint64_t> bytes = ParseWholeNumber(rows_.field(kSize));
  if (!bytes.ok()) return rows_.FieldError(kSize, bytes.status().message());
  absl::StatusOr<uint64_t> stream = ParsePointer(rows_.field(kStream));
  if (!stream.ok()) {
    return rows_.FieldError(kStream, stream.status().message());
  }
  if (fails && *bytes > 0) return false;
  event->time_us = time_us_;
  event->bytes = *bytes;
  absl::StatusOr<bool> filled = true;
  if (fails) {
    event->kind = TraceEventKind::kProbe;
    event->id = 0;
  } else {
    filled =
        allocates ? ReadAllocate(*pointer, event) : ReadFree(*pointer, event);
  }
  if (!filled.ok() || !*filled) return filled;
  // A row that is passed over takes no number, as an exported trace lacks it.
  event->stream = streams_.NumberOf(*stream);
  event->thread = threads_.NumberOf(*thread);
  return true;
}

absl::StatusOr<bool> RmmLog::ReadAllocate(uint64_t pointer, TraceEvent* event) {
  if (event->bytes == 0) return false;
  if (pointer == 0) {
    return rows_.FieldError(kPointer, absl::StrCat("null for an allocation of ",
                                                   event->bytes, " bytes"));
  }
  if (live_.Contains(pointer)) {
    return CannotReplay(absl::StrCat("allocation at ", rows_.field(kPointer),
                                     ", which is live already"));
  }
  absl::StatusOr<uint64_t> id = live_.Add(pointer, event->bytes);
  if (!id.ok()) return rows_.FieldError(kSize, id.status().message());
  event->kind = TraceEventKind::kAllocate;
  event->id = *id;
  return true;
}

absl::StatusOr<bool> RmmLog::ReadFree(uint64_t pointer, TraceEvent* event) {
  const std::optional<LiveBlock> block = live_.Remove(pointer);
  if (!block.has_value()) {
    // The free of an allocation of 0 bytes.
    if (event->bytes == 0) return false;
    if (pointer == 0) {
      event->kind = TraceEventKind::kUnknownFree;
      event->id = 0;
      return true;
    }
    return CannotReplay(
        absl::StrCat("free of ", rows_.field(kPointer), ", which is not live"));
  }
  event->kind = TraceEventKind::kFree;
  event->id = block->id;
  event->bytes = block->bytes;
  return true;
}

absl::Status RmmLog::AdvanceClock() {
  absl::StatusOr<int64_t> clock_us = ParseClockTime(rows_.field(kTime));
  if (!clock_us.ok()) {
    return rows_.FieldError(kTime, clock_us.status().message());
  }
  if (!started_) {
    started_ = true;
    start_us_ = clock_us_ = *clock_us;
  }
  const int64_t late_us = clock_us_ + kUsPerDay - *clock_us;
  if (*clock_us < clock_us_ - kUsPerDay / 2) {
    days_us_ += kUsPerDay;
    clock_us_ = *clock_us;
  } else if (days_us_ > 0 && late_us > 0 && late_us <= kLatestRowUs) {
    return absl::OkStatus();  // a late row of the day before
  }
  clock_us_ = std::max(clock_us_, *clock_us);
  if (days_us_ > std::numeric_limits<int64_t>::max() - clock_us_) {
    return rows_.FieldError(kTime, "beyond 64 bits of microseconds");
  }
  time_us_ = std::max(time_us_, days_us_ + clock_us_ - start_us_);
  return absl::OkStatus();
}

absl::Status RmmLog::CannotReplay(absl::string_view reason) const {
  return absl::FailedPreconditionError(
      absl::StrCat(rows_.path(), ":", rows_.line_number(), ": ", reason));
}

absl::Status RmmLog::Rewind() {
  live_.Clear();
  streams_.Clear();
  threads_.Clear();
  started_ = false;
  start_us_ = clock_us_ = days_us_ = time_us_ = 0;
  return rows_.Rewind();
}

}  // namespace firn::bench
