// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Amounts as people write them on the command line: sizes such as 80GiB and
// counts such as 20M.

#ifndef FIRN_BENCH_TRACES_BYTE_COUNT_H_
#define FIRN_BENCH_TRACES_BYTE_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// A number of bytes, or one followed by B, KiB, MiB, GiB or TiB; with a unit up
// to three decimals ("1.5GiB"), rounded down to a whole byte.
absl::StatusOr<uint64_t> ParseByteCount(absl::string_view text);

// A whole number, or one followed by K, M or G (10^3, 10^6, 10^9), then with up
// to three decimals ("1.5M").
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);

// The shortest exact form: "32KiB", "80GiB", "1000B".
std::string FormatByteCount(uint64_t bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_BYTE_COUNT_H_
