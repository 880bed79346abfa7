// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_options.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "bench/traces/byte_source.h"
#include "bench/traces/trace_keys.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr uint64_t kMostLoops = 1'000'000'000;

// The first number in the name of the file at `path`; `key` would say the same.
absl::StatusOr<uint64_t> LengthInName(absl::string_view path,
                                      absl::string_view key) {
  // Without a slash: from the start, as npos + 1 is 0.
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  const auto begin =
      std::find_if(name.begin(), name.end(), absl::ascii_isdigit);
  const auto end = std::find_if_not(begin, name.end(), absl::ascii_isdigit);
  const absl::string_view digits(begin, static_cast<size_t>(end - begin));
  if (digits.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": the file's name holds no number that would be its "
                     "sequence length; give key ",
                     key));
  }
  absl::StatusOr<uint64_t> length = ParseWholeNumber(digits);
  if (!length.ok() || *length == 0 || *length > TorchLengths::kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", Quoted(digits),
                     " in the file's name is no sequence length "
                     "from 1 to ",
                     TorchLengths::kMost, "; give key ", key));
  }
  return length;
}

}  // namespace

absl::StatusOr<TorchOptions> ReadTorchOptions(const TraceSpec& spec) {
  TorchOptions options;
  TraceKeys keys(spec, "a PyTorch memory snapshot");
  options.loops = keys.Count("loops", options.loops, 1, kMostLoops);
  options.jitter =
      keys.CountList("jitter", options.jitter, 1, TorchLengths::kMost);
  options.pair = keys.Text("pair");
  options.lengths.own = keys.Count("length", 0, 1, TorchLengths::kMost);
  options.lengths.pair = keys.Count("pair_length", 0, 1, TorchLengths::kMost);
  options.eval_every =
      keys.Count("eval_every", options.eval_every, 0, kMostLoops);
  options.checkpoint_every =
      keys.Count("checkpoint_every", options.checkpoint_every, 0, kMostLoops);
  options.seed = keys.Count("seed", options.seed, 0, ~uint64_t{0});
  if (options.pair.empty()) {
    for (const absl::string_view key : {"jitter", "length", "pair_length"}) {
      keys.Refuse(key,
                  "needs pair=FILE, the same program recorded at another "
                  "sequence length: one snapshot does not tell which sizes "
                  "depend on it");
    }
  }
  if (absl::Status status = keys.Finish(); !status.ok()) return status;
  if (options.pair.empty()) return options;
  // A missing file is a better reason than what its name lacks.
  if (absl::Status pair = OpenByteSource(options.pair).status(); !pair.ok()) {
    return pair;
  }
  if (options.lengths.own == 0) {
    absl::StatusOr<uint64_t> length = LengthInName(spec.path, "length");
    if (!length.ok()) return length.status();
    options.lengths.own = *length;
  }
  if (options.lengths.pair == 0) {
    absl::StatusOr<uint64_t> length = LengthInName(options.pair, "pair_length");
    if (!length.ok()) return length.status();
    options.lengths.pair = *length;
  }
  if (options.lengths.own == options.lengths.pair) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.path, ": key pair=", Quoted(options.pair),
        ": both were recorded at the length ", options.lengths.own,
        "; give one of another length, or the keys length and pair_length"));
  }
  return options;
}

}  // namespace firn::bench
