// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Work in flight for as long as a test wants, on every driver: a stream held up
// by a host function, and device work behind it.

#ifndef FIRN_TESTS_SUPPORT_HELD_STREAM_H_
#define FIRN_TESTS_SUPPORT_HELD_STREAM_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/mutex.h"

namespace firn::testing {

// While it is held, this thread must make no call that may wait for all work
// (MemUnmap, MemSetAccess, CtxSynchronize): on some drivers it would wait for
// ever. Drivers may run host functions of all streams one after the other: of
// two streams held at once, only one may be doing so, the other waits its turn.
//
// Thread safety: Release may be called from any thread at any time; other
// methods must not be called concurrently.
class HeldStream {
 public:
  // Creates a stream that does not wait for the default stream. Does not own
  // `driver`. The running test fails if there can be no stream.
  explicit HeldStream(Driver* driver);
  // Releases the work, waits for it, unless the device is lost, and destroys
  // the stream.
  ~HeldStream();
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  StreamHandle stream() const { return stream_; }

  // What is queued from now on waits for Release.
  DriverResult Hold();
  // Queues a fill with `value`.
  DriverResult Touch(DevicePtr address, uint64_t bytes, uint8_t value = 0x5a);
  // Lets everything run that was held so far.
  void Release();
  // Waits for all work of the stream: kSuccess, or what became of the device.
  DriverResult Wait();
  // Destroys the stream now; its work goes on (and is held) as before. stream()
  // is nullptr from now on, and nothing more may be queued.
  DriverResult DestroyStream();

 private:
  // What a host function waits at.
  struct Gate {
    Mutex mutex;
    CondVar opened;
    bool open ABSL_GUARDED_BY(mutex) = false;
  };
  static void WaitAt(void* gate);
  // A gate that is never freed: of a lost device, nobody can tell whether it
  // will still run a function, or is doing so.
  static Gate* NewGate();

  Driver* const driver_;
  StreamHandle stream_ = nullptr;
  bool destroyed_ = false;
  Mutex mutex_;
  std::vector<Gate*> closed_gates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_HELD_STREAM_H_
