// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/synthetic_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_traffic.h"
#include "bench/traces/random_variates.h"
#include "bench/traces/seeded_random.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr double kRequestsPerSecond = 5;

uint32_t DrawTokens(double median, double sigma, double most,
                    SeededRandom* random) {
  const double tokens = median * std::exp(sigma * DrawNormal(random));
  return static_cast<uint32_t>(std::clamp(tokens, 1.0, most));
}

}  // namespace

std::vector<Request> SyntheticRequests(uint64_t seed) {
  SeededRandom random(seed);
  std::vector<Request> log;
  double time_us = 0;
  while (time_us < static_cast<double>(kUsPerHour)) {
    Request request;
    request.time_us = static_cast<int64_t>(time_us);
    request.context_tokens = DrawTokens(700, 1, 16'384, &random);
    request.generated_tokens = DrawTokens(140, 0.9, 1'000, &random);
    log.push_back(request);
    time_us += -std::log(1 - random.Fraction()) / kRequestsPerSecond *
               static_cast<double>(kUsPerSecond);
  }
  return log;
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenSyntheticRequests(
    const TraceSpec& spec) {
  TraceKeys keys(spec, "gen:kv");
  const KvOptions options = ReadKvOptions(&keys);
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  return OpenKvTrafficOfLog(
      spec.text,
      std::make_unique<ListedRequests>(SyntheticRequests(options.seed)),
      options);
}

}  // namespace firn::bench
