// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/busy_streams.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr uint64_t kGranulesACopy = 16;
constexpr uint64_t kCopiesInFlight = 4;  // on each stream

}  // namespace

absl::StatusOr<std::unique_ptr<BusyStreams>> BusyStreams::Start(
    const Scene& scene) {
  auto busy = absl::WrapUnique(new BusyStreams(scene));
  for (int i = 0; i < kStreams; ++i) FIRN_TRY(busy->AddLane());
  busy->thread_ = std::thread([raw = busy.get()] { raw->Run(); });
  const Deadline deadline(absl::Seconds(5));
  while (busy->rounds_ == 0 && busy->refused_ == 0 && !deadline.Passed()) {
    absl::SleepFor(absl::Microseconds(100));
  }
  FIRN_TRY(busy->status());
  return busy;
}

BusyStreams::~BusyStreams() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  for (Lane& lane : lanes_) {
    if (lane.stream != nullptr) (void)lane.stream->Synchronize();
    for (EventHandle event : lane.events) {
      (void)scene_.driver().EventDestroy(event);
    }
  }
}

absl::Status BusyStreams::status() const {
  FIRN_TRY_CALL("a copy that keeps the device busy",
                static_cast<DriverResult>(refused_.load()));
  if (rounds_ == 0) return absl::InternalError("no copy was made");
  return absl::OkStatus();
}

absl::Status BusyStreams::AddLane() {
  lanes_.emplace_back();
  Lane& lane = lanes_.back();
  FIRN_TRY_ASSIGN(const uint64_t granules,
                  scene_.Afford(2 * kGranulesACopy, 0.1, 2));
  FIRN_TRY_ASSIGN(lane.memory, GranuleRow::Mapped(scene_, granules / 2 * 2));
  FIRN_TRY_ASSIGN(lane.stream, OwnStream::Create(&scene_.driver()));
  for (uint64_t i = 0; i < kCopiesInFlight; ++i) {
    EventHandle event = nullptr;
    FIRN_TRY_CALL("cuEventCreate",
                  scene_.driver().EventCreate(&event, kEventDisableTiming));
    lane.events.push_back(event);
  }
  return absl::OkStatus();
}

void BusyStreams::Run() {
  for (uint64_t round = 0; !stop_; ++round) {
    for (Lane& lane : lanes_) {
      const DriverResult result = CopyOn(lane, round);
      if (result == DriverResult::kSuccess) continue;
      refused_ = static_cast<int32_t>(result);
      return;
    }
    rounds_ = round + 1;
  }
}

DriverResult BusyStreams::CopyOn(Lane& lane, uint64_t round) {
  Driver& driver = scene_.driver();
  const EventHandle event = lane.events[round % lane.events.size()];
  DriverResult result = driver.EventQuery(event);
  while (result == DriverResult::kNotReady && !stop_) {
    absl::SleepFor(absl::Microseconds(10));
    result = driver.EventQuery(event);
  }
  if (stop_) return DriverResult::kSuccess;
  if (result != DriverResult::kSuccess) return result;
  const uint64_t half = lane.memory->granules() / 2;
  result = driver.MemcpyDtoDAsync(lane.memory->At(half), lane.memory->At(0),
                                  scene_.Bytes(half), lane.stream->get());
  if (result != DriverResult::kSuccess) return result;
  return driver.EventRecord(event, lane.stream->get());
}

}  // namespace firn::gpu_check
