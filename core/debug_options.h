// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool does to find programs that write where they must not: guard bands
// around blocks, and freed blocks that are filled, kept a while and looked at
// again. See docs/debugging.md.

#ifndef FIRN_CORE_DEBUG_OPTIONS_H_
#define FIRN_CORE_DEBUG_OPTIONS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace firn {

struct DebugOptions {
  // Off: nothing below counts, and the pool is none the slower for it.
  bool enabled = false;

  // Bytes of the guard band behind each block, from its last byte on, and of
  // the one before it, which is as long as the block's alignment if that is
  // more: a multiple of 512, from 512 to 1 MiB.
  uint64_t guard_bytes = 512;

  // Freed blocks wait until those that came later are more than so many bytes,
  // their guard bands included, before others get their memory. 0: not at all.
  uint64_t quarantine_bytes = uint64_t{64} << 20;

  // Whether reports tell the stacks of allocations and frees. Takes some
  // microseconds of each.
  bool stacks = true;

  // Gets each report, of several lines; empty: they go to stderr. Called with
  // no lock of the pool held, by whichever thread made the call that found the
  // damage; it may call the pool, but must not destroy it.
  std::function<void(absl::string_view report)> report;

  // OkStatus, or InvalidArgument naming the field, its value and what would be
  // right.
  absl::Status Validate() const;
};

}  // namespace firn

#endif  // FIRN_CORE_DEBUG_OPTIONS_H_
