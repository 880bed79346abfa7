// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_traffic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "bench/traces/kv_sample.h"
#include "bench/traces/kv_server.h"
#include "bench/traces/request_log.h"

namespace firn::bench {
namespace {

// Of a trace, up to `most`.
absl::StatusOr<double> CountEvents(TraceSource* trace, double most) {
  double events = 0;
  TraceEvent event;
  while (events < most) {
    absl::StatusOr<bool> found = trace->Next(&event);
    if (!found.ok()) return found.status();
    if (!*found) break;
    ++events;
  }
  return events;
}

// Serves about the share that meets the target, starting from a guess.
absl::StatusOr<std::unique_ptr<TraceSource>> MeetTarget(
    absl::string_view name, const RequestsAtShare& requests_at,
    const KvOptions& options, double share) {
  constexpr int kMostTrials = 4;
  constexpr double kNear = 0.01;
  constexpr double kTooMany = 4;  // a trial beyond that has told enough
  constexpr double kTooFew = 4;   // growth where a trial met no request
  const double target = static_cast<double>(options.events);
  for (int trial = 0;; ++trial) {
    absl::StatusOr<std::shared_ptr<RequestSource>> requests =
        requests_at(share);
    if (!requests.ok()) return requests.status();
    auto server =
        std::make_unique<KvServer>(name, *std::move(requests), options, share);
    if (trial == kMostTrials) return server;
    absl::StatusOr<double> counted =
        CountEvents(server.get(), kTooMany * target);
    if (!counted.ok()) return counted.status();
    const double better =
        std::min(1.0, share * (*counted > 0 ? target / *counted : kTooFew));
    if (std::abs(better / share - 1) < kNear) {
      if (absl::Status status = server->Rewind(); !status.ok()) return status;
      return server;
    }
    share = better;
  }
}

// The events of all requests if they found nothing to share or to take over, by
// a sample that is large enough to tell.
absl::StatusOr<double> EstimateMostEvents(const RequestsAtShare& requests_at,
                                          const KvOptions& options) {
  constexpr double kFirstShare = 0x1.0p-20;
  constexpr double kGrowth = 32;
  constexpr uint64_t kEnoughRequests = 2'000;
  for (double share = kFirstShare;; share = std::min(1.0, share * kGrowth)) {
    absl::StatusOr<std::shared_ptr<RequestSource>> requests =
        requests_at(share);
    if (!requests.ok()) return requests.status();
    uint64_t count = 0;
    double events = 0;
    Request request;
    while (true) {
      absl::StatusOr<bool> found = (*requests)->Next(&request);
      if (!found.ok()) return found.status();
      if (!*found) break;
      ++count;
      events += static_cast<double>(MostKvEvents(request, options));
    }
    if (count >= kEnoughRequests || share == 1) return events / share;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTraffic(
    absl::string_view name, std::unique_ptr<RequestSource> requests,
    const KvOptions& options) {
  if (options.events == 0) {
    return std::make_unique<KvServer>(name, std::move(requests), options);
  }
  absl::StatusOr<std::unique_ptr<KvSample>> created =
      KvSample::Create(std::move(requests), options);
  if (!created.ok()) return created.status();
  const std::shared_ptr<KvSample> sample = *std::move(created);
  const RequestsAtShare requests_at =
      [sample](double share) -> absl::StatusOr<std::shared_ptr<RequestSource>> {
    if (absl::Status status = sample->SetShare(share); !status.ok()) {
      return status;
    }
    return sample;
  };
  const double guess =
      static_cast<double>(options.events) / sample->most_events();
  if (!(guess < 1)) {
    return std::make_unique<KvServer>(name, sample, options);
  }
  return MeetTarget(name, requests_at, options, guess);
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficOfLog(
    absl::string_view name, std::unique_ptr<RequestSource> rows,
    const KvOptions& options) {
  absl::StatusOr<std::unique_ptr<RequestLog>> log =
      RequestLog::Create(std::move(rows), options.days, options.dilate);
  if (!log.ok()) return log.status();
  return OpenKvTraffic(name, *std::move(log), options);
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficAtShare(
    absl::string_view name, const RequestsAtShare& requests_at,
    const KvOptions& options) {
  double guess = 1;
  if (options.events > 0) {
    absl::StatusOr<double> most = EstimateMostEvents(requests_at, options);
    if (!most.ok()) return most.status();
    guess = static_cast<double>(options.events) / *most;
  }
  if (guess < 1) return MeetTarget(name, requests_at, options, guess);
  absl::StatusOr<std::shared_ptr<RequestSource>> requests = requests_at(1);
  if (!requests.ok()) return requests.status();
  return std::make_unique<KvServer>(name, *std::move(requests), options);
}

}  // namespace firn::bench
