// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests to language models as the traffic of their KV blocks.
//
// A request, numbered in the order of arrival, is served by one of the models,
// drawn evenly. It owns one block per block_tokens of its tokens.
// - On arrival it allocates the blocks of its whole prompt at once. With
//   probability `hit`, and where its model has retained prefixes, it takes one
//   of them over first, drawn evenly: the prefix's blocks become its own, as
//   its first ones, and are retained no longer; it allocates only what its
//   prompt needs beyond them. Blocks of the prefix that the prompt does not
//   need are freed at once.
// - Token number j of its answer comes j / decode_tps after its arrival, and is
//   stored: when the blocks are full, one more is allocated.
// - With the last token it ends. With probability `retain` its blocks become
//   the most recently used prefix, and while all prefixes hold more than the
//   budget the least recently used one is freed, whole. Otherwise its blocks
//   are freed at once. Blocks of one owner are freed last to first.
// Requests in flight when the log ends run to their end; prefixes retained
// then stay live.
//
// All events are on stream 0: the models share one device's pool of memory.
// Draws depend on the seed and the request's number alone. Memory grows with
// what is live, not with the length of the trace.

#ifndef FIRN_BENCH_TRACES_KV_TRAFFIC_H_
#define FIRN_BENCH_TRACES_KV_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/chunked_source.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/request.h"
#include "bench/traces/retained_prefixes.h"

namespace firn::bench {

// Thread safety: none.
class KvTraffic : public ChunkedSource {
 public:
  // Serves the share `share` (in (0, 1]) of `requests`, drawn by number, and
  // decodes for 1 / share times as long. Of `options`, days and events do not
  // matter here, and dilate to decoding alone.
  KvTraffic(absl::string_view name, std::unique_ptr<RequestSource> requests,
            const KvOptions& options, double share = 1);

  // Serves another share from now on, from the start.
  absl::Status RestartWithShare(double share);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  struct Active {
    uint64_t number = 0;  // of the request
    uint32_t model = 0;
    int64_t arrival_us = 0;
    uint64_t context_tokens = 0;
    uint64_t generated_tokens = 0;
    std::vector<uint64_t> blocks;  // ids
  };
  // When an active request next needs a block, or ends.
  struct Due {
    int64_t time_us = 0;
    size_t slot = 0;  // of active_
  };
  struct Later {
    bool operator()(const Due& a, const Due& b) const {
      return a.time_us != b.time_us ? a.time_us > b.time_us : a.slot > b.slot;
    }
  };

  // Moves on to the next request that is served.
  absl::Status FetchRequest();
  void Arrive();
  void Continue(const Due& due);
  void End(Active* request, int64_t time_us);
  // Puts the request's next block, or its end, among those due.
  void Schedule(size_t slot);
  // Tokens that its blocks hold.
  uint64_t Room(const Active& request) const {
    return request.blocks.size() * options_.block_tokens;
  }
  void GrowTo(Active* request, uint64_t blocks, int64_t time_us);
  // Frees blocks from the back until `keep` are left.
  void ShrinkTo(std::vector<uint64_t>* blocks, size_t keep, uint32_t model,
                int64_t time_us);
  bool Draw(uint64_t number, uint64_t purpose, double share) const;

  const KvOptions options_;
  std::unique_ptr<RequestSource> requests_;
  double share_;
  double us_per_token_;
  bool started_ = false;
  bool has_request_ = false;  // request_ is the next to arrive
  Request request_;
  uint64_t request_number_ = 0;  // of request_, from 1
  std::vector<Active> active_;   // by slot
  std::vector<size_t> free_slots_;
  std::vector<Due> due_;  // a heap: the first is due first
  RetainedPrefixes retained_;
};

// The KV traffic of `requests`, which come at the pace of the trace already,
// brought down to options.events by replaying a trial.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTraffic(
    absl::string_view name, std::unique_ptr<RequestSource> requests,
    const KvOptions& options);

// Likewise of a log of requests as recorded, played for options.days at the
// pace of options.dilate (request_log.h).
absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficOfLog(
    absl::string_view name, std::unique_ptr<RequestSource> rows,
    const KvOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_TRAFFIC_H_
