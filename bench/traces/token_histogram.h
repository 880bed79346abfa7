// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How long prompts or answers are: numbers of tokens with their probabilities.

#ifndef FIRN_BENCH_TRACES_TOKEN_HISTOGRAM_H_
#define FIRN_BENCH_TRACES_TOKEN_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// Thread safety: read-only once made.
class TokenHistogram {
 public:
  // Without lengths.
  TokenHistogram() = default;

  // Reads "{120: 0.25, 121: 0.75}": probabilities add up to 1, within 0.001.
  // "{}" has no lengths. The words of InvalidArgument are fit to follow
  // "FILE: field: ".
  static absl::StatusOr<TokenHistogram> Parse(absl::string_view text);

  size_t lengths() const { return tokens_.size(); }
  bool empty() const { return tokens_.empty(); }
  double mean_tokens() const { return mean_tokens_; }

  // The length at that share, in [0, 1), of the distribution. REQUIRES:
  // !empty().
  uint32_t At(double share) const;

 private:
  std::vector<uint32_t> tokens_;
  std::vector<double> up_to_;  // the probability of it and those before it
  double mean_tokens_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TOKEN_HISTOGRAM_H_
