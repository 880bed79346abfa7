// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reclaim callbacks: asked to free memory before an allocation fails, when the
// pool can find none by itself.
//
//   absl::StatusOr<firn::ReclaimRegistration> registration =
//       pool->AddReclaimCallback([&cache](const firn::ReclaimRequest& request)
//       {
//         return cache.Drop(request.bytes) > 0;
//       });
//
// docs/out_of_memory.md has recipes.

#ifndef FIRN_CORE_RECLAIM_CALLBACK_H_
#define FIRN_CORE_RECLAIM_CALLBACK_H_

#include <cstdint>
#include <functional>

#include "firn/core/callback_registration.h"
#include "firn/core/domain.h"
#include "firn/core/tags.h"
#include "firn/vmm/driver_types.h"

namespace firn {

// The allocation that is about to fail.
struct ReclaimRequest {
  uint64_t bytes = 0;
  uint64_t alignment_bytes = 0;
  StreamHandle stream = nullptr;
  DomainId domain = DomainId::kDefault;
  Tag tag = Tag::kUntagged;
  // How often this allocation has asked this callback before.
  uint32_t calls_before = 0;
};

// Whether it has freed anything, or may have.
//
// It is called by the thread whose allocation is about to fail, on the last
// rung of the ladder, outside of launch scopes, captures and move hooks (there
// the allocation fails without it), and with no lock of the pool held: it may
// free, allocate (an allocation inside it that fails asks nobody), compact and
// launch. What it frees is waited for where its streams are not done with it.
//
// After true the allocation is tried again, with the whole ladder; if that
// fails too, the same callback is asked again, kMostReclaimCalls times at most
// for one allocation. After false it is the next one's turn, in the order in
// which they were added. Callbacks of a pool are called one at a time: other
// threads whose allocations fail meanwhile wait, and try again first. So a
// callback must not wait for a thread that allocates, nor destroy the pool.
using ReclaimCallback = std::function<bool(const ReclaimRequest& request)>;

inline constexpr uint32_t kMostReclaimCalls = 64;

// Keeps a callback registered.
using ReclaimRegistration = CallbackRegistration;

}  // namespace firn

#endif  // FIRN_CORE_RECLAIM_CALLBACK_H_
