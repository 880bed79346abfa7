// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_log.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/servegen_folder.h"
#include "bench/traces/servegen_requests.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

// The published m-small has 77,000 in its two weeks. As those without a request
// count, too, going through so many takes a few seconds.
constexpr double kMaxWindowsPlayed = 1e8;

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> OpenServeGenFolder(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "a ServeGen folder");
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<ServeGenFolder> read = ReadServeGenFolder(spec.path);
  if (!read.ok()) return read.status();
  const double windows = WindowsPlayed(*read, options.days, options.dilate);
  if (windows > kMaxWindowsPlayed) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": days=", options.days, " and dilate=", options.dilate,
        " play ", windows, " of the clients' windows; at most ",
        kMaxWindowsPlayed, ", so give fewer days or a larger dilate"));
  }
  const auto folder = std::make_shared<const ServeGenFolder>(*std::move(read));
  const RequestsAtShare requests_at =
      [&](double share) -> absl::StatusOr<std::shared_ptr<RequestSource>> {
    return std::make_shared<ServeGenRequests>(
        folder, options.days, options.dilate, share, options.seed);
  };
  return OpenKvTrafficAtShare(spec.text, requests_at, options);
}

}  // namespace firn::bench
