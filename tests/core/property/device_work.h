// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams of a CPU driver, and work on them that writes blocks and checks what
// it finds there.

#ifndef FIRN_TESTS_CORE_PROPERTY_DEVICE_WORK_H_
#define FIRN_TESTS_CORE_PROPERTY_DEVICE_WORK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/mutex.h"
#include "tests/support/filled_blocks.h"

namespace firn::testing::property {

// What was found to be wrong first. Thread safety: all methods may be called
// from any thread.
class DamageReport {
 public:
  // Compares the block, byte by byte, with what it was filled with.
  void Check(const FilledBlock& block);
  // Empty while nothing is.
  std::string text() const;

 private:
  mutable Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

// Errors are refusals of calls that no driver should refuse.
//
// Thread safety: none.
class DeviceWork {
 public:
  static constexpr uint32_t kMostStreams = 6;

  // Owns neither; both must outlive all work.
  DeviceWork(CpuDriver* driver, DamageReport* damage)
      : driver_(driver), damage_(damage) {}
  // Lets queued work run on.
  ~DeviceWork();
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  // The legacy default stream first; any number counts, by its remainder.
  StreamHandle stream(uint32_t number) const {
    return streams_[number % streams_.size()];
  }
  uint32_t stream_count() const {
    return static_cast<uint32_t>(streams_.size());
  }
  absl::Status CreateStream(bool non_blocking);
  // The default stream waits for its work. Not the default stream itself.
  absl::Status DestroyStream(uint32_t number);

  // What is queued on `after` from now on waits for `before`.
  absl::Status Order(StreamHandle before, StreamHandle after);
  absl::Status Fill(const FilledBlock& block, StreamHandle stream);
  // Compares the block with its pattern.
  absl::Status Check(const FilledBlock& block, StreamHandle stream);
  // Calls `look` when the block may be read.
  absl::Status Look(const FilledBlock& block, std::function<void()> look,
                    StreamHandle stream);
  // Compares it, then fills it with the pattern of another seed.
  absl::Status CheckAndFill(const FilledBlock& block, uint64_t next_seed,
                            StreamHandle stream);
  // Keeps the stream busy.
  absl::Status Sleep(StreamHandle stream, uint32_t microseconds);
  // Reads and writes all of the blocks as far as the driver can see.
  absl::Status Reach(const std::vector<FilledBlock>& blocks);
  absl::Status Synchronize(StreamHandle stream);
  absl::Status SynchronizeAll();

 private:
  CpuDriver* const driver_;
  DamageReport* const damage_;
  std::vector<StreamHandle> streams_ = {nullptr};
  EventHandle event_ = nullptr;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_DEVICE_WORK_H_
