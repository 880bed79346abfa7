// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Work that keeps a stream from going on: for a while, and never for ever.

#ifndef FIRN_TESTS_GPU_BLOCKER_H_
#define FIRN_TESTS_GPU_BLOCKER_H_

#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/scene.h"

namespace firn::gpu_check {

class Blocker {
 public:
  virtual ~Blocker() = default;

  // The stream that is kept.
  StreamHandle stream() const { return stream_; }
  // Returns once the work runs. It ends by itself after `limit`.
  virtual absl::Status Begin(DevicePtr touched, absl::Duration limit) = 0;
  virtual bool Running() = 0;
  // Returns once the work is done.
  virtual absl::Status End() = 0;

 protected:
  explicit Blocker(StreamHandle stream) : stream_(stream) {}

 private:
  const StreamHandle stream_;
};

// A kernel that spins. `kernels` is not owned.
absl::StatusOr<std::unique_ptr<Blocker>> NewSpinningKernel(Kernels* kernels);

// A wait for a value that a thread of the host writes: with a plain store, or,
// where the device does not wait for the host's memory, through another stream.
// `kernels`, not owned, is of the primary context.
absl::StatusOr<std::unique_ptr<Blocker>> NewValueWait(const Scene& scene,
                                                      Kernels* kernels);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_BLOCKER_H_
