// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many blocks a generator may keep live: host memory grows with them.

#ifndef FIRN_BENCH_TRACES_BLOCK_LIMIT_H_
#define FIRN_BENCH_TRACES_BLOCK_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace firn::bench {

constexpr uint64_t kMaxGeneratedBlocks = uint64_t{1} << 22;

// InvalidArgument where blocks of `block_bytes` (the value of `key`, or a mean
// that follows from it) fill `live_bytes` with more than kMaxGeneratedBlocks.
// `path` is for the message.
absl::Status CheckBlockLimit(absl::string_view path, uint64_t live_bytes,
                             absl::string_view key, uint64_t block_bytes);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_BLOCK_LIMIT_H_
