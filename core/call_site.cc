// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/call_site.h"

#include <execinfo.h>

#include <array>
#include <cstddef>

#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/thread_ordinal.h"

namespace firn {
namespace {

constexpr int kMostFrames = 24;
// This function itself.
constexpr int kSkippedFrames = 1;

}  // namespace

CallSite ThisCallSite(bool with_stack) {
  CallSite site;
  site.thread = ThisThreadOrdinal();
  if (!with_stack) return site;
  // By the tables of the unwinder: optimised code has no frame pointers to
  // follow.
  std::array<void*, kMostFrames> frames;
  const int count = backtrace(frames.data(), kMostFrames);
  if (count > kSkippedFrames) {
    site.frames.assign(frames.begin() + kSkippedFrames, frames.begin() + count);
  }
  return site;
}

std::string DescribeCallSite(const CallSite& site) {
  std::string text = absl::StrCat("thread ", site.thread);
  for (void* const frame : site.frames) {
    const auto address = reinterpret_cast<uintptr_t>(frame);
    absl::StrAppend(&text, "\n    0x", absl::Hex(address));
    // The call is before the address that it returns to.
    std::array<char, 512> name;
    if (absl::Symbolize(reinterpret_cast<const void*>(address - 1), name.data(),
                        static_cast<int>(name.size()))) {
      absl::StrAppend(&text, " ", name.data());
    }
  }
  return text;
}

}  // namespace firn
