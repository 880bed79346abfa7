// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/byte_count.h"

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {
namespace {

struct Unit {
  absl::string_view suffix;
  uint64_t factor;
};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
};

constexpr Unit kCountUnits[] = {
    {"", 1}, {"K", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}};

// The number that `text` starts with, in thousandths of `factor`.
absl::StatusOr<uint64_t> Scale(absl::string_view text, absl::string_view number,
                               uint64_t factor, absl::string_view wanted) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is not ", wanted));
  const size_t point = number.find('.');
  absl::StatusOr<uint64_t> whole = ParseWholeNumber(number.substr(0, point));
  if (!whole.ok()) return whole.status();
  uint64_t fraction = 0;
  if (point != absl::string_view::npos) {
    const absl::string_view decimals = number.substr(point + 1);
    if (factor == 1 || decimals.empty() || decimals.size() > 3) return wrong;
    uint64_t unit = 100;
    for (const char c : decimals) {
      if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return wrong;
      fraction += static_cast<uint64_t>(c - '0') * unit;
      unit /= 10;
    }
  }
  const uint64_t part = fraction * factor / 1000;
  if (*whole > (std::numeric_limits<uint64_t>::max() - part) / factor) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is beyond 64 bits"));
  }
  return *whole * factor + part;
}

template <size_t kUnits>
absl::StatusOr<uint64_t> ParseAmount(absl::string_view text,
                                     const Unit (&units)[kUnits],
                                     absl::string_view wanted) {
  size_t end = text.size() > 1 && text[0] == '-' ? 1 : 0;
  while (end < text.size() &&
         (absl::ascii_isdigit(static_cast<unsigned char>(text[end])) ||
          text[end] == '.')) {
    ++end;
  }
  for (const Unit& unit : units) {
    if (end > 0 && text.substr(end) == unit.suffix) {
      return Scale(text, text.substr(0, end), unit.factor, wanted);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is not ", wanted));
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteCount(absl::string_view text) {
  return ParseAmount(text, kByteUnits,
                     "a size such as 4096, 32KiB, 2MiB or 80GiB");
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  return ParseAmount(text, kCountUnits, "a count such as 300, 50K or 20M");
}

std::string FormatByteCount(uint64_t bytes) {
  for (size_t i = sizeof(kByteUnits) / sizeof(kByteUnits[0]); --i > 0;) {
    const Unit& unit = kByteUnits[i];
    if (bytes >= unit.factor && bytes % unit.factor == 0) {
      return absl::StrCat(bytes / unit.factor, unit.suffix);
    }
  }
  return absl::StrCat(bytes, "B");
}

}  // namespace firn::bench
