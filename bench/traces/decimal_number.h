// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Strict parsing of decimal numbers out of trace files: every way of being
// wrong has its own words, fit to follow "FILE:LINE: field: ".

#ifndef FIRN_BENCH_TRACES_DECIMAL_NUMBER_H_
#define FIRN_BENCH_TRACES_DECIMAL_NUMBER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// A number from 0 to `most`, with a fraction or an exponent where it has one.
// InvalidArgument: empty, not a number, negative or more than `most`.
absl::StatusOr<double> ParseDecimal(absl::string_view text, double most);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_DECIMAL_NUMBER_H_
