// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A share of a source's requests, for traces that are to be shorter than what
// the source tells.

#ifndef FIRN_BENCH_TRACES_KV_SAMPLE_H_
#define FIRN_BENCH_TRACES_KV_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/request.h"

namespace firn::bench {

// Gives those requests whose draw, by the seed and their number alone, is below
// the share: a greater share has all requests of a smaller one. As reading a
// long log again costs more than serving a sample of it, the requests of least
// draws are kept in memory; the source is read again only for a share beyond
// theirs. Thread safety: none.
class KvSample : public RequestSource {
 public:
  // Reads all of `requests`, and keeps as many as come to two to four times
  // options.events, or those that fit into some 128 MiB.
  static absl::StatusOr<std::unique_ptr<KvSample>> Create(
      std::unique_ptr<RequestSource> requests, const KvOptions& options);

  // Of all requests, if they found nothing to share or to take over.
  double most_events() const { return most_events_; }
  // The share whose requests are in memory.
  double kept_share() const { return kept_share_; }

  // From the start, in (0, 1]; 1 until then.
  absl::Status SetShare(double share);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  struct Kept {
    double draw = 0;
    uint64_t events = 0;
    Request request;
  };

  KvSample(std::unique_ptr<RequestSource> requests, const KvOptions& options);

  // Its memory, all told.
  static size_t BytesOf(const Kept& kept);
  absl::Status Keep();
  // Lets go of the greatest draws until about half is left.
  void Thin();
  double DrawOf(uint64_t number) const;

  const std::unique_ptr<RequestSource> requests_;
  const KvOptions options_;
  double most_events_ = 0;
  // In order of arrival. A deque: it never holds more than it needs, nor twice
  // that while it grows.
  std::deque<Kept> kept_;
  double kept_share_ = 1;  // draws below it are kept
  double share_ = 1;
  size_t next_ = 0;      // of kept_
  uint64_t number_ = 0;  // of the request read last, from 1
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_SAMPLE_H_
