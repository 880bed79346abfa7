// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests to a served language model: what KV traffic is made from.

#ifndef FIRN_BENCH_TRACES_REQUEST_H_
#define FIRN_BENCH_TRACES_REQUEST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace firn::bench {

struct Request {
  int64_t time_us = 0;
  uint32_t context_tokens = 0;    // of the prompt
  uint32_t generated_tokens = 0;  // of the answer
};

// More than any model's context; a larger number is a damaged log.
inline constexpr uint64_t kMaxRequestTokens = 10'000'000;

// Thread safety: none.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  // The next request in order of time, which never falls; false at the end.
  virtual absl::StatusOr<bool> Next(Request* request) = 0;
  virtual absl::Status Rewind() = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_REQUEST_H_
