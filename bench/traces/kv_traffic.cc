// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_traffic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/traces/clock_time.h"
#include "bench/traces/request_log.h"
#include "bench/traces/seeded_random.h"

namespace firn::bench {
namespace {

// Chunks of about this many events spread the cost of starting one.
constexpr size_t kChunkEvents = 256;

// No answer takes longer (some 30,000 years), so that times stay in 64 bits.
constexpr double kLongestUs = 1e18;

// Purposes of draws for one request.
enum Purpose : uint64_t {
  kDrawServed = 1,
  kDrawModel,
  kDrawHit,
  kDrawPrefix,
  kDrawRetain,
};

uint64_t BlocksFor(uint64_t tokens, uint64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

KvTraffic::KvTraffic(absl::string_view name,
                     std::unique_ptr<RequestSource> requests,
                     const KvOptions& options, double share)
    : ChunkedSource(name),
      options_(options),
      requests_(std::move(requests)),
      share_(share),
      us_per_token_(static_cast<double>(kUsPerSecond) / options.decode_tps *
                    options.dilate / share),
      retained_(options.block_bytes.size()) {}

absl::Status KvTraffic::RestartWithShare(double share) {
  us_per_token_ *= share_ / share;
  share_ = share;
  return Rewind();
}

absl::StatusOr<bool> KvTraffic::FillChunk() {
  if (!started_) {
    started_ = true;
    if (absl::Status status = FetchRequest(); !status.ok()) return status;
  }
  do {
    if (!due_.empty() &&
        (!has_request_ || due_.front().time_us <= request_.time_us)) {
      std::pop_heap(due_.begin(), due_.end(), Later());
      const Due due = due_.back();
      due_.pop_back();
      Continue(due);
    } else if (has_request_) {
      Arrive();
      if (absl::Status status = FetchRequest(); !status.ok()) return status;
    } else {
      return chunk_events() > 0;
    }
  } while (chunk_events() < kChunkEvents);
  return true;
}

absl::Status KvTraffic::FetchRequest() {
  do {
    absl::StatusOr<bool> found = requests_->Next(&request_);
    if (!found.ok()) return found.status();
    has_request_ = *found;
    if (!has_request_) return absl::OkStatus();
    ++request_number_;
  } while (!Draw(request_number_, kDrawServed, share_));
  return absl::OkStatus();
}

void KvTraffic::Arrive() {
  size_t slot = active_.size();
  if (free_slots_.empty()) {
    active_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Active& request = active_[slot];
  request.number = request_number_;
  request.model = static_cast<uint32_t>(
      HashedDraw(options_.seed, request_number_, kDrawModel) %
      options_.block_bytes.size());
  request.arrival_us = request_.time_us;
  request.context_tokens = request_.context_tokens;
  request.generated_tokens = request_.generated_tokens;
  const uint64_t prompt_blocks =
      BlocksFor(request.context_tokens, options_.block_tokens);
  const size_t prefixes = retained_.count(request.model);
  if (prefixes > 0 && Draw(request_number_, kDrawHit, options_.hit)) {
    const uint64_t pick =
        HashedDraw(options_.seed, request_number_, kDrawPrefix) % prefixes;
    request.blocks = retained_.Take(request.model, pick).blocks;
    ShrinkTo(&request.blocks, prompt_blocks, request.model, request_.time_us);
  }
  GrowTo(&request, prompt_blocks, request_.time_us);
  Schedule(slot);
}

void KvTraffic::Continue(const Due& due) {
  Active& request = active_[due.slot];
  if (request.context_tokens + request.generated_tokens <= Room(request)) {
    End(&request, due.time_us);
    free_slots_.push_back(due.slot);
    return;
  }
  GrowTo(&request, request.blocks.size() + 1, due.time_us);
  Schedule(due.slot);
}

void KvTraffic::End(Active* request, int64_t time_us) {
  const uint64_t bytes =
      request->blocks.size() * options_.block_bytes[request->model];
  if (bytes == 0 || !Draw(request->number, kDrawRetain, options_.retain)) {
    ShrinkTo(&request->blocks, 0, request->model, time_us);
    return;
  }
  retained_.Add({request->model, bytes, std::move(request->blocks)});
  request->blocks.clear();
  while (retained_.bytes() > options_.retain_budget_bytes) {
    RetainedPrefix oldest = retained_.TakeOldest();
    ShrinkTo(&oldest.blocks, 0, oldest.model, time_us);
  }
}

void KvTraffic::Schedule(size_t slot) {
  const Active& request = active_[slot];
  const uint64_t room = Room(request);
  // The token that needs a block more, or else the last one.
  const uint64_t token =
      room < request.context_tokens + request.generated_tokens
          ? room + 1 - request.context_tokens
          : request.generated_tokens;
  const int64_t after_us = std::llround(
      std::min(us_per_token_ * static_cast<double>(token), kLongestUs));
  due_.push_back({request.arrival_us + after_us, slot});
  std::push_heap(due_.begin(), due_.end(), Later());
}

void KvTraffic::GrowTo(Active* request, uint64_t blocks, int64_t time_us) {
  const uint64_t block_bytes = options_.block_bytes[request->model];
  request->blocks.reserve(blocks);
  while (request->blocks.size() < blocks) {
    request->blocks.push_back(EmitAllocate(time_us, block_bytes));
  }
}

void KvTraffic::ShrinkTo(std::vector<uint64_t>* blocks, size_t keep,
                         uint32_t model, int64_t time_us) {
  while (blocks->size() > keep) {
    EmitFree(time_us, blocks->back(), options_.block_bytes[model]);
    blocks->pop_back();
  }
}

bool KvTraffic::Draw(uint64_t number, uint64_t purpose, double share) const {
  return UnitFraction(HashedDraw(options_.seed, number, purpose)) < share;
}

absl::Status KvTraffic::Restart() {
  started_ = false;
  has_request_ = false;
  request_number_ = 0;
  active_.clear();
  free_slots_.clear();
  due_.clear();
  retained_.Clear();
  return requests_->Rewind();
}

namespace {

absl::StatusOr<uint64_t> CountEvents(TraceSource* trace) {
  uint64_t events = 0;
  TraceEvent event;
  while (true) {
    absl::StatusOr<bool> found = trace->Next(&event);
    if (!found.ok()) return found.status();
    if (!*found) return events;
    ++events;
  }
}

// Twice the blocks of all requests: the events if no prefix were used again.
absl::StatusOr<double> MostEvents(RequestSource* requests,
                                  uint64_t block_tokens) {
  double events = 0;
  Request request;
  while (true) {
    absl::StatusOr<bool> found = requests->Next(&request);
    if (!found.ok()) return found.status();
    if (!*found) break;
    events +=
        2 * static_cast<double>(BlocksFor(
                uint64_t{request.context_tokens} + request.generated_tokens,
                block_tokens));
  }
  if (absl::Status status = requests->Rewind(); !status.ok()) return status;
  return events;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTraffic(
    absl::string_view name, std::unique_ptr<RequestSource> requests,
    const KvOptions& options) {
  double share = 1;
  if (options.events > 0) {
    absl::StatusOr<double> most =
        MostEvents(requests.get(), options.block_tokens);
    if (!most.ok()) return most.status();
    if (*most > 0) {
      share = std::min(1.0, static_cast<double>(options.events) / *most);
    }
  }
  auto traffic =
      std::make_unique<KvTraffic>(name, std::move(requests), options, share);
  if (share < 1) {
    // As many requests overlap at any share, so prefixes are used again as
    // often: one trial tells how many events that saves.
    absl::StatusOr<uint64_t> counted = CountEvents(traffic.get());
    if (!counted.ok()) return counted.status();
    if (*counted > 0) {
      share *=
          static_cast<double>(options.events) / static_cast<double>(*counted);
    }
    absl::Status status = traffic->RestartWithShare(std::min(1.0, share));
    if (!status.ok()) return status;
  }
  return std::unique_ptr<TraceSource>(std::move(traffic));
}

absl::StatusOr<std::unique_ptr<TraceSource>> OpenKvTrafficOfLog(
    absl::string_view name, std::unique_ptr<RequestSource> rows,
    const KvOptions& options) {
  absl::StatusOr<std::unique_ptr<RequestLog>> log =
      RequestLog::Create(std::move(rows), options.days, options.dilate);
  if (!log.ok()) return log.status();
  return OpenKvTraffic(name, *std::move(log), options);
}

}  // namespace firn::bench
