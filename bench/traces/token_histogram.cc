// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/token_histogram.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/traces/decimal_number.h"
#include "bench/traces/request_tokens.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

constexpr double kMostOffOne = 1e-3;

}  // namespace

absl::StatusOr<TokenHistogram> TokenHistogram::Parse(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&rest, "{") || !absl::ConsumeSuffix(&rest, "}")) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(text), " is not of the form {length: probability, ...}"));
  }
  TokenHistogram histogram;
  rest = absl::StripAsciiWhitespace(rest);
  if (rest.empty()) return histogram;
  double sum = 0;
  size_t comma = 0;
  while (comma != absl::string_view::npos) {
    comma = rest.find(',');
    const absl::string_view entry = rest.substr(0, comma);
    if (comma != absl::string_view::npos) rest.remove_prefix(comma + 1);
    const size_t colon = entry.find(':');
    if (colon == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(entry), " is not of the form length: probability"));
    }
    absl::StatusOr<uint32_t> tokens =
        ParseRequestTokens(absl::StripAsciiWhitespace(entry.substr(0, colon)));
    if (!tokens.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a length: ", tokens.status().message()));
    }
    absl::StatusOr<double> probability =
        ParseDecimal(absl::StripAsciiWhitespace(entry.substr(colon + 1)), 1);
    if (!probability.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the probability of ", *tokens, ": ",
                       probability.status().message()));
    }
    sum += *probability;
    histogram.tokens_.push_back(*tokens);
    histogram.up_to_.push_back(sum);
    histogram.mean_tokens_ += *probability * *tokens;
  }
  if (std::abs(sum - 1) > kMostOffOne) {
    return absl::InvalidArgumentError(
        absl::StrCat("the probabilities add up to ", sum, "; 1 is expected"));
  }
  histogram.tokens_.shrink_to_fit();
  histogram.up_to_.shrink_to_fit();
  return histogram;
}

uint32_t TokenHistogram::At(double share) const {
  const auto place =
      std::upper_bound(up_to_.begin(), up_to_.end(), share * up_to_.back());
  const size_t index = static_cast<size_t>(place - up_to_.begin());
  return tokens_[std::min(index, tokens_.size() - 1)];
}

}  // namespace firn::bench
