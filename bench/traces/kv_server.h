// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The allocations and frees of a server of language models, for the keys and
// values of its requests.
//
// A request, numbered in the order of arrival, is served by one of the models,
// drawn evenly. Its allocations are whole units (kv_options.h), of one unit
// each with layout=blocks.
// - On arrival it allocates its whole prompt at once: block by block, or all in
//   one allocation with layout=sequences.
// - Token number j of its answer comes j / decode_tps after its arrival, and is
//   stored: when the allocations are full, one more of one unit is made.
// - With the last token it ends, and its allocations are freed, last to first.
// Requests in flight when the log ends run to their end; what is retained or
// cached then stays live. Where only a share of the requests is served, answers
// take so long that this end could come long after all else: such a trace ends
// with options.days, and requests in flight stay live, too.
//
// Where contents are not known, requests take prefixes over from each other:
// - With probability `hit`, and where its model has retained prefixes, an
//   arriving request takes one of them over first, drawn evenly, and it is
//   retained no longer. The prefix's allocations that fit into the prompt, from
//   the first on, become its own. The rest of them is freed, and what the
//   prompt needs beyond them is allocated: with layout=sequences as one
//   allocation again. (A sequence longer than the new prompt hence does not
//   fit: contiguous memory is not given back in part.)
// - With probability `retain` an ending request's allocations become the most
//   recently used prefix, and while all prefixes hold more than the budget the
//   least recently used one is freed, whole.
//
// Where contents are known (KvOptions::shared_piece_tokens), blocks are shared:
// - The whole pieces of a prompt are shared with all requests to that model
//   that begin with the same pieces, in flight or past. An arriving request
//   refers to those that are resident and allocates the others. A last piece of
//   fewer tokens and the answer have blocks of their own.
// - A piece that no request refers to any more stays cached. While all cached
//   ones hold more than the budget the least recently used one is freed, whole;
//   of one prompt the deepest first.
//
// All events are on stream 0: the models share one device's pool of memory.
// Draws depend on the seed and the request's number alone. Memory grows with
// what is live, not with the length of the trace.

#ifndef FIRN_BENCH_TRACES_KV_SERVER_H_
#define FIRN_BENCH_TRACES_KV_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/chunked_source.h"
#include "bench/traces/kv_options.h"
#include "bench/traces/kv_pieces.h"
#include "bench/traces/request.h"
#include "bench/traces/retained_prefixes.h"

namespace firn::bench {

// Thread safety: none.
class KvServer : public ChunkedSource {
 public:
  // `requests` are the share `share` (in (0, 1]) of those to be served, and
  // decoding takes 1 / share times as long. Of `options`, events does not
  // matter here, days to a share below 1 alone, and dilate to decoding alone.
  // InvalidArgument while replaying where a request or all together need more
  // memory than any trace can mean.
  KvServer(absl::string_view name, std::shared_ptr<RequestSource> requests,
           const KvOptions& options, double share = 1);

 protected:
  absl::StatusOr<bool> FillChunk() override;
  absl::Status Restart() override;

 private:
  struct Active {
    uint64_t number = 0;  // of the request
    int64_t arrival_us = 0;
    uint32_t model = 0;
    uint64_t context_tokens = 0;
    uint64_t all_tokens = 0;
    uint64_t room_tokens = 0;  // of shared pieces and allocations
    KvPieces::Piece last_piece = 0;
    std::vector<KvAllocation> allocations;  // its own
  };
  // When an active request next needs a unit, or ends.
  struct Due {
    int64_t time_us = 0;
    size_t slot = 0;  // of active_
  };
  struct Later {
    bool operator()(const Due& a, const Due& b) const {
      return a.time_us != b.time_us ? a.time_us > b.time_us : a.slot > b.slot;
    }
  };

  absl::Status FetchRequest();
  // Of request_.
  absl::Status CheckRequest() const;
  // Which limit was passed, and what to do about it.
  absl::Status TooMuchLive() const;

  void Arrive();
  void TakePrefixOver(Active* request);
  void SharePieces(Active* request);
  void Continue(size_t slot);
  void End(Active* request);
  // Puts the request's next unit, or its end, among those due.
  void Schedule(size_t slot);

  uint64_t UnitsFor(uint64_t tokens) const {
    return (tokens + unit_tokens_ - 1) / unit_tokens_;
  }
  // Room for its prompt.
  void AllocatePrompt(Active* request);
  void AllocateUnits(Active* request, uint32_t units);
  // Frees allocations from the back until `keep` are left.
  void FreeFrom(size_t keep, uint32_t model,
                std::vector<KvAllocation>* allocations);
  uint32_t Allocate(uint32_t model, uint32_t units);
  void Free(uint32_t model, KvAllocation allocation);
  uint64_t Bits(uint64_t number, uint64_t purpose) const;
  bool Draw(uint64_t number, uint64_t purpose, double share) const;

  const KvOptions options_;
  const uint64_t unit_tokens_;
  const std::vector<uint64_t> unit_bytes_;  // by model
  const std::shared_ptr<RequestSource> requests_;
  const double us_per_token_;
  const int64_t end_us_;  // of a sampled trace
  bool started_ = false;
  bool has_request_ = false;  // request_ is the next to arrive
  Request request_;
  uint64_t request_number_ = 0;  // of request_, from 1
  int64_t now_us_ = 0;
  uint64_t live_bytes_ = 0;
  uint64_t live_allocations_ = 0;
  std::vector<Active> active_;  // by slot
  std::vector<size_t> free_slots_;
  std::vector<Due> due_;  // a heap: the first is due first
  RetainedPrefixes retained_;
  KvPieces pieces_;
};

// The allocations and frees of a request that finds nothing to share or to take
// over.
uint64_t MostKvEvents(const Request& request, const KvOptions& options);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_KV_SERVER_H_
