// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Strict parsing of whole numbers out of trace files: every way of being wrong
// has its own words, fit to follow "FILE:LINE: field: ".

#ifndef FIRN_BENCH_TRACES_WHOLE_NUMBER_H_
#define FIRN_BENCH_TRACES_WHOLE_NUMBER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// Decimal digits only. InvalidArgument: empty, negative, beyond 64 bits, or not
// a whole number.
absl::StatusOr<uint64_t> ParseWholeNumber(absl::string_view text);

// Hexadecimal digits, with or without 0x: pointers and streams. "(nil)" is 0.
absl::StatusOr<uint64_t> ParsePointer(absl::string_view text);

// `text` in quotes for a message: made printable, and cut when long.
std::string Quoted(absl::string_view text);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_WHOLE_NUMBER_H_
