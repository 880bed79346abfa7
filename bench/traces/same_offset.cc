// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/same_offset.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "bench/traces/block_limit.h"
#include "bench/traces/byte_count.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 10;

}  // namespace

SameOffset::SameOffset(absl::string_view name, const SameOffsetOptions& options)
    : PacedSource(name, kUsPerEvent), options_(options) {}

absl::StatusOr<std::unique_ptr<TraceSource>> SameOffset::Open(
    const TraceSpec& spec) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  SameOffsetOptions options;
  TraceKeys keys(spec, "gen:same_offset");
  options.live_bytes = keys.Bytes("live", options.live_bytes, 1, kMost);
  options.block_bytes =
      keys.ByteList("block_bytes", options.block_bytes, kMost);
  options.granule_bytes =
      keys.Bytes("granule", options.granule_bytes, 2, kMost);
  options.rounds = keys.Count("rounds", options.rounds, 1, 1'000'000);
  keys.UnusedSeed();
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  for (const uint64_t bytes : options.block_bytes) {
    if (bytes < options.granule_bytes && options.granule_bytes % bytes == 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": key block_bytes: ", FormatByteCount(bytes),
        " must divide the granule of ", FormatByteCount(options.granule_bytes),
        " into two or more"));
  }
  if (options.live_bytes < options.granule_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.path, ": key live must be at least a granule, ",
                     FormatByteCount(options.granule_bytes)));
  }
  const uint64_t smallest =
      *std::min_element(options.block_bytes.begin(), options.block_bytes.end());
  absl::Status status =
      CheckBlockLimit(spec.path, options.live_bytes, "block_bytes", smallest);
  if (!status.ok()) return status;
  return std::make_unique<SameOffset>(spec.text, options);
}

absl::StatusOr<bool> SameOffset::FillChunk() {
  if (!live_.empty()) {
    Refill();
    GiveInOrder(&live_);
    ++round_;
    return true;
  }
  if (round_ == options_.block_bytes.size() * options_.rounds) return false;
  FillAndDieOff(options_.block_bytes[round_ / options_.rounds],
                round_ % options_.rounds);
  return true;
}

void SameOffset::FillAndDieOff(uint64_t block_bytes, uint64_t round) {
  const uint64_t a_granule = options_.granule_bytes / block_bytes;
  const uint64_t blocks =
      options_.live_bytes / options_.granule_bytes * a_granule;
  for (uint64_t i = 0; i < blocks; ++i) live_.push_back(Take(block_bytes));
  const uint64_t slot = round * a_granule / options_.rounds;
  size_t survivors = 0;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (i % a_granule == slot) {
      live_[survivors++] = live_[i];
    } else {
      Give(live_[i]);
    }
  }
  live_.resize(survivors);
  Probe();
}

void SameOffset::Refill() {
  uint64_t live_bytes = live_.size() * live_.front().bytes;
  for (; live_bytes + options_.granule_bytes <= options_.live_bytes;
       live_bytes += options_.granule_bytes) {
    live_.push_back(Take(options_.granule_bytes));
  }
  Probe();
}

absl::Status SameOffset::Restart() {
  round_ = 0;
  live_.clear();
  return absl::OkStatus();
}

}  // namespace firn::bench
