// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of tokens as logs of requests write them.

#ifndef FIRN_BENCH_TRACES_REQUEST_TOKENS_H_
#define FIRN_BENCH_TRACES_REQUEST_TOKENS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

// A whole number up to kMaxRequestTokens. The words of InvalidArgument are fit
// to follow "FILE:LINE: field: ".
absl::StatusOr<uint32_t> ParseRequestTokens(absl::string_view text);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_REQUEST_TOKENS_H_
