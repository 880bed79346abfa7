// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How requests become KV-block traffic: the keys that every trace of requests
// takes.

#ifndef FIRN_BENCH_TRACES_KV_OPTIONS_H_
#define FIRN_BENCH_TRACES_KV_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "bench/traces/trace_keys.h"

namespace firn::bench {

struct KvOptions {
  // One model per entry: the bytes of its blocks. A request is served by one of
  // them, drawn evenly.
  std::vector<uint64_t> block_bytes = {uint64_t{32} << 10, uint64_t{192} << 10,
                                       uint64_t{512} << 10};
  // Tokens whose keys and values one block holds.
  uint64_t block_tokens = 16;
  // Tokens a second that a request generates.
  double decode_tps = 30;
  // The share of requests whose blocks stay as a prefix when they end, ...
  double retain = 0.35;
  // ... in no more memory than this, over all models; the prefix not used for
  // longest goes first. 0 retains nothing.
  uint64_t retain_budget_bytes = uint64_t{3} << 30;
  // The share of requests that start from a retained prefix of their model,
  // where there is one.
  double hit = 0.3;
  // See request_log.h. Decoding takes `dilate` times as long, too, so that as
  // many requests overlap as without it.
  double days = 3;
  double dilate = 1;
  // About how many allocations and frees the trace should have at most: a share
  // of the requests is left out and decoding takes that much longer, so that as
  // many overlap as before. 0: no limit.
  uint64_t events = 0;
  uint64_t seed = 1;
};

// Reads block_bytes, block_tokens, decode_tps, retain, retain_budget, hit,
// days, dilate, events and seed. The caller calls keys->Finish().
KvOptions ReadKvOptions(TraceKeys* keys);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_OPTIONS_H_
