// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line on a terminal that says how far a replay is.

#ifndef FIRN_BENCH_REPLAY_PROGRESS_LINE_H_
#define FIRN_BENCH_REPLAY_PROGRESS_LINE_H_

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace firn::bench {

// Thread safety: none.
class ProgressLine {
 public:
  // Writes to `out`, or nothing when `enabled` is false. Wipes itself out when
  // it is destroyed.
  ProgressLine(std::ostream* out, bool enabled)
      : out_(out), enabled_(enabled) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // What is being done from now on.
  void SetTask(std::string task) { task_ = std::move(task); }
  // Shows the share of `total` that is done, a few times a second.
  void Update(uint64_t done, uint64_t total);
  // Removes the line, before anything else is written.
  void Clear();

 private:
  std::ostream* const out_;
  const bool enabled_;
  bool shown_ = false;
  std::string task_;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_PROGRESS_LINE_H_
