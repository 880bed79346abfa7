// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_options.h"

#include <limits>

namespace firn::bench {

KvOptions ReadKvOptions(TraceKeys* keys) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kMaxBlockBytes = uint64_t{1} << 40;
  constexpr uint64_t kMaxBudgetBytes = uint64_t{1} << 50;
  KvOptions options;
  options.block_bytes =
      keys->ByteList("block_bytes", options.block_bytes, kMaxBlockBytes);
  options.block_tokens =
      keys->Count("block_tokens", options.block_tokens, 1, 1'000'000);
  options.decode_tps = keys->Real("decode_tps", options.decode_tps, 1e-3, 1e6);
  options.retain = keys->Real("retain", options.retain, 0, 1);
  options.retain_budget_bytes = keys->Bytes(
      "retain_budget", options.retain_budget_bytes, 0, kMaxBudgetBytes);
  options.hit = keys->Real("hit", options.hit, 0, 1);
  options.days = keys->Real("days", options.days, 1e-6, 1e4);
  options.dilate = keys->Real("dilate", options.dilate, 1e-3, 1e6);
  options.events = keys->Count("events", options.events, 1, kMax);
  options.seed = keys->Count("seed", options.seed, 0, kMax);
  return options;
}

}  // namespace firn::bench
