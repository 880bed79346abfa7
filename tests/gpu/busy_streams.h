// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps a device at work: copies, back to back, on several streams.

#ifndef FIRN_TESTS_GPU_BUSY_STREAMS_H_
#define FIRN_TESTS_GPU_BUSY_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/gpu/scene.h"

namespace firn::gpu_check {

class BusyStreams {
 public:
  static constexpr int kStreams = 4;

  // From here to the destruction.
  static absl::StatusOr<std::unique_ptr<BusyStreams>> Start(const Scene& scene);
  ~BusyStreams();
  BusyStreams(const BusyStreams&) = delete;
  BusyStreams& operator=(const BusyStreams&) = delete;

  // OK unless a copy was refused, or none was made yet.
  absl::Status status() const;

 private:
  struct Lane {
    std::unique_ptr<GranuleRow> memory;  // its second half is copied to
    std::unique_ptr<OwnStream> stream;
    std::vector<EventHandle> events;  // one for each copy in flight
  };

  explicit BusyStreams(const Scene& scene) : scene_(scene) {}
  absl::Status AddLane();
  void Run();
  // One copy more, once the one that used the lane's event before is done.
  DriverResult CopyOn(Lane& lane, uint64_t round);

  const Scene scene_;
  std::vector<Lane> lanes_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> rounds_{0};
  std::atomic<int32_t> refused_{0};
  std::thread thread_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_BUSY_STREAMS_H_
