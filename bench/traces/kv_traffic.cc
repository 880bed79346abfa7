// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_traffic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

struct Trial {
  double share = 0;
  double events = 0;
};

// The share to try after `low` and `high`, the trials next to the target that
// had fewer events and more; a share of 0 means that there was none. Between
// two, `halve` keeps away from where few requests make events leap.
double NextShare(const Trial& low, const Trial& high, double target,
                 bool halve) {
  constexpr double kTooFew = 4;  // growth where a trial met no request
  if (high.share == 0) {
    const double growth = low.events > 0 ? target / low.events : kTooFew;
    return std::min(1.0, low.share * growth);
  }
  if (low.share == 0) return high.share * (target / high.events);
  if (halve) return low.share + (high.share - low.share) / 2;
  return low.share + (high.share - low.share) * (target - low.events) /
                         (high.events - low.events);
}

constexpr double kTooMany = 4;  // a trial beyond that has told enough

// How many times as many events as wanted, or as few. Nothing is worse than a
// trial that was broken off, and that than any other.
double OffBy(double events, double target) {
  if (events == 0) return std::numeric_limits<double>::infinity();
  if (events >= kTooMany * target) return std::numeric_limits<double>::max();
  return std::max(events / target, target / events);
}

// Serves the share that comes nearest to the target in a few trials, starting
// from a guess.
absl::StatusOr<std::unique_ptr<TraceSource>> MeetTarget(
    absl::string_view name, const RequestsAtShare& requests_at,
    const KvOptions& options, double share) {
  constexpr int kMostTrials = 12;
  constexpr double kNear = 1.01;
  const double target = static_cast<double>(options.events);
  Trial low;
  Trial high;
  Trial best;
  for (int trials = 0; trials < kMostTrials;) {
    absl::StatusOr<std::shared_ptr<RequestSource>> requests =
        requests_at(share);
    if (!requests.ok()) return requests.status();
    auto server =
        std::make_unique<KvServer>(name, *std::move(requests), options, share);
    absl::StatusOr<double> counted =
        CountEvents(server.get(), kTooMany * target);
    if (!counted.ok()) return counted.status();
    const Trial trial = {share, *counted};
    if (OffBy(trial.events, target) < kNear ||
        (share == 1 && trial.events < target)) {
      if (absl::Status status = server->Rewind(); !status.ok()) return status;
      return server;
    }
    // Of those broken off a later one has the smaller share.
    if (OffBy(trial.events, target) <= OffBy(best.events, target)) {
      best = trial;
    }
    (trial.events < target ? low : high) = trial;
    share =
        NextShare(low, high, target, /*halve=*/trials > 2 && trials % 2 == 0);
    // Where even all requests have no event, share 1 has ended it above.
    if (trial.events > 0 || high.share > 0) ++trials;
    // No double lies between.
    if (share == low.share || share == high.share) break;
  }
  absl::StatusOr<std::shared_ptr<RequestSource>> requests =
      requests_at(best.share);
  if (!requests.ok()) return requests.status();
  return std::make_unique<KvServer>(name, *std::move(requests), options,
                                    best.share);
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
