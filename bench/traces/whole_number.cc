// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/whole_number.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace firn::bench {
namespace {

constexpr size_t kQuotedChars = 40;

absl::StatusOr<uint64_t> ParseDigits(absl::string_view digits, uint64_t base,
                                     absl::string_view text,
                                     absl::string_view wanted) {
  if (digits.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not ", wanted));
  }
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t value = 0;
  bool too_large = false;
  for (const char c : digits) {
    uint64_t digit = base;
    if (c >= '0' && c <= '9') digit = static_cast<uint64_t>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<uint64_t>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = static_cast<uint64_t>(c - 'A') + 10;
    if (digit >= base) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(text), " is not ", wanted));
    }
    // Keep looking for characters that are no digits: they are the worse error.
    if (value > (kMax - digit) / base) too_large = true;
    if (!too_large) value = value * base + digit;
  }
  if (too_large) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is beyond 64 bits; at most ", kMax));
  }
  return value;
}

}  // namespace

absl::StatusOr<uint64_t> ParseWholeNumber(absl::string_view text) {
  if (text.size() > 1 && text[0] == '-' &&
      absl::ascii_isdigit(static_cast<unsigned char>(text[1]))) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is negative; give 0 or more"));
  }
  return ParseDigits(text, 10, text, "a whole number");
}

absl::StatusOr<uint64_t> ParsePointer(absl::string_view text) {
  if (text == "(nil)" || text == "nullptr") return 0;
  absl::string_view digits = text;
  if (absl::StartsWith(digits, "0x") || absl::StartsWith(digits, "0X")) {
    digits.remove_prefix(2);
  }
  return ParseDigits(digits, 16, text, "a hexadecimal number such as 0x7f00");
}

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kQuotedChars;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kQuotedChars)),
                      cut ? "'..." : "'");
}

}  // namespace firn::bench
