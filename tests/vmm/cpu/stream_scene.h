// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams whose work writes its name into a log, waits to be let go, or notes
// what it knows to come before.

#ifndef FIRN_TESTS_VMM_CPU_STREAM_SCENE_H_
#define FIRN_TESTS_VMM_CPU_STREAM_SCENE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "firn/vmm/cpu/stream_set.h"
#include "firn/vmm/mutex.h"
#include "gtest/gtest.h"

namespace firn::cpu_testing {

inline constexpr DriverResult kOk = DriverResult::kSuccess;
inline constexpr DriverResult kNotReady = DriverResult::kNotReady;

// Holds threads up until opened.
class Gate {
 public:
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    opened_.SignalAll();
  }
  void Pass() {
    MutexLock lock(&mutex_);
    while (!open_) opened_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class StreamScene : public ::testing::Test {
 protected:
  explicit StreamScene(const cpu::StreamSetOptions& options = {})
      : streams_(options) {}
  ~StreamScene() override {
    flag_.store(true);
    gate_.Open();
  }

  StreamHandle NewStream(uint32_t flags = kStreamNonBlocking, int device = 0) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(streams_.Create(device, &stream, flags).result, kOk);
    return stream;
  }
  EventHandle NewEvent(int device = 0) {
    EventHandle event = nullptr;
    EXPECT_EQ(streams_.EventCreate(device, &event, kEventDisableTiming).result,
              kOk);
    return event;
  }
  uint64_t IdOf(StreamHandle stream) {
    uint64_t id = 0;
    EXPECT_EQ(streams_.GetId(0, stream, &id).result, kOk);
    return id;
  }
  void Record(EventHandle event, StreamHandle stream) {
    EXPECT_EQ(streams_.EventRecord(0, event, stream).result, kOk);
  }
  void Wait(StreamHandle stream, EventHandle event) {
    EXPECT_EQ(streams_.WaitEvent(0, stream, event, 0).result, kOk);
  }
  void Synchronize(StreamHandle stream) {
    EXPECT_EQ(streams_.Synchronize(0, stream).result, kOk);
  }

  static cpu::StreamWork Work(std::function<void(const cpu::WorkOrder&)> run,
                              const char* name = "kernel") {
    cpu::StreamWork work;
    work.name = name;
    work.run = std::move(run);
    return work;
  }
  DriverResult Enqueue(StreamHandle stream, std::function<void()> body,
                       int device = 0) {
    return streams_
        .Enqueue(
            device, stream,
            Work([body = std::move(body)](const cpu::WorkOrder&) { body(); }))
        .result;
  }
  void Log(StreamHandle stream, std::string name, int device = 0) {
    EXPECT_EQ(Enqueue(
                  stream,
                  [this, name = std::move(name)] {
                    MutexLock lock(&mutex_);
                    log_.push_back(name);
                  },
                  device),
              kOk);
  }
  std::vector<std::string> LogSoFar() {
    MutexLock lock(&mutex_);
    return log_;
  }
  // Work that runs until the gate opens.
  void HoldUp(StreamHandle stream, int device = 0) {
    EXPECT_EQ(Enqueue(
                  stream, [this] { gate_.Pass(); }, device),
              kOk);
  }
  // Likewise, always on a thread of the stream, and running when this returns.
  void RunUntilGateOpens(StreamHandle stream) {
    auto started = std::make_shared<Gate>();
    cpu::StreamWork work = Work([this, started](const cpu::WorkOrder&) {
      started->Open();
      gate_.Pass();
    });
    work.never_inline = true;
    EXPECT_EQ(streams_.Enqueue(0, stream, std::move(work)).result, kOk);
    started->Pass();
  }
  // Work that waits until the flag is set.
  void WaitForFlag(StreamHandle stream, int device = 0) {
    cpu::StreamWork work;
    work.name = "value wait";
    work.ready = [this](uint64_t) { return flag_.load(); };
    work.waits_for = "the flag";
    EXPECT_EQ(streams_.Enqueue(device, stream, std::move(work)).result, kOk);
  }
  // Waits, without a call to the streams, until all work queued on the stream
  // before has ended.
  void AwaitUnseen(StreamHandle stream, int device = 0) {
    auto ended = std::make_shared<Gate>();
    EXPECT_EQ(Enqueue(
                  stream, [ended] { ended->Open(); }, device),
              kOk);
    ended->Pass();
  }
  // Queues work that notes its order; read it when the work has ended.
  std::shared_ptr<cpu::WorkOrder> Track(StreamHandle stream, int device = 0) {
    auto order = std::make_shared<cpu::WorkOrder>();
    EXPECT_EQ(
        streams_
            .Enqueue(device, stream,
                     Work([order](const cpu::WorkOrder& now) { *order = now; }))
            .result,
        kOk);
    return order;
  }

  std::atomic<bool> flag_{false};
  Gate gate_;
  Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  cpu::StreamSet streams_;
};

// Whether `later` is known to come after `earlier`.
inline bool IsAfter(const std::shared_ptr<cpu::WorkOrder>& later,
                    const std::shared_ptr<cpu::WorkOrder>& earlier) {
  return later->IsAfter(earlier->stream_id, earlier->position);
}

}  // namespace firn::cpu_testing

#endif  // FIRN_TESTS_VMM_CPU_STREAM_SCENE_H_
