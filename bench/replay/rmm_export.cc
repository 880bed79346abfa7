// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/rmm_export.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/trace_spec.h"

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

// Whether `file` names the same file as `other`; either may be missing.
bool IsSameFile(const std::filesystem::path& file,
                const std::filesystem::path& other) {
  std::error_code error;
  return std::filesystem::equivalent(file, other, error) && !error;
}

absl::Status CannotWrite(const std::string& file, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": cannot write: ", std::strerror(error)));
}

// All lines of `trace`, to `out`, which is `file` in messages.
absl::Status WriteLines(TraceSource* trace, const std::string& file,
                        std::FILE* out) {
  std::fputs("Thread,Time,Action,Pointer,Size,Stream\n", out);
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> has_event = trace->Next(&event);
    if (!has_event.ok()) return has_event.status();
    if (!*has_event) return absl::OkStatus();
    if (std::fputs(Line(event).c_str(), out) < 0) {
      return CannotWrite(file, errno);
    }
  }
}

// The same, and closes `out`, which writes what is left.
absl::Status WriteAndClose(TraceSource* trace, const std::string& file,
                           std::FILE* out) {
  absl::Status status = WriteLines(trace, file, out);
  if (std::fclose(out) != 0 && status.ok()) status = CannotWrite(file, errno);
  return status;
}

// Writes a file beside `target`, which then takes its place.
absl::Status Replace(TraceSource* trace, const std::string& file,
                     const std::string& target) {
  const std::string partial = absl::StrCat(target, ".", getpid(), ".partial");
  std::FILE* out = std::fopen(partial.c_str(), "wx");
  if (out == nullptr) return CannotWrite(file, errno);
  absl::Status status = WriteAndClose(trace, file, out);
  if (status.ok() && std::rename(partial.c_str(), target.c_str()) != 0) {
    status = CannotWrite(file, errno);
  }
  if (!status.ok()) std::remove(partial.c_str());
  return status;
}

}  // namespace

absl::Status CheckExportTarget(absl::string_view trace,
                               const std::string& file) {
  absl::StatusOr<TraceSpec> spec = ParseTraceSpec(trace);
  if (!spec.ok()) return spec.status();
  const std::filesystem::path target(file);
  bool is_read = IsSameFile(target, spec->path);
  for (const TraceKey& key : spec->keys) {
    is_read |= key.key == "pair" && IsSameFile(target, key.value);
  }
  // A folder of ServeGen data.
  is_read |= absl::StartsWith(target.filename().string(), "chunk-") &&
             IsSameFile(target.parent_path() / ".", spec->path);
  if (!is_read) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--export_rmm=", file, " would replace what --trace=", trace,
                   " reads; give another file"));
}

absl::Status ExportRmmLog(TraceSource* trace, const std::string& file) {
  if (absl::Status status = trace->Rewind(); !status.ok()) return status;
  std::error_code error;
  const std::filesystem::file_status found =
      std::filesystem::status(file, error);
  if (std::filesystem::exists(found) &&
      !std::filesystem::is_regular_file(found)) {
    std::FILE* out = std::fopen(file.c_str(), "w");  // a pipe, /dev/stdout
    if (out == nullptr) return CannotWrite(file, errno);
    return WriteAndClose(trace, file, out);
  }
  // A link stays one: what it leads to is replaced.
  std::string target = file;
  if (std::filesystem::exists(found)) {
    target = std::filesystem::canonical(file, error).string();
    if (error) return CannotWrite(file, error.value());
  }
  return Replace(trace, file, target);
}

}  // namespace firn::bench
