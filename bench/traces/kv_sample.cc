// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/kv_sample.h"

#include <algorithm>
#include <utility>

#include "bench/traces/kv_server.h"
#include "bench/traces/seeded_random.h"

namespace firn::bench {
namespace {

constexpr size_t kMostKeptBytes = size_t{128} << 20;
constexpr double kHeadroom = 2;  // of events, for what requests share

// A purpose of draws for one request, beside those of the server.
constexpr uint64_t kDrawServed = 1;

}  // namespace

KvSample::KvSample(std::unique_ptr<RequestSource> requests,
                   const KvOptions& options)
    : requests_(std::move(requests)), options_(options) {}

absl::StatusOr<std::unique_ptr<KvSample>> KvSample::Create(
    std::unique_ptr<RequestSource> requests, const KvOptions& options) {
  std::unique_ptr<KvSample> sample(new KvSample(std::move(requests), options));
  if (absl::Status status = sample->Keep(); !status.ok()) return status;
  if (absl::Status status = sample->Rewind(); !status.ok()) return status;
  return sample;
}

size_t KvSample::BytesOf(const Kept& kept) {
  // The deque's and the heap's own, and Thin's list of draws.
  constexpr size_t kOverheadBytes = 8 + 16 + sizeof(double);
  return sizeof(Kept) + kOverheadBytes +
         kept.request.prefix_pieces.size() * sizeof(uint64_t);
}

absl::Status KvSample::Keep() {
  const double enough = kHeadroom * static_cast<double>(options_.events);
  double kept_events = 0;
  size_t kept_bytes = 0;
  Request request;
  for (uint64_t number = 1;; ++number) {
    absl::StatusOr<bool> found = requests_->Next(&request);
    if (!found.ok()) return found.status();
    if (!*found) return absl::OkStatus();
    const uint64_t events = MostKvEvents(request, options_);
    most_events_ += static_cast<double>(events);
    const double draw = DrawOf(number);
    if (draw >= kept_share_) continue;
    kept_.push_back({draw, events, request});
    kept_events += static_cast<double>(events);
    kept_bytes += BytesOf(kept_.back());
    if (kept_events < 2 * enough && kept_bytes < kMostKeptBytes) continue;
    Thin();
    kept_events = 0;
    kept_bytes = 0;
    for (const Kept& kept : kept_) {
      kept_events += static_cast<double>(kept.events);
      kept_bytes += BytesOf(kept);
    }
  }
}

void KvSample::Thin() {
  std::vector<double> draws;
  draws.reserve(kept_.size());
  for (const Kept& kept : kept_) draws.push_back(kept.draw);
  const auto middle =
      draws.begin() + static_cast<std::ptrdiff_t>(draws.size() / 2);
  std::nth_element(draws.begin(), middle, draws.end());
  kept_share_ = *middle;
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(),
                             [this](const Kept& kept) {
                               return kept.draw >= kept_share_;
                             }),
              kept_.end());
}

double KvSample::DrawOf(uint64_t number) const {
  return UnitFraction(HashedDraw(options_.seed, number, kDrawServed));
}

absl::Status KvSample::SetShare(double share) {
  share_ = share;
  return Rewind();
}

absl::StatusOr<bool> KvSample::Next(Request* request) {
  if (share_ <= kept_share_) {
    while (next_ < kept_.size()) {
      const Kept& kept = kept_[next_++];
      if (kept.draw >= share_) continue;
      *request = kept.request;
      return true;
    }
    return false;
  }
  do {
    absl::StatusOr<bool> found = requests_->Next(request);
    if (!found.ok() || !*found) return found;
  } while (DrawOf(++number_) >= share_);
  return true;
}

absl::Status KvSample::Rewind() {
  next_ = 0;
  number_ = 0;
  return share_ <= kept_share_ ? absl::OkStatus() : requests_->Rewind();
}

}  // namespace firn::bench
