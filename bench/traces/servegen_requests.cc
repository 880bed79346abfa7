// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/traces/clock_time.h"

namespace firn::bench {

double WindowsPlayed(const ServeGenFolder& folder, double days, double dilate) {
  const double played_s =
      days * static_cast<double>(kUsPerDay / kUsPerSecond) / dilate;
  double windows = 0;
  for (const ServeGenClient& client : folder.clients) {
    windows += static_cast<double>(client.rates.size());
  }
  return std::ceil(played_s / folder.span_s) * windows;
}

ServeGenRequests::ServeGenRequests(std::shared_ptr<const ServeGenFolder> folder,
                                   double days, double dilate, double share,
                                   uint64_t seed)
    : folder_(std::move(folder)),
      us_per_s_(static_cast<double>(kUsPerSecond) * dilate),
      end_us_(static_cast<double>(kUsPerDay) * days) {
  clients_.reserve(folder_->clients.size());
  for (const ServeGenClient& client : folder_->clients) {
    clients_.emplace_back(&client, folder_->span_s, end_us_ / us_per_s_, share,
                          seed);
    Fetch(clients_.size() - 1);
  }
}

absl::StatusOr<bool> ServeGenRequests::Next(Request* request) {
  if (next_.empty()) return false;
  std::pop_heap(next_.begin(), next_.end(), Later());
  const Arrival arrival = next_.back();
  next_.pop_back();
  const double time_us = arrival.time_s * us_per_s_;
  if (time_us >= end_us_) {
    next_.clear();
    return false;
  }
  const ServeGenArrivals& client = clients_[arrival.client];
  request->time_us = static_cast<int64_t>(time_us);
  request->context_tokens = client.input_tokens();
  request->generated_tokens = client.output_tokens();
  Fetch(arrival.client);
  return true;
}

void ServeGenRequests::Fetch(size_t client) {
  if (!clients_[client].Next()) return;
  next_.push_back({clients_[client].time_s(), client});
  std::push_heap(next_.begin(), next_.end(), Later());
}

absl::Status ServeGenRequests::Rewind() {
  next_.clear();
  for (size_t client = 0; client < clients_.size(); ++client) {
    clients_[client].Rewind();
    Fetch(client);
  }
  return absl::OkStatus();
}

}  // namespace firn::bench
