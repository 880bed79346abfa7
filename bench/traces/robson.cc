// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/robson.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "bench/traces/block_limit.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 10;

}  // namespace

Robson::Robson(absl::string_view name, const RobsonOptions& options)
    : PacedSource(name, kUsPerEvent),
      options_(options),
      block_bytes_(options.min_bytes) {}

absl::StatusOr<std::unique_ptr<TraceSource>> Robson::Open(
    const TraceSpec& spec) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  RobsonOptions options;
  TraceKeys keys(spec, "gen:robson");
  options.live_bytes = keys.Bytes("live", options.live_bytes, 1, kMost);
  options.min_bytes = keys.Bytes("min", options.min_bytes, 1, kMost);
  options.max_bytes = keys.Bytes("max", options.max_bytes, 1, kMost);
  keys.UnusedSeed();
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  if (options.min_bytes > options.max_bytes ||
      options.max_bytes > options.live_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": keys min, max and live must be in rising order"));
  }
  absl::Status status =
      CheckBlockLimit(spec.path, options.live_bytes, "min", options.min_bytes);
  if (!status.ok()) return status;
  return std::make_unique<Robson>(spec.text, options);
}

absl::StatusOr<bool> Robson::FillChunk() {
  if (block_bytes_ <= options_.max_bytes) {
    Fill();
    DieOff();
    block_bytes_ *= 2;
    return true;
  }
  if (live_.empty()) return false;
  GiveInOrder(&live_);
  return true;
}

void Robson::Fill() {
  for (; live_bytes_ + block_bytes_ <= options_.live_bytes;
       live_bytes_ += block_bytes_) {
    live_.push_back(Take(block_bytes_));
  }
}

void Robson::DieOff() {
  size_t survivors = 0;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (i % 2 == 0) {
      live_[survivors++] = live_[i];
    } else {
      Give(live_[i]);
      live_bytes_ -= live_[i].bytes;
    }
  }
  live_.resize(survivors);
  Probe();
}

absl::Status Robson::Restart() {
  block_bytes_ = options_.min_bytes;
  live_.clear();
  live_bytes_ = 0;
  return absl::OkStatus();
}

}  // namespace firn::bench
