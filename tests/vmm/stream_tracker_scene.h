// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Trackers on the devices that tests run on, and streams to track.

#ifndef FIRN_TESTS_VMM_STREAM_TRACKER_SCENE_H_
#define FIRN_TESTS_VMM_STREAM_TRACKER_SCENE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {

// Streams and then trackers are to be destroyed before the scene: a tracker
// waits for what is pending.
class StreamTrackerScene : public ::testing::Test {
 protected:
  static constexpr DriverResult kOk = DriverResult::kSuccess;

  void SetUp() override { devices_ = TestDevices(); }

  size_t device_count() const { return devices_->drivers.size(); }
  Driver* device(size_t ordinal = 0) {
    return devices_->drivers[ordinal].get();
  }
  DeviceSet& devices() { return *devices_; }

  // A tracker of these devices; of the first one where none are given.
  std::unique_ptr<StreamTracker> Track(
      const StreamTrackerOptions& options = StreamTrackerOptions(),
      std::vector<Driver*> drivers = {}) {
    if (drivers.empty()) drivers.push_back(device());
    auto tracker = StreamTracker::Create(std::move(drivers), options);
    EXPECT_THAT(tracker, IsOk());
    return *std::move(tracker);
  }
  std::unique_ptr<StreamTracker> TrackByEvents(
      std::vector<Driver*> drivers = {}) {
    StreamTrackerOptions options;
    options.value_writes = false;
    return Track(options, std::move(drivers));
  }

  StreamHandle MakeStream(size_t ordinal = 0,
                          uint32_t flags = kStreamNonBlocking) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(device(ordinal)->StreamCreate(&stream, flags), kOk);
    return stream;
  }

  // Long after anything that ends does.
  static absl::Time Soon() { return absl::Now() + absl::Seconds(60); }
  static StreamToken MarkOn(StreamTracker& tracker, StreamHandle stream) {
    const absl::StatusOr<StreamToken> token = tracker.Mark(stream);
    EXPECT_THAT(token, IsOk());
    return token.value_or(StreamToken());
  }
  static bool IsDone(StreamTracker& tracker, const StreamToken& token) {
    const absl::StatusOr<bool> done = tracker.IsDone(token);
    EXPECT_THAT(done, IsOk());
    return done.value_or(false);
  }
  static absl::Status Wait(StreamTracker& tracker, const StreamToken& token) {
    return tracker.WaitUntilDone(token, Soon());
  }

 private:
  std::unique_ptr<DeviceSet> devices_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_STREAM_TRACKER_SCENE_H_
