// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_log.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/servegen_folder.h"
#include "bench/traces/servegen_requests.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr double kSecondsPerDay = 86'400;

// Twice the blocks of all requests if each ended with an empty block: no
// traffic has more events.
double MostEvents(const ServeGenFolder& folder, const KvOptions& options) {
  const ServeGenLoad load =
      ExpectedLoad(folder, options.days * kSecondsPerDay / options.dilate);
  return 2 * (load.tokens / static_cast<double>(options.block_tokens) +
              load.requests);
}

// The traffic of a share of the requests.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenShare(
    absl::string_view name, std::shared_ptr<const ServeGenFolder> folder,
    KvOptions options, double share) {
  // Each is decoded for longer, so that as many overlap at any share.
  options.decode_tps *= share;
  options.events = 0;
  return OpenKvTraffic(
      name,
      std::make_unique<ServeGenRequests>(std::move(folder), options.days,
                                         options.dilate, share, options.seed),
      options);
}

absl::StatusOr<uint64_t> CountEvents(TraceSource* trace) {
  uint64_t events = 0;
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> found = trace->Next(&event);
    if (!found.ok()) return found.status();
    if (!*found) return events;
    ++events;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> OpenServeGenFolder(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "a ServeGen folder");
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  absl::StatusOr<ServeGenFolder> read = ReadServeGenFolder(spec.path);
  if (!read.ok()) return read.status();
  const auto folder = std::make_shared<const ServeGenFolder>(*std::move(read));
  double share = 1;
  if (options.events > 0) {
    const double wanted = static_cast<double>(options.events);
    share = std::min(1.0, wanted / MostEvents(*folder, options));
    if (share < 1) {
      absl::StatusOr<std::unique_ptr<TraceSource>> trial =
          OpenShare(spec.text, folder, options, share);
      if (!trial.ok()) return trial.status();
      absl::StatusOr<uint64_t> counted = CountEvents(trial->get());
      if (!counted.ok()) return counted.status();
      if (*counted > 0) share *= wanted / static_cast<double>(*counted);
      share = std::min(1.0, share);
    }
  }
  return OpenShare(spec.text, folder, options, share);
}

}  // namespace firn::bench
