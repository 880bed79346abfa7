// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/periodic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/traces/trace_keys.h"

namespace firn::bench {
namespace {

constexpr int64_t kUsPerEvent = 10;

}  // namespace

Periodic::Periodic(absl::string_view name, const PeriodicOptions& options)
    : ChunkedSource(name), options_(options) {}

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
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  const uint64_t largest = std::max(
      options.refill_bytes, *std::max_element(options.block_bytes.begin(),
                                              options.block_bytes.end()));
  if (largest > options.live_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": key live must be at least block_bytes and refill"));
  }
  return std::make_unique<Periodic>(spec.text, options);
}

absl::StatusOr<bool> Periodic::FillChunk() {
  const size_t periods = options_.periods.size();
  if (round_ == options_.block_bytes.size() * periods) return false;
  const uint64_t bytes = options_.block_bytes[round_ / periods];
  const uint64_t period = options_.periods[round_ % periods];
  ++round_;

  std::vector<BlockRef> blocks;
  for (uint64_t i = 0; i < options_.live_bytes / bytes; ++i) {
    blocks.push_back({EmitAllocate(Tick(), bytes), bytes});
  }
  std::vector<BlockRef> live;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % period == 0) {
      live.push_back(blocks[i]);
    } else {
      EmitFree(Tick(), blocks[i].id, bytes);
    }
  }
  EmitProbe(Tick());
  const uint64_t room = options_.live_bytes - live.size() * bytes;
  for (uint64_t i = 0; i < room / options_.refill_bytes; ++i) {
    live.push_back(
        {EmitAllocate(Tick(), options_.refill_bytes), options_.refill_bytes});
  }
  EmitProbe(Tick());
  for (const BlockRef& block : live) EmitFree(Tick(), block.id, block.bytes);
  return true;
}

int64_t Periodic::Tick() {
  time_us_ += kUsPerEvent;
  return time_us_ - kUsPerEvent;
}

absl::Status Periodic::Restart() {
  round_ = 0;
  time_us_ = 0;
  return absl::OkStatus();
}

}  // namespace firn::bench
