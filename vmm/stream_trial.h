// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A stream that is made and destroyed to see what a driver permits it.

#ifndef FIRN_VMM_STREAM_TRIAL_H_
#define FIRN_VMM_STREAM_TRIAL_H_

#include <string>

#include "firn/vmm/driver.h"
#include "firn/vmm/memory_trial.h"

namespace firn {

// Each step returns what was refused, or nothing if it worked; all steps of a
// stream that could not be made are refused for that reason.
// Thread safety: none.
class StreamTrial {
 public:
  // A stream that orders itself with no other one. Does not own `driver`, which
  // must outlive this object.
  explicit StreamTrial(Driver* driver);
  ~StreamTrial() { Destroy(); }
  StreamTrial(const StreamTrial&) = delete;
  StreamTrial& operator=(const StreamTrial&) = delete;

  std::string GetId();
  // Has the stream write to `memory`, which must be mapped, and waits for it.
  // Memory that it may yet write to is left behind.
  std::string WriteValue64(MemoryTrial* memory);
  // What is refused is tried a few times, but counts as refused.
  std::string Destroy();

 private:
  Driver* const driver_;
  StreamHandle stream_ = nullptr;
  bool created_ = false;
  std::string creation_refusal_;
};

}  // namespace firn

#endif  // FIRN_VMM_STREAM_TRIAL_H_
