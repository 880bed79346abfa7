// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/progress_line.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace firn::bench {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

// To the line's start, and everything after it away.
constexpr absl::string_view kEraseLine = "\r\x1b[K";

}  // namespace

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Update(uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - shown_at_ < kInterval) return;
  shown_ = true;
  shown_at_ = now;
  *out_ << kEraseLine
        << absl::StrFormat("%s: %d %%", task_,
                           100 * done / std::max<uint64_t>(total, 1))
        << std::flush;
}

void ProgressLine::Clear() {
  if (!shown_) return;
  shown_ = false;
  *out_ << kEraseLine << std::flush;
}

}  // namespace firn::bench
