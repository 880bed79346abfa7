// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes any trace as an RMM log.

#ifndef FIRN_BENCH_REPLAY_RMM_EXPORT_H_
#define FIRN_BENCH_REPLAY_RMM_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "bench/traces/trace.h"

namespace firn::bench {

// The whole of `trace`, from its start; replaces `file`. What the format has no
// action for is written so that other readers pass it over: a probe as a failed
// allocation of 0 bytes, an unknown free as one of the null pointer. An error
// of the trace is returned as it is; InvalidArgument says why the file cannot
// be written.
absl::Status ExportRmmLog(TraceSource* trace, const std::string& file);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_RMM_EXPORT_H_
