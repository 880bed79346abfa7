// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads that mark and poll at the same time.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

constexpr int kThreads = 4;
constexpr int kMarks = 200;

// A stream that counts its work. Each thread has one of its own, and all share
// another.
struct CountedStream {
  StreamHandle handle = nullptr;
  std::atomic<uint64_t> queued{0};
  std::atomic<uint64_t> done{0};
};

void CountDone(void* done) {
  static_cast<std::atomic<uint64_t>*>(done)->fetch_add(1);
}

class StreamTrackerThreadsTest : public StreamTrackerScene,
                                 public ::testing::WithParamInterface<bool> {
 protected:
  // Queues work on the stream and a token behind it; what was queued before is
  // done when the token is.
  void QueueAndWait(StreamTracker* tracker, CountedStream* stream) {
    ASSERT_EQ(
        device()->LaunchHostFunc(stream->handle, &CountDone, &stream->done),
        kOk);
    const uint64_t queued = ++stream->queued;
    const StreamToken token = MarkOn(*tracker, stream->handle);
    FIRN_ASSERT_OK(tracker->Identify(stream->handle));
    FIRN_ASSERT_OK(Wait(*tracker, token));
    ASSERT_GE(stream->done.load(), queued);
  }
};

INSTANTIATE_TEST_SUITE_P(EachKind, StreamTrackerThreadsTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Values" : "Events";
                         });

TEST_P(StreamTrackerThreadsTest, TokensAreDoneOnlyWhenTheWorkIs) {
  StreamTrackerOptions options;
  options.value_writes = GetParam();
  options.max_pending_events = 2;
  const std::unique_ptr<StreamTracker> tracker = Track(options);
  std::vector<CountedStream> streams(kThreads + 1);
  for (CountedStream& stream : streams) stream.handle = MakeStream();
  CountedStream* const shared = &streams.back();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    CountedStream* const own = &streams[static_cast<size_t>(i)];
    threads.emplace_back([this, own, shared, &tracker] {
      for (int mark = 0; mark < kMarks && !HasFailure(); ++mark) {
        QueueAndWait(tracker.get(), own);
        QueueAndWait(tracker.get(), shared);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_EQ(tracker->marks_total(), uint64_t{2} * kThreads * kMarks);
  for (CountedStream& stream : streams) {
    EXPECT_EQ(device()->StreamDestroy(stream.handle), kOk);
  }
}

}  // namespace
}  // namespace firn::testing
