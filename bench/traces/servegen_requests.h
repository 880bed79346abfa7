// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The requests of all clients of a ServeGen folder, in order of time.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_REQUESTS_H_
#define FIRN_BENCH_TRACES_SERVEGEN_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/traces/request.h"
#include "bench/traces/servegen_arrivals.h"
#include "bench/traces/servegen_folder.h"

namespace firn::bench {

// The windows of all clients that ServeGenRequests goes through, with requests
// or without.
double WindowsPlayed(const ServeGenFolder& folder, double days, double dilate);

// Plays a folder's data for `days` days (24 h each), times multiplied by
// `dilate`; data that are shorter are played again from the start, without a
// swing of the rate over the day: they have their own. Gives the share `share`
// (in (0, 1]) of the requests, at a cost that falls with it.
//
// Memory does not grow with the length of the trace. Thread safety: none.
class ServeGenRequests : public RequestSource {
 public:
  ServeGenRequests(std::shared_ptr<const ServeGenFolder> folder, double days,
                   double dilate, double share, uint64_t seed);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  // A client's next request.
  struct Arrival {
    double time_s = 0;
    size_t client = 0;
  };
  struct Later {
    bool operator()(const Arrival& a, const Arrival& b) const {
      return a.time_s != b.time_s ? a.time_s > b.time_s : a.client > b.client;
    }
  };

  // Adds the client's next request to the heap, where it has one.
  void Fetch(size_t client);

  const std::shared_ptr<const ServeGenFolder> folder_;
  const double us_per_s_;  // of the data
  const double end_us_;    // of the trace
  std::vector<ServeGenArrivals> clients_;
  std::vector<Arrival> next_;  // a heap: the first is the earliest
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_REQUESTS_H_
