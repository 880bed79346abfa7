// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests to language models as the traffic of their keys and values
// (kv_server.h), brought down to a target number of events where there is one.
//
// Towards a target (KvOptions::events) a share of the requests is served, and
// decoding takes 1 / share times as long, so that as many requests overlap as
// before. Such a trace ends with KvOptions::days: without that, the last
// answers would go on long after it. What requests save by sharing is found out
// by trial; of few requests the nearest number of events may be far off, but
// there is one request with events where all of them have any. A sample keeps
// its requests as they are; of prompts with known contents it hence finds fewer
// in memory than all of them would, as some that had brought them are missing.

#ifndef FIRN_BENCH_TRACES_KV_TRAFFIC_H_
#define FIRN_BENCH_TRACES_KV_TRAFFIC_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"

namespace firn::bench {

// The KV traffic of `requests`, which come at the pace of the trace already.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTraffic(
    absl::string_view name, std::unique_ptr<RequestSource> requests,
    const KvOptions& options);

// Likewise of a log of requests as recorded, played for options.days at the
// pace of options.dilate (request_log.h).
absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficOfLog(
    absl::string_view name, std::unique_ptr<RequestSource> rows,
    const KvOptions& options);

// The requests of a source that comes to about this share, in (0, 1], of all.
using RequestsAtShare =
    std::function<absl::StatusOr<std::shared_ptr<RequestSource>>(double share)>;

// Likewise of requests that are drawn at a rate, and so many that none must be
// drawn in vain: those of a sample alone are asked for. The requests of one
// call are used no more when the next is made.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficAtShare(
    absl::string_view name, const RequestsAtShare& requests_at,
    const KvOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_TRAFFIC_H_
