// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where in the program a call was made, for reports.

#ifndef FIRN_CORE_CALL_SITE_H_
#define FIRN_CORE_CALL_SITE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace firn {

struct CallSite {
  // ThisThreadOrdinal of the caller; 0: not known.
  uint64_t thread = 0;
  // Return addresses, innermost first; none if they were not asked for.
  std::vector<void*> frames;
};

// The caller's own, without this function. Thread safety: may be called from
// any thread.
CallSite ThisCallSite(bool with_stack);

// "thread 3" and, where the stack is known, a line for each frame, each begun
// by a new line. Frames in code without symbols are given as addresses.
std::string DescribeCallSite(const CallSite& site);

}  // namespace firn

#endif  // FIRN_CORE_CALL_SITE_H_
