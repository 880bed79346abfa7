// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/decimal_number.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/whole_number.h"

namespace firn::bench {

absl::StatusOr<double> ParseDecimal(absl::string_view text, double most) {
  if (text.empty()) return absl::InvalidArgumentError("empty");
  double number = 0;
  // SimpleAtod also reads hexadecimal numbers, which have an x.
  if (text.find_first_of("xX") != absl::string_view::npos ||
      !absl::SimpleAtod(text, &number) || std::isnan(number)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not a number"));
  }
  if (number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is negative"));
  }
  if (number > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is out of range; at most ", most));
  }
  return number;
}

}  // namespace firn::bench
