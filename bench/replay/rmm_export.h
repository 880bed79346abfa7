// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes any trace as an RMM log.

#ifndef FIRN_BENCH_REPLAY_RMM_EXPORT_H_
#define FIRN_BENCH_REPLAY_RMM_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/traces/trace.h"

namespace firn::bench {

// InvalidArgument where `file` is one that the trace of this spec reads.
absl::Status CheckExportTarget(absl::string_view trace,
                               const std::string& file);

// The whole of `trace`, from its start; replaces `file`. It is written beside
// `file` (PATH.PID.partial) and takes its place at the end, so an error leaves
// `file` as it was; what is no regular file, such as a pipe, is written to
// directly. What the format has no action for is written so that other readers
// pass it over: a probe as a failed allocation of 0 bytes, an unknown free as
// one of the null pointer. An error of the trace is returned as it is;
// InvalidArgument says why the file cannot be written.
absl::Status ExportRmmLog(TraceSource* trace, const std::string& file);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_RMM_EXPORT_H_
