// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What every trace source yields: a stream of allocations and frees in time
// order, which can be started again from the beginning.

#ifndef FIRN_BENCH_TRACES_TRACE_H_
#define FIRN_BENCH_TRACES_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

enum class TraceEventKind : uint8_t {
  kAllocate,
  kFree,
  // A state in which used / live is to be sampled, such as after a die-off.
  kProbe,
  // A free of an address that the trace never allocated, in a format where that
  // is no error: counted, nothing is done. Its id is 0.
  kUnknownFree,
};

struct TraceEvent {
  TraceEventKind kind = TraceEventKind::kAllocate;
  // Streams and threads are numbered in the order in which the trace names
  // them; 0 is the default stream, or the only thread.
  uint32_t stream = 0;
  uint32_t thread = 0;
  // Since the start of the trace; never falls.
  int64_t time_us = 0;
  // Names the block among the live ones. Small numbers, used again once the
  // block is freed: index a vector with them.
  uint64_t id = 0;
  // Requested bytes, at least 1 (set for frees, too; 0 for probes).
  uint64_t bytes = 0;
};

// Thread safety: none.
class TraceSource {
 public:
  virtual ~TraceSource() = default;

  // As given on the command line.
  virtual absl::string_view name() const = 0;

  // Fills `event` and returns true, or returns false at the end. An error names
  // file, line and reason: InvalidArgument for a bad trace (exit status 2),
  // FailedPrecondition for an event that cannot be replayed, such as a free of
  // an unknown pointer in a format where that is an error (exit status 1).
  virtual absl::StatusOr<bool> Next(TraceEvent* event) = 0;

  // Starts again; the same events follow.
  virtual absl::Status Rewind() = 0;
};

// Opens `spec`: FILE|DIR|gen:NAME, with ",key=value..." after either. The
// format of a file is recognised by its contents. InvalidArgument names the
// file, key or value that is wrong and says what would be right; NotFound a
// missing file.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenTrace(absl::string_view spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TRACE_H_
