// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/rmm_export.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/traces/clock_time.h"

namespace firn::bench {
namespace {

// Made-up pointers, one for each id.
constexpr uint64_t kFirstPointer = 0x7f0000000000;
constexpr uint64_t kPointerStep = 512;

absl::string_view ActionOf(TraceEventKind kind) {
  switch (kind) {
    case TraceEventKind::kAllocate:
      return "allocate";
    case TraceEventKind::kProbe:
      return "allocate failure";
    case TraceEventKind::kFree:
    case TraceEventKind::kUnknownFree:
      break;
  }
  return "free";
}

std::string Line(const TraceEvent& event) {
  const int64_t seconds = event.time_us / kUsPerSecond;
  const bool has_block = event.kind == TraceEventKind::kAllocate ||
                         event.kind == TraceEventKind::kFree;
  return absl::StrFormat(
      "%d,%02d:%02d:%02d.%06d,%s,%#x,%d,%#x\n", event.thread, seconds / 3600,
      seconds / 60 % 60, seconds % 60, event.time_us % kUsPerSecond,
      ActionOf(event.kind),
      has_block ? kFirstPointer + event.id * kPointerStep : 0, event.bytes,
      event.stream);
}

}  // namespace

absl::Status ExportRmmLog(TraceSource* trace, const std::string& file) {
  const auto cannot_write = [&file] {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": cannot write: ", std::strerror(errno)));
  };
  if (absl::Status status = trace->Rewind(); !status.ok()) return status;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) return cannot_write();
  out << "Thread,Time,Action,Pointer,Size,Stream\n";
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> has_event = trace->Next(&event);
    if (!has_event.ok()) return has_event.status();
    if (!*has_event) break;
    out << Line(event);
    if (!out) return cannot_write();
  }
  out.close();
  return out ? absl::OkStatus() : cannot_write();
}

}  // namespace firn::bench
