// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How requests become KV traffic: the keys that every trace of requests takes.

#ifndef FIRN_BENCH_TRACES_KV_OPTIONS_H_
#define FIRN_BENCH_TRACES_KV_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/traces/trace_keys.h"

namespace firn::bench {

// How the keys and values of a request lie in memory.
enum class KvLayout : uint8_t {
  // In blocks of one size, wherever they may lie, as paged attention has it.
  kBlocks,
  // A prompt is one contiguous allocation; the answer adds small ones.
  kSequences,
};

struct KvOptions {
  KvLayout layout = KvLayout::kBlocks;
  // One model per entry: the bytes of its blocks. A request is served by one of
  // them, drawn evenly.
  std::vector<uint64_t> block_bytes = {uint64_t{32} << 10, uint64_t{192} << 10,
                                       uint64_t{512} << 10};
  // Tokens whose keys and values one block holds.
  uint64_t block_tokens = 16;
  // Of sequences, one model per entry: the bytes of a token.
  std::vector<uint64_t> token_bytes = {uint64_t{128} << 10};
  // Tokens a second that a request generates.
  double decode_tps = 30;
  // The share of requests whose allocations stay as a prefix when they end, ...
  double retain = 0.35;
  // ... in no more memory than this, over all models; the prefix not used for
  // longest goes first. 0 retains nothing.
  uint64_t retain_budget_bytes = uint64_t{3} << 30;
  // The share of requests that start from a retained prefix of their model,
  // where there is one.
  double hit = 0.3;
  // Not 0: the requests name the contents of their prompts in pieces of this
  // many tokens, a multiple of block_tokens, and blocks are shared by those
  // names instead of by `retain` and `hit`. Blocks alone can be shared.
  uint64_t shared_piece_tokens = 0;
  // For how long requests arrive, and by what their times are multiplied (see
  // request_log.h). Decoding takes `dilate` times as long, too, so that as many
  // requests overlap as without it. The swing of a short log over 24 h goes by
  // the trace's own clock, dilated or not; ServeGen's day and night are in its
  // data, and are dilated with them.
  double days = 3;
  double dilate = 1;
  // About how many allocations and frees the trace should have at most: a share
  // of the requests is left out and decoding takes that much longer, so that as
  // many overlap as before; the trace then ends after `days`, whatever is still
  // live. 0: no limit.
  uint64_t events = 0;
  uint64_t seed = 1;
};

// Reads layout (blocks or sequences), block_bytes, block_tokens, token_bytes,
// decode_tps, retain, retain_budget, hit, days, dilate, events and seed. Keys
// that mean nothing beside the others are refused: block_bytes and block_tokens
// with layout=sequences, token_bytes with layout=blocks, and retain and hit
// where blocks are shared by contents. The caller calls keys->Finish().
//
// `piece_tokens` is not 0 where the log tells contents in pieces of so many
// tokens: blocks are then shared by them, and block_tokens must divide it.
// Sequences share nothing (a prefix cannot be part of two contiguous
// allocations): they are retained and hit as with any other log.
KvOptions ReadKvOptions(TraceKeys* keys, uint64_t piece_tokens = 0);

// Allocations are whole units: a block, or 16 tokens of a sequence.
uint64_t UnitTokens(const KvOptions& options);
// By model.
std::vector<uint64_t> UnitBytes(const KvOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_OPTIONS_H_
