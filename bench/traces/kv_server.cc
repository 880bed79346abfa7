// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_server.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/traces/clock_time.h"
#include "bench/traces/live_blocks.h"
#include "bench/traces/seeded_random.h"

namespace firn::bench {
namespace {

// Chunks of about this many events spread the cost of starting one.
constexpr size_t kChunkEvents = 256;

// No answer takes longer (some 30,000 years), so that times stay in 64 bits.
constexpr double kLongestUs = 1e18;

// Beyond these the memory of a replay, not of the trace, would be at stake.
constexpr uint64_t kMaxRequestAllocations = uint64_t{1} << 20;
constexpr uint64_t kMaxLiveAllocations = uint64_t{1} << 25;
constexpr size_t kMaxActiveRequests = size_t{1} << 20;
// Memory for so many is not worth giving back.
constexpr size_t kFewAllocations = 8;

// Purposes of draws for one request.
enum Purpose : uint64_t {
  kDrawModel = 2,
  kDrawHit,
  kDrawPrefix,
  kDrawRetain,
};

// Where a sampled trace ends; one of all requests does not.
int64_t EndOf(const KvOptions& options, double share) {
  if (share == 1) return std::numeric_limits<int64_t>::max();
  return std::llround(std::ceil(options.days * static_cast<double>(kUsPerDay)));
}

size_t PieceBlocks(const KvOptions& options) {
  return options.shared_piece_tokens / options.block_tokens;
}

}  // namespace

KvServer::KvServer(absl::string_view name,
                   std::shared_ptr<RequestSource> requests,
                   const KvOptions& options, double share)
    : ChunkedSource(name),
      options_(options),
      unit_tokens_(UnitTokens(options)),
      unit_bytes_(UnitBytes(options)),
      requests_(std::move(requests)),
      us_per_token_(static_cast<double>(kUsPerSecond) / options.decode_tps *
                    options.dilate / share),
      end_us_(EndOf(options, share)),
      retained_(unit_bytes_.size()),
      pieces_(unit_bytes_, PieceBlocks(options)) {}

absl::StatusOr<bool> KvServer::FillChunk() {
  if (!started_) {
    started_ = true;
    if (absl::Status status = FetchRequest(); !status.ok()) return status;
  }
  do {
    const bool arrives =
        has_request_ &&
        (due_.empty() || request_.time_us < due_.front().time_us);
    if (!arrives && due_.empty()) return chunk_events() > 0;
    now_us_ = arrives ? request_.time_us : due_.front().time_us;
    if (now_us_ >= end_us_) return chunk_events() > 0;
    if (arrives) {
      Arrive();
      if (absl::Status status = FetchRequest(); !status.ok()) return status;
    } else {
      std::pop_heap(due_.begin(), due_.end(), Later());
      const size_t slot = due_.back().slot;
      due_.pop_back();
      Continue(slot);
    }
    // Each step adds one request's prompt at the most.
    if (live_allocations_ > kMaxLiveAllocations ||
        live_bytes_ > LiveBlocks::kMaxLiveBytes ||
        due_.size() > kMaxActiveRequests) {
      return TooMuchLive();
    }
  } while (chunk_events() < kChunkEvents);
  return true;
}

absl::Status KvServer::FetchRequest() {
  absl::StatusOr<bool> found = requests_->Next(&request_);
  if (!found.ok()) return found.status();
  has_request_ = *found;
  if (!has_request_) return absl::OkStatus();
  ++request_number_;
  return CheckRequest();
}

absl::Status KvServer::CheckRequest() const {
  const uint64_t allocations = MostKvEvents(request_, options_) / 2;
  if (allocations <= kMaxRequestAllocations) return absl::OkStatus();
  const uint64_t tokens =
      uint64_t{request_.context_tokens} + request_.generated_tokens;
  if (options_.layout == KvLayout::kSequences) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), ": an answer of ", request_.generated_tokens, " tokens needs ",
        allocations, " allocations of ", unit_tokens_, " tokens; at most ",
        kMaxRequestAllocations, ", so give shorter answers"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name(), ": a request of ", tokens, " tokens needs ", allocations,
      " blocks of ", unit_tokens_, " tokens; at most ", kMaxRequestAllocations,
      ", so give a larger block_tokens"));
}

absl::Status KvServer::TooMuchLive() const {
  const bool blocks = options_.layout == KvLayout::kBlocks;
  if (live_allocations_ > kMaxLiveAllocations) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": more than ", kMaxLiveAllocations,
                     " allocations live at once; give a larger ",
                     blocks ? "block_tokens or decode_tps" : "decode_tps",
                     ", or a smaller retain_budget"));
  }
  if (live_bytes_ > LiveBlocks::kMaxLiveBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": more than ", LiveBlocks::kMaxLiveBytes,
                     " bytes live at once; give smaller ",
                     blocks ? "block_bytes" : "token_bytes"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name(), ": more than ", kMaxActiveRequests,
                   " requests in flight at once; give a larger decode_tps"));
}

void KvServer::Arrive() {
  size_t slot = active_.size();
  if (free_slots_.empty()) {
    active_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Active& request = active_[slot];
  request.number = request_number_;
  request.arrival_us = now_us_;
  request.model = static_cast<uint32_t>(Bits(request_number_, kDrawModel) %
                                        unit_bytes_.size());
  request.context_tokens = request_.context_tokens;
  request.all_tokens =
      uint64_t{request_.context_tokens} + request_.generated_tokens;
  request.room_tokens = 0;
  request.last_piece = pieces_.Start(request.model);
  if (options_.shared_piece_tokens > 0) {
    SharePieces(&request);
  } else {
    TakePrefixOver(&request);
  }
  AllocatePrompt(&request);
  Schedule(slot);
}

void KvServer::TakePrefixOver(Active* request) {
  const size_t prefixes = retained_.count(request->model);
  if (prefixes == 0 || !Draw(request->number, kDrawHit, options_.hit)) return;
  const uint64_t pick = Bits(request->number, kDrawPrefix) % prefixes;
  request->allocations = retained_.Take(request->model, pick).allocations;
  const uint64_t prompt_units = UnitsFor(request->context_tokens);
  uint64_t units = 0;
  size_t keep = 0;
  while (keep < request->allocations.size() &&
         units + request->allocations[keep].units <= prompt_units) {
    units += request->allocations[keep++].units;
  }
  request->room_tokens = units * unit_tokens_;
  FreeFrom(keep, request->model, &request->allocations);
  // Nor does a long prefix's memory stay with what few blocks are left of it.
  if (request->allocations.capacity() > 2 * keep + kFewAllocations) {
    request->allocations.shrink_to_fit();
  }
}

void KvServer::SharePieces(Active* request) {
  const uint64_t tokens = options_.shared_piece_tokens;
  const size_t whole_pieces = static_cast<size_t>(std::min<uint64_t>(
      request_.prefix_pieces.size(), request->context_tokens / tokens));
  for (size_t i = 0; i < whole_pieces; ++i) {
    const uint64_t piece_name = request_.prefix_pieces[i];
    KvPieces::Piece piece = pieces_.Find(request->last_piece, piece_name);
    if (piece != KvPieces::kNone) {
      pieces_.Refer(piece);
    } else {
      piece = pieces_.Add(request->last_piece, piece_name);
      for (uint32_t& id : pieces_.blocks(piece)) {
        id = Allocate(request->model, 1);
      }
    }
    request->last_piece = piece;
  }
  request->room_tokens = whole_pieces * tokens;
}

void KvServer::Continue(size_t slot) {
  Active& request = active_[slot];
  if (request.all_tokens <= request.room_tokens) {
    End(&request);
    // A free slot holds no memory of the requests it once had.
    request.allocations = std::vector<KvAllocation>();
    free_slots_.push_back(slot);
    return;
  }
  AllocateUnits(&request, 1);
  Schedule(slot);
}

void KvServer::End(Active* request) {
  const uint32_t model = request->model;
  if (options_.shared_piece_tokens > 0) {
    FreeFrom(0, model, &request->allocations);
    pieces_.Release(request->last_piece);
    while (pieces_.cached_bytes() > options_.retain_budget_bytes) {
      const KvPieces::Piece oldest = pieces_.oldest();
      const absl::Span<uint32_t> blocks = pieces_.blocks(oldest);
      for (size_t i = blocks.size(); i-- > 0;) {
        Free(pieces_.model(oldest), {blocks[i], 1});
      }
      pieces_.RemoveOldest();
    }
    return;
  }
  if (request->allocations.empty() ||
      !Draw(request->number, kDrawRetain, options_.retain)) {
    FreeFrom(0, model, &request->allocations);
    return;
  }
  const uint64_t bytes =
      request->room_tokens / unit_tokens_ * unit_bytes_[model];
  retained_.Add({model, bytes, std::move(request->allocations)});
  request->allocations.clear();
  while (retained_.bytes() > options_.retain_budget_bytes) {
    RetainedPrefix oldest = retained_.TakeOldest();
    FreeFrom(0, oldest.model, &oldest.allocations);
  }
}

void KvServer::Schedule(size_t slot) {
  const Active& request = active_[slot];
  // The token that needs a unit more, or else the last one.
  const uint64_t tokens =
      std::min(request.room_tokens + 1, request.all_tokens) -
      request.context_tokens;
  const int64_t after_us = std::llround(
      std::min(us_per_token_ * static_cast<double>(tokens), kLongestUs));
  due_.push_back({request.arrival_us + after_us, slot});
  std::push_heap(due_.begin(), due_.end(), Later());
}

void KvServer::AllocatePrompt(Active* request) {
  const uint64_t units =
      UnitsFor(request->context_tokens -
               std::min(request->room_tokens, request->context_tokens));
  const bool contiguous = options_.layout == KvLayout::kSequences;
  // The answer's are not counted before they are there: no memory for them yet.
  request->allocations.reserve(
      request->allocations.size() +
      (contiguous ? std::min<uint64_t>(units, 1) : units));
  if (contiguous && units > 0) {
    AllocateUnits(request, static_cast<uint32_t>(units));
  } else {
    for (uint64_t i = 0; i < units; ++i) AllocateUnits(request, 1);
  }
}

void KvServer::AllocateUnits(Active* request, uint32_t units) {
  request->allocations.push_back({Allocate(request->model, units), units});
  request->room_tokens += units * unit_tokens_;
}

void KvServer::FreeFrom(size_t keep, uint32_t model,
                        std::vector<KvAllocation>* allocations) {
  while (allocations->size() > keep) {
    Free(model, allocations->back());
    allocations->pop_back();
  }
}

uint32_t KvServer::Allocate(uint32_t model, uint32_t units) {
  const uint64_t bytes = units * unit_bytes_[model];
  live_bytes_ += bytes;
  ++live_allocations_;
  return static_cast<uint32_t>(EmitAllocate(now_us_, bytes));
}

void KvServer::Free(uint32_t model, KvAllocation allocation) {
  const uint64_t bytes = allocation.units * unit_bytes_[model];
  live_bytes_ -= bytes;
  --live_allocations_;
  EmitFree(now_us_, allocation.id, bytes);
}

uint64_t KvServer::Bits(uint64_t number, uint64_t purpose) const {
  return HashedDraw(options_.seed, number, purpose);
}

bool KvServer::Draw(uint64_t number, uint64_t purpose, double share) const {
  return UnitFraction(Bits(number, purpose)) < share;
}

absl::Status KvServer::Restart() {
  started_ = false;
  has_request_ = false;
  request_number_ = 0;
  now_us_ = 0;
  live_bytes_ = live_allocations_ = 0;
  active_.clear();
  free_slots_.clear();
  due_.clear();
  retained_.Clear();
  pieces_.Clear();
  return requests_->Rewind();
}

uint64_t MostKvEvents(const Request& request, const KvOptions& options) {
  const uint64_t unit_tokens = UnitTokens(options);
  const uint64_t all_tokens =
      uint64_t{request.context_tokens} + request.generated_tokens;
  const uint64_t units = (all_tokens + unit_tokens - 1) / unit_tokens;
  if (options.layout == KvLayout::kBlocks) return 2 * units;
  const uint64_t prompt_units =
      (request.context_tokens + unit_tokens - 1) / unit_tokens;
  return 2 * (units - prompt_units + (prompt_units > 0 ? 1 : 0));
}

}  // namespace firn::bench
