// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/logging_driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_status.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {

namespace {

std::string FormatResult(const DriverCallRecord& record) {
  if (!record.has_returned) return "?";
  const absl::string_view name = DriverResultName(record.result);
  const int number = static_cast<int>(record.result);
  return record.result == DriverResult::kSuccess
             ? std::string(name)
             : absl::StrCat(name, " (", number, ")");
}

}  // namespace

std::string FormatDriverCallRecord(const DriverCallRecord& record) {
  return absl::StrCat(record.sequence, " t", record.thread, " ",
                      FormatDriverCall(record.args), " = ",
                      FormatResult(record));
}

LoggingDriver::LoggingDriver(Driver* base, size_t kept_calls, Sink sink)
    : DriverWrapper(base),
      kept_calls_(std::max<size_t>(kept_calls, 1)),
      sink_(std::move(sink)) {}

DriverResult LoggingDriver::Around(const DriverCallArgs& args,
                                   absl::FunctionRef<DriverResult()> call) {
  DriverCallRecord record{0, ThisThreadOrdinal(), args, false,
                          DriverResult::kSuccess};
  Begin(&record);
  record.result = call();
  record.has_returned = true;
  End(record);
  if (sink_) sink_(FormatDriverCallRecord(record));
  return record.result;
}

void LoggingDriver::Begin(DriverCallRecord* record) {
  const MutexLock lock(&mutex_);
  record->sequence = next_sequence_++;
  if (records_.size() < kept_calls_) {
    records_.push_back(*record);
  } else {
    records_[SlotOf(record->sequence)] = *record;
  }
}

void LoggingDriver::End(const DriverCallRecord& record) {
  const MutexLock lock(&mutex_);
  // Later calls may have taken its place meanwhile.
  DriverCallRecord& kept = records_[SlotOf(record.sequence)];
  if (kept.sequence == record.sequence) kept = record;
}

std::vector<DriverCallRecord> LoggingDriver::Records() const {
  const MutexLock lock(&mutex_);
  std::vector<DriverCallRecord> records;
  records.reserve(records_.size());
  for (uint64_t sequence = next_sequence_ - records_.size();
       sequence < next_sequence_; ++sequence) {
    records.push_back(records_[SlotOf(sequence)]);
  }
  return records;
}

std::string LoggingDriver::Format() const {
  std::string lines;
  for (const DriverCallRecord& record : Records()) {
    absl::StrAppend(&lines, FormatDriverCallRecord(record), "\n");
  }
  return lines;
}

}  // namespace firn
