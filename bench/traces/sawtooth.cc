// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/sawtooth.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/traces/block_limit.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 10;

// Of the sizes drawn, rounded down.
uint64_t MeanBytes(const SawtoothOptions& options) {
  if (options.min_bytes == options.max_bytes) return options.min_bytes;
  const auto least = static_cast<double>(options.min_bytes);
  const auto most = static_cast<double>(options.max_bytes);
  return static_cast<uint64_t>((most - least) / std::log(most / least));
}

}  // namespace

Sawtooth::Sawtooth(absl::string_view name, const SawtoothOptions& options)
    : PacedSource(name, kUsPerEvent),
      options_(options),
      random_(options.seed) {}

absl::StatusOr<std::unique_ptr<TraceSource>> Sawtooth::Open(
    const TraceSpec& spec) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  SawtoothOptions options;
  TraceKeys keys(spec, "gen:sawtooth");
  options.live_bytes = keys.Bytes("live", options.live_bytes, 1, kMost);
  options.min_bytes = keys.Bytes("min", options.min_bytes, 1, kMost);
  options.max_bytes = keys.Bytes("max", options.max_bytes, 1, kMost);
  options.freed = keys.Real("freed", options.freed, 0.01, 1);
  options.cycles = keys.Count("cycles", options.cycles, 1, 1'000'000);
  options.seed = keys.Count("seed", options.seed, 0, ~uint64_t{0});
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  if (options.min_bytes > options.max_bytes ||
      options.max_bytes > options.live_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path,
                     ": keys min, max and live must be in rising "
                     "order"));
  }
  absl::Status limit =
      CheckBlockLimit(spec.path, options.live_bytes, "min", MeanBytes(options));
  if (!limit.ok()) return limit;
  return std::make_unique<Sawtooth>(spec.text, options);
}

absl::StatusOr<bool> Sawtooth::FillChunk() {
  if (cycle_ > options_.cycles) return false;
  if (cycle_++ == options_.cycles) {
    FreeAtRandom(live_.size());
    return true;
  }
  const double octaves = std::log2(static_cast<double>(options_.max_bytes) /
                                   static_cast<double>(options_.min_bytes));
  while (true) {
    const double drawn = static_cast<double>(options_.min_bytes) *
                         std::exp2(octaves * random_.Fraction());
    const uint64_t bytes = std::clamp(static_cast<uint64_t>(drawn),
                                      options_.min_bytes, options_.max_bytes);
    if (bytes > options_.live_bytes - live_bytes_) break;
    live_.push_back(Take(bytes));
    live_bytes_ += bytes;
  }
  // At least one, or a full memory would never change.
  const double share = options_.freed * static_cast<double>(live_.size());
  FreeAtRandom(std::max(uint64_t{1}, static_cast<uint64_t>(share)));
  Probe();
  return true;
}

void Sawtooth::FreeAtRandom(uint64_t count) {
  for (; count > 0; --count) {
    std::swap(live_[random_.Below(live_.size())], live_.back());
    Give(live_.back());
    live_bytes_ -= live_.back().bytes;
    live_.pop_back();
  }
}

absl::Status Sawtooth::Restart() {
  random_ = SeededRandom(options_.seed);
  live_.clear();
  live_bytes_ = 0;
  cycle_ = 0;
  return absl::OkStatus();
}

}  // namespace firn::bench
