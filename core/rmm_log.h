// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a pool's allocations, frees and failed allocations as the CSV log of
// the RAPIDS Memory Manager, for its tools and for firn_replay.
//
//   Thread,Time,Action,Pointer,Size,Stream
//   1,13:01:02.123456,allocate,0x7f0000000000,1024,0x0
//
// Actions are allocate, free and "allocate failure" (pointer 0x0); the time of
// day is UTC; streams are handles. A free stands where it was requested.

#ifndef FIRN_CORE_RMM_LOG_H_
#define FIRN_CORE_RMM_LOG_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "firn/core/history_ring.h"
#include "firn/vmm/light_lock.h"
#include "firn/vmm/mutex.h"

namespace firn {

// Lines are kept until there are some thousand of them, and written by a thread
// that holds none of the pool's locks. If the file cannot be written to its
// end, stderr is told once, and the rest is left out. Thread safety: all
// methods may be called from any thread.
class RmmLog {
 public:
  // Replaces the file. InvalidArgument says why it cannot be written.
  static absl::StatusOr<std::unique_ptr<RmmLog>> Create(
      const std::string& path);
  // Writes what is left.
  ~RmmLog();
  RmmLog(const RmmLog&) = delete;
  RmmLog& operator=(const RmmLog&) = delete;

  // Adds a line; other kinds of events have none. Lines come in the order of
  // these calls. Any lock may be held.
  void Add(const EventRecord& record) ABSL_LOCKS_EXCLUDED(lines_lock_);
  // Writes lines if there are many. Not with a lock that others need.
  void MaybeWrite() ABSL_LOCKS_EXCLUDED(file_mutex_, lines_lock_);

 private:
  struct Line {
    int64_t time_ns = 0;
    uint64_t thread = 0;
    EventRecord record;
  };

  RmmLog(std::string path, std::FILE* file);
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_)
      ABSL_LOCKS_EXCLUDED(lines_lock_);
  void NoteFailure(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);

  const std::string path_;
  std::atomic<size_t> waiting_{0};  // lines
  LightLock lines_lock_;
  std::vector<Line> lines_ ABSL_GUARDED_BY(lines_lock_);
  // Before the other: lines leave in the order in which they came.
  Mutex file_mutex_;
  std::FILE* const file_ ABSL_GUARDED_BY(file_mutex_);
  std::vector<Line> written_ ABSL_GUARDED_BY(file_mutex_);  // scratch
  bool has_failed_ ABSL_GUARDED_BY(file_mutex_) = false;
};

}  // namespace firn

#endif  // FIRN_CORE_RMM_LOG_H_
