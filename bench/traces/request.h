// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests to a served language model: what KV traffic is made from.

#ifndef FIRN_BENCH_TRACES_REQUEST_H_
#define FIRN_BENCH_TRACES_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace firn::bench {

struct Request {
  int64_t time_us = 0;
  uint32_t context_tokens = 0;    // of the prompt
  uint32_t generated_tokens = 0;  // of the answer
  // Names of the prompt's pieces of prefix_piece_tokens tokens each (the last
  // may be shorter), in order; equal names mean equal contents from the start
  // of the prompt on. Empty where the log knows nothing of contents.
  std::vector<uint64_t> prefix_pieces = {};
  uint32_t prefix_piece_tokens = 0;
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

// Those of a list, whose times must not fall.
class ListedRequests : public RequestSource {
 public:
  explicit ListedRequests(std::vector<Request> requests)
      : requests_(std::move(requests)) {}

  absl::StatusOr<bool> Next(Request* request) override {
    if (next_ == requests_.size()) return false;
    *request = requests_[next_++];
    return true;
  }
  absl::Status Rewind() override {
    next_ = 0;
    return absl::OkStatus();
  }

 private:
  const std::vector<Request> requests_;
  size_t next_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_REQUEST_H_
