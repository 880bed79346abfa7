// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranges on the timeline of a profiler: what a pool does that takes time. They
// are there if NVTX's header (nvtx3/nvToolsExt.h, of the CUDA toolkit) was when
// firn was built, and cost a call of an empty function while no profiler
// listens; otherwise they are nothing.

#ifndef FIRN_VMM_TRACE_RANGE_H_
#define FIRN_VMM_TRACE_RANGE_H_

namespace firn {

// From construction to destruction, by the same thread; ranges of a thread
// nest. In the NVTX domain "firn".
class TraceRange {
 public:
  // `name` must live as long as the range.
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

  // Whether this build has them.
  static bool IsAvailable();
};

}  // namespace firn

#endif  // FIRN_VMM_TRACE_RANGE_H_
