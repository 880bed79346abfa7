// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/capacity.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/traces/byte_count.h"

namespace firn::bench {
namespace {

constexpr uint64_t kMillion = 1'000'000;
constexpr size_t kDecimals = 6;
constexpr uint64_t kLargestMultiple = 1'000'000;

bool AreDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// A decimal number of up to six decimals, in millionths.
absl::StatusOr<uint64_t> ParseMillionths(absl::string_view number) {
  const size_t point = number.find('.');
  const bool has_point = point != absl::string_view::npos;
  const absl::string_view whole = number.substr(0, point);
  std::string decimals(has_point ? number.substr(point + 1) : "0");
  uint64_t multiple = 0;
  if (!AreDigits(whole) || !AreDigits(decimals) ||
      decimals.size() > kDecimals || !absl::SimpleAtoi(whole, &multiple) ||
      multiple > kLargestMultiple) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a multiple of the peak is a number such as 1.02, with at most ",
        kDecimals, " decimals, up to ", kLargestMultiple));
  }
  decimals.resize(kDecimals, '0');
  uint64_t millionths = 0;
  if (!absl::SimpleAtoi(decimals, &millionths)) {
    return absl::InternalError("six digits are a number");
  }
  return multiple * kMillion + millionths;
}

}  // namespace

absl::StatusOr<Capacity> ParseCapacity(absl::string_view text) {
  Capacity capacity;
  if (text == "min") {
    capacity.kind = Capacity::Kind::kMinimum;
    return capacity;
  }
  absl::string_view multiple = text;
  if (absl::ConsumeSuffix(&multiple, "x")) {
    absl::StatusOr<uint64_t> millionths = ParseMillionths(multiple);
    if (!millionths.ok()) return millionths.status();
    if (*millionths == 0) {
      return absl::InvalidArgumentError("must be more than 0 times the peak");
    }
    capacity.kind = Capacity::Kind::kPeakMultiple;
    capacity.peak_millionths = *millionths;
    return capacity;
  }
  absl::StatusOr<uint64_t> bytes = ParseByteCount(text);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        "expected a size such as 80GiB, a multiple of the trace's peak such "
        "as 1.02x, or min");
  }
  if (*bytes == 0 || *bytes > kLargestCapacityBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be more than 0 and at most ",
                     FormatByteCount(kLargestCapacityBytes)));
  }
  capacity.bytes = *bytes;
  return capacity;
}

uint64_t CapacityOfPeakMultiple(uint64_t peak_millionths,
                                uint64_t peak_live_bytes,
                                uint64_t granule_bytes) {
  const absl::uint128 granules = absl::uint128(peak_millionths) *
                                 peak_live_bytes / kMillion / granule_bytes;
  const uint64_t least_granules = std::max<uint64_t>(
      (peak_live_bytes + granule_bytes - 1) / granule_bytes, 1);
  const absl::uint128 most_granules = kLargestCapacityBytes / granule_bytes;
  return granule_bytes *
         std::max(least_granules,
                  absl::Uint128Low64(std::min(granules, most_granules)));
}

}  // namespace firn::bench
