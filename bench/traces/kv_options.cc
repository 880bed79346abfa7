// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_options.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace firn::bench {
namespace {

constexpr uint64_t kSequenceUnitTokens = 16;

void RefuseUnused(const KvOptions& options, TraceKeys* keys) {
  if (options.layout == KvLayout::kSequences) {
    constexpr absl::string_view kReason =
        "layout=sequences has no blocks; give token_bytes, or layout=blocks";
    keys->Refuse("block_bytes", kReason);
    keys->Refuse("block_tokens", kReason);
  } else {
    keys->Refuse("token_bytes",
                 "layout=blocks goes by block_bytes and block_tokens; give "
                 "those, or layout=sequences");
  }
  if (options.shared_piece_tokens == 0) return;
  constexpr absl::string_view kReason =
      "this log tells which prompts have contents in common, and blocks are "
      "shared by that; leave the key out, or give layout=sequences";
  keys->Refuse("retain", kReason);
  keys->Refuse("hit", kReason);
  if (options.shared_piece_tokens % options.block_tokens != 0) {
    keys->Refuse(
        "block_tokens",
        absl::StrCat("this log tells contents by pieces of ",
                     options.shared_piece_tokens,
                     " tokens, which must be whole blocks; give a divisor of ",
                     options.shared_piece_tokens));
  }
}

}  // namespace

KvOptions ReadKvOptions(TraceKeys* keys, uint64_t piece_tokens) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kMaxBlockBytes = uint64_t{1} << 40;
  constexpr uint64_t kMaxTokenBytes = uint64_t{1} << 30;
  constexpr uint64_t kMaxBudgetBytes = uint64_t{1} << 50;
  KvOptions options;
  options.layout = static_cast<KvLayout>(keys->Choice(
      "layout", static_cast<size_t>(options.layout), {"blocks", "sequences"}));
  options.block_bytes =
      keys->ByteList("block_bytes", options.block_bytes, kMaxBlockBytes);
  options.block_tokens =
      keys->Count("block_tokens", options.block_tokens, 1, 1'000'000);
  options.token_bytes =
      keys->ByteList("token_bytes", options.token_bytes, kMaxTokenBytes);
  options.decode_tps = keys->Real("decode_tps", options.decode_tps, 1e-3, 1e6);
  options.retain = keys->Real("retain", options.retain, 0, 1);
  options.retain_budget_bytes = keys->Bytes(
      "retain_budget", options.retain_budget_bytes, 0, kMaxBudgetBytes);
  options.hit = keys->Real("hit", options.hit, 0, 1);
  options.days = keys->Real("days", options.days, 1e-6, 1e4);
  options.dilate = keys->Real("dilate", options.dilate, 1e-3, 1e6);
  options.events = keys->Count("events", options.events, 1, kMax);
  options.seed = keys->Count("seed", options.seed, 0, kMax);
  if (options.layout == KvLayout::kBlocks) {
    options.shared_piece_tokens = piece_tokens;
  }
  RefuseUnused(options, keys);
  return options;
}

uint64_t UnitTokens(const KvOptions& options) {
  return options.layout == KvLayout::kBlocks ? options.block_tokens
                                             : kSequenceUnitTokens;
}

std::vector<uint64_t> UnitBytes(const KvOptions& options) {
  if (options.layout == KvLayout::kBlocks) return options.block_bytes;
  std::vector<uint64_t> unit_bytes = options.token_bytes;
  for (uint64_t& bytes : unit_bytes) bytes *= kSequenceUnitTokens;
  return unit_bytes;
}

}  // namespace firn::bench
