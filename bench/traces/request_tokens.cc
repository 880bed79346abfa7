// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/request_tokens.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/request.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {

absl::StatusOr<uint32_t> ParseRequestTokens(absl::string_view text) {
  absl::StatusOr<uint64_t> number = ParseWholeNumber(text);
  if (!number.ok()) return number.status();
  if (*number > kMaxRequestTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(*number, " is more than any model's context; at most ",
                     kMaxRequestTokens));
  }
  return static_cast<uint32_t>(*number);
}

}  // namespace firn::bench
