// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/mixed.h"

#include <cmath>

#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr double kUsPerDay = 86'400e6;
constexpr double kPi = 3.14159265358979323846;
constexpr double kLeastRate = 0.25;  // of the most

struct Band {
  double least_bytes;
  double most_bytes;
  double share;  // of the live bytes
};
constexpr double kMiB = 1 << 20;
constexpr std::array<Band, 3> kBands = {
    {{512, kMiB, 0.1}, {kMiB, 64 * kMiB, 0.45}, {64 * kMiB, 512 * kMiB, 0.45}}};

constexpr double kShortUs = 120e6;
constexpr double kLongUs = 7200e6;
constexpr double kLongShare = 0.1;
constexpr double kMeanUs = (1 - kLongShare) * kShortUs + kLongShare * kLongUs;

double MeanBytes(const Band& band) {
  return (band.most_bytes - band.least_bytes) /
         std::log(band.most_bytes / band.least_bytes);
}

}  // namespace

Mixed::Mixed(absl::string_view name, const MixedOptions& options)
    : ChunkedSource(name), options_(options), random_(options.seed) {
  for (size_t i = 0; i < kBands.size(); ++i) {
    rates_[i] = static_cast<double>(options.live_bytes) * kBands[i].share /
                MeanBytes(kBands[i]) / kMeanUs;
    rate_ += rates_[i];
  }
}

absl::StatusOr<std::unique_ptr<TraceSource>> Mixed::Open(
    const TraceSpec& spec) {
  MixedOptions options;
  TraceKeys keys(spec, "gen:mixed");
  options.days = keys.Real("days", options.days, 0.001, 1000);
  options.live_bytes = keys.Bytes("live", options.live_bytes, uint64_t{1} << 20,
                                  uint64_t{1} << 40);
  options.seed = keys.Count("seed", options.seed, 0, ~uint64_t{0});
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  return std::make_unique<Mixed>(spec.text, options);
}

double Mixed::DrawExponential(double mean) {
  return -mean * std::log1p(-random_.Fraction());
}

uint64_t Mixed::DrawBytes() {
  size_t band = 0;
  double left = random_.Fraction() * rate_;
  while (band + 1 < kBands.size() && left >= rates_[band]) {
    left -= rates_[band++];
  }
  const double octaves =
      std::log2(kBands[band].most_bytes / kBands[band].least_bytes);
  return static_cast<uint64_t>(kBands[band].least_bytes *
                               std::exp2(octaves * random_.Fraction()));
}

void Mixed::FreeUntil(int64_t time_us) {
  while (!deaths_.empty() && deaths_.top().time_us <= time_us) {
    const Death& death = deaths_.top();
    EmitFree(death.time_us, death.block.id, death.block.bytes);
    deaths_.pop();
  }
}

absl::StatusOr<bool> Mixed::FillChunk() {
  const double end_us = options_.days * kUsPerDay;
  if (time_us_ > end_us) return false;
  time_us_ += DrawExponential(1 / rate_);
  if (time_us_ > end_us) {
    const auto end = static_cast<int64_t>(end_us);
    FreeUntil(end);
    for (; !deaths_.empty(); deaths_.pop()) {
      EmitFree(end, deaths_.top().block.id, deaths_.top().block.bytes);
    }
    return true;
  }
  const double swing = std::sin(kPi * time_us_ / kUsPerDay);
  if (random_.Fraction() >= kLeastRate + (1 - kLeastRate) * swing * swing) {
    return true;
  }
  Death death;
  death.block.bytes = DrawBytes();
  const double lives_us =
      DrawExponential(random_.Fraction() < kLongShare ? kLongUs : kShortUs);
  const auto now = static_cast<int64_t>(time_us_);
  FreeUntil(now);
  death.block.id = EmitAllocate(now, death.block.bytes);
  death.time_us = static_cast<int64_t>(time_us_ + lives_us);
  deaths_.push(death);
  return true;
}

absl::Status Mixed::Restart() {
  random_ = SeededRandom(options_.seed);
  time_us_ = 0;
  deaths_ = {};
  return absl::OkStatus();
}

}  // namespace firn::bench
