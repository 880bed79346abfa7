// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn::LaunchScope: what a thread launches while one is open may be waited
// for, and so memory may move while the program runs.
//
//   {
//     firn::LaunchScope scope(*pool, stream);
//     kernel<<<grid, block, 0, stream>>>(data);
//   }
//   // Meanwhile, on another thread:
//   firn::CompactOptions options;
//   options.level = firn::CompactionLevel::kLaunchScopes;
//   pool->Compact(options);

#ifndef FIRN_CORE_LAUNCH_SCOPE_H_
#define FIRN_CORE_LAUNCH_SCOPE_H_

#include <initializer_list>

#include "absl/types/span.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_types.h"
#include "firn/vmm/launch_gate.h"

namespace firn {

// Wraps everything that a thread launches on memory of a pool. Names the
// streams that it launches on; with none named, it may be any of the pool's
// devices, and the next pass has to wait for these as a whole. nullptr names
// the legacy default stream of the pool's own device.
//
// Entering waits while a pass has the gate closed, so a thread must hold
// nothing then that work on the device, or a thread inside a scope, waits for.
// Within a scope of the same thread no pass can be asked for, no allocation
// moves anything, and nothing waits for the device. Scopes nest. A capture
// begins and ends inside one scope. The scope ends on the thread that it began
// on, before the pool is destroyed.
//
// The end of a scope costs no driver call but the question for the stream's id,
// until the first gated pass; from then on it writes a token (an event, or a
// value) on each stream named.
class LaunchScope {
 public:
  template <typename... Streams>
  explicit LaunchScope(Pool& pool, Streams... streams)
      : scope_(pool.launch_gate(),
               std::initializer_list<StreamHandle>{
                   static_cast<StreamHandle>(streams)...}) {}
  LaunchScope(Pool& pool, absl::Span<const StreamHandle> streams)
      : scope_(pool.launch_gate(), streams) {}
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  LaunchGate::Scope scope_;
};

}  // namespace firn

#endif  // FIRN_CORE_LAUNCH_SCOPE_H_
