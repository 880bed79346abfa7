// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/device_work.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_status.h"

namespace firn::testing::property {
namespace {

KernelRange RangeOf(const FilledBlock& block, bool writes) {
  KernelRange range;
  range.address = reinterpret_cast<uintptr_t>(block.ptr);
  range.bytes = block.bytes;
  range.writes = writes;
  return range;
}

void SleepFor(void* microseconds) {
  absl::SleepFor(absl::Microseconds(reinterpret_cast<intptr_t>(microseconds)));
}

}  // namespace

void DamageReport::Check(const FilledBlock& block) {
  if (IsIntact(block)) return;
  const char* const bytes = static_cast<const char*>(block.ptr);
  uint64_t first = 0;
  uint64_t damaged = 0;
  for (uint64_t i = 0; i < block.bytes; ++i) {
    const uint64_t word = PatternWord(block.seed, i / 8);
    if (std::memcmp(bytes + i, reinterpret_cast<const char*>(&word) + i % 8,
                    1) == 0) {
      continue;
    }
    if (damaged++ == 0) first = i;
  }
  MutexLock lock(&mutex_);
  if (!text_.empty()) return;
  text_ = absl::StrCat(
      "I1: ", damaged, " of the ", block.bytes, " bytes of the block at 0x",
      absl::Hex(reinterpret_cast<uintptr_t>(block.ptr)),
      " are not what was written there, from byte ", first, " on");
}

std::string DamageReport::text() const {
  MutexLock lock(&mutex_);
  return text_;
}

DeviceWork::~DeviceWork() {
  for (const StreamHandle stream : streams_) {
    if (stream != nullptr) driver_->StreamDestroy(stream);
  }
  if (event_ != nullptr) driver_->EventDestroy(event_);
}

absl::Status DeviceWork::CreateStream(bool non_blocking) {
  if (streams_.size() == kMostStreams) return absl::OkStatus();
  StreamHandle stream = nullptr;
  const DriverResult result = driver_->StreamCreate(
      &stream, non_blocking ? kStreamNonBlocking : kStreamDefault);
  if (result == DriverResult::kSuccess) streams_.push_back(stream);
  return ToStatus(result, "StreamCreate");
}

absl::Status DeviceWork::DestroyStream(uint32_t number) {
  const StreamHandle gone = stream(number);
  const absl::Status ordered = Order(gone, nullptr);
  if (!ordered.ok()) return ordered;
  streams_[number % streams_.size()] = streams_.back();
  streams_.pop_back();
  return ToStatus(driver_->StreamDestroy(gone), "StreamDestroy");
}

absl::Status DeviceWork::Order(StreamHandle before, StreamHandle after) {
  if (before == after) return absl::OkStatus();
  absl::Status status;
  if (event_ == nullptr) {
    status = ToStatus(driver_->EventCreate(&event_, kEventDisableTiming),
                      "EventCreate");
  }
  status.Update(ToStatus(driver_->EventRecord(event_, before), "EventRecord"));
  status.Update(
      ToStatus(driver_->StreamWaitEvent(after, event_, 0), "StreamWaitEvent"));
  return status;
}

absl::Status DeviceWork::Fill(const FilledBlock& block, StreamHandle stream) {
  return ToStatus(FillOnStream(driver_, block, stream), "LaunchKernel");
}

absl::Status DeviceWork::Check(const FilledBlock& block, StreamHandle stream) {
  return ToStatus(driver_->LaunchKernel(
                      stream, {RangeOf(block, /*writes=*/false)},
                      [damage = damage_, block] { damage->Check(block); }),
                  "LaunchKernel");
}

absl::Status DeviceWork::Look(const FilledBlock& block,
                              std::function<void()> look, StreamHandle stream) {
  return ToStatus(
      driver_->LaunchKernel(stream, {RangeOf(block, /*writes=*/false)},
                            std::move(look)),
      "LaunchKernel");
}

absl::Status DeviceWork::CheckAndFill(const FilledBlock& block,
                                      uint64_t next_seed, StreamHandle stream) {
  FilledBlock next = block;
  next.seed = next_seed;
  return ToStatus(
      driver_->LaunchKernel(stream, {RangeOf(block, /*writes=*/true)},
                            [damage = damage_, block, next] {
                              damage->Check(block);
                              testing::Fill(next);
                            }),
      "LaunchKernel");
}

absl::Status DeviceWork::Sleep(StreamHandle stream, uint32_t microseconds) {
  void* const argument =
      reinterpret_cast<void*>(static_cast<intptr_t>(microseconds));
  return ToStatus(driver_->LaunchHostFunc(stream, &SleepFor, argument),
                  "LaunchHostFunc");
}

absl::Status DeviceWork::Reach(const std::vector<FilledBlock>& blocks) {
  std::vector<KernelRange> ranges;
  ranges.reserve(blocks.size());
  for (const FilledBlock& block : blocks) {
    ranges.push_back(RangeOf(block, /*writes=*/true));
  }
  return ToStatus(driver_->LaunchKernel(nullptr, ranges, [] {}),
                  "LaunchKernel");
}

absl::Status DeviceWork::Synchronize(StreamHandle stream) {
  return ToStatus(driver_->StreamSynchronize(stream), "StreamSynchronize",
                  driver_->loss());
}

absl::Status DeviceWork::SynchronizeAll() {
  return ToStatus(driver_->CtxSynchronize(), "CtxSynchronize", driver_->loss());
}

}  // namespace firn::testing::property
