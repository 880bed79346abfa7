// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/periodic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/traces/block_limit.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 10;

}  // namespace

Periodic::Periodic(absl::string_view name, const PeriodicOptions& options)
    : PacedSource(name, kUsPerEvent), options_(options) {}

absl::StatusOr<std::unique_ptr<TraceSource>> Periodic::Open(
    const TraceSpec& spec) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  PeriodicOptions options;
  TraceKeys keys(spec, "gen:periodic");
  options.live_bytes = keys.Bytes("live", options.live_bytes, 1, kMost);
  options.block_bytes =
      keys.ByteList("block_bytes", options.block_bytes, kMost);
  options.periods = keys.CountList("period", options.periods, 1, 1'000'000);
  options.refill_bytes = keys.Bytes("refill", options.refill_bytes, 1, kMost);
  keys.UnusedSeed();
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  const uint64_t largest = std::max(
      options.refill_bytes, *std::max_element(options.block_bytes.begin(),
                                              options.block_bytes.end()));
  if (largest > options.live_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": key live must be at least block_bytes and refill"));
  }
  const uint64_t smallest =
      *std::min_element(options.block_bytes.begin(), options.block_bytes.end());
  absl::Status status =
      CheckBlockLimit(spec.path, options.live_bytes, "block_bytes", smallest);
  if (status.ok()) {
    status = CheckBlockLimit(spec.path, options.live_bytes, "refill",
                             options.refill_bytes);
  }
  if (!status.ok()) return status;
  return std::make_unique<Periodic>(spec.text, options);
}

absl::StatusOr<bool> Periodic::FillChunk() {
  const size_t periods = options_.periods.size();
  if (round_ == options_.block_bytes.size() * periods) return false;
  switch (part_) {
    case Part::kFill:
      Fill(options_.block_bytes[round_ / periods]);
      part_ = Part::kDieOff;
      break;
    case Part::kDieOff:
      DieOff(options_.periods[round_ % periods]);
      part_ = Part::kRefill;
      break;
    case Part::kRefill:
      Refill();
      part_ = Part::kFree;
      break;
    case Part::kFree:
      GiveInOrder(&live_);
      part_ = Part::kFill;
      ++round_;
      break;
  }
  return true;
}

void Periodic::Fill(uint64_t block_bytes) {
  for (uint64_t i = 0; i < options_.live_bytes / block_bytes; ++i) {
    live_.push_back(Take(block_bytes));
  }
}

void Periodic::DieOff(uint64_t period) {
  size_t survivors = 0;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (i % period == 0) {
      live_[survivors++] = live_[i];
    } else {
      Give(live_[i]);
    }
  }
  live_.resize(survivors);
  Probe();
}

void Periodic::Refill() {
  const uint64_t room =
      options_.live_bytes - live_.size() * live_.front().bytes;
  for (uint64_t i = 0; i < room / options_.refill_bytes; ++i) {
    live_.push_back(Take(options_.refill_bytes));
  }
  Probe();
}

absl::Status Periodic::Restart() {
  round_ = 0;
  part_ = Part::kFill;
  live_.clear();
  return absl::OkStatus();
}

}  // namespace firn::bench
