// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/rmm_log.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {
namespace {

constexpr size_t kLinesPerWrite = 4096;
// Beyond this, who adds lines waits for the disk.
constexpr size_t kMostWaitingLines = 16 * kLinesPerWrite;
constexpr int64_t kUsPerSecond = 1'000'000;
constexpr int64_t kSecondsPerDay = 24 * 3600;

bool HasLine(HistoryKind kind) {
  switch (kind) {
    case HistoryKind::kAllocate:
    case HistoryKind::kFree:
    case HistoryKind::kFreeRequested:
    case HistoryKind::kAllocateFailure:
      return true;
    default:
      return false;
  }
}

absl::string_view ActionOf(HistoryKind kind) {
  if (kind == HistoryKind::kAllocate) return "allocate";
  return kind == HistoryKind::kAllocateFailure ? "allocate failure" : "free";
}

std::string Explain(absl::string_view path, int error) {
  return absl::StrCat("rmm_log: cannot write ", path, ": ",
                      std::strerror(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RmmLog>> RmmLog::Create(
    const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return absl::InvalidArgumentError(Explain(path, errno));
  }
  if (std::fputs("Thread,Time,Action,Pointer,Size,Stream\n", file) < 0 ||
      std::fflush(file) != 0) {
    const int error = errno;
    std::fclose(file);
    return absl::InvalidArgumentError(Explain(path, error));
  }
  return absl::WrapUnique(new RmmLog(path, file));
}

RmmLog::RmmLog(std::string path, std::FILE* file)
    : path_(std::move(path)), file_(file) {}

RmmLog::~RmmLog() {
  MutexLock lock(&file_mutex_);
  Write();
  if (std::fclose(file_) != 0) NoteFailure(errno);
}

void RmmLog::Add(const EventRecord& record) {
  if (!HasLine(record.kind)) return;
  Line line;
  line.thread = ThisThreadOrdinal();
  line.record = record;
  const LightLockHolder lock(&lines_lock_);
  // Here, so that time does not fall from line to line.
  line.time_ns = absl::GetCurrentTimeNanos();
  lines_.push_back(line);
  waiting_.store(lines_.size(), std::memory_order_relaxed);
}

void RmmLog::MaybeWrite() {
  const size_t waiting = waiting_.load(std::memory_order_relaxed);
  if (waiting < kLinesPerWrite) return;
  if (waiting >= kMostWaitingLines) {
    MutexLock lock(&file_mutex_);
    Write();
  } else if (file_mutex_.TryLock()) {
    Write();
    file_mutex_.Unlock();
  }
}

void RmmLog::Write() {
  written_.clear();
  {
    const LightLockHolder lock(&lines_lock_);
    written_.swap(lines_);
    waiting_.store(0, std::memory_order_relaxed);
  }
  if (has_failed_) return;
  std::string text;
  for (const Line& line : written_) {
    const int64_t time_us = line.time_ns / 1000;
    const int64_t seconds = time_us / kUsPerSecond % kSecondsPerDay;
    absl::StrAppendFormat(
        &text, "%d,%02d:%02d:%02d.%06d,%s,0x%x,%d,0x%x\n", line.thread,
        seconds / 3600, seconds / 60 % 60, seconds % 60, time_us % kUsPerSecond,
        ActionOf(line.record.kind), line.record.address, line.record.bytes,
        reinterpret_cast<uintptr_t>(line.record.stream));
  }
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    NoteFailure(errno);
  }
}

void RmmLog::NoteFailure(int error) {
  if (has_failed_) return;
  has_failed_ = true;
  std::fprintf(stderr, "%s\n", Explain(path_, error).c_str());
}

}  // namespace firn
