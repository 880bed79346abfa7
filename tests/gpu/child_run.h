// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs this program once more, with other arguments, within a time limit, and
// hears what it has to say.

#ifndef FIRN_TESTS_GPU_CHILD_RUN_H_
#define FIRN_TESTS_GPU_CHILD_RUN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace firn::gpu_check {

struct ChildRun {
  // --report_fd=N is added.
  std::vector<std::string> arguments;
  // Variables set beside this process's own.
  std::vector<std::pair<std::string, std::string>> environment;
  absl::Duration limit;
  // The longest time between two lines of its report.
  absl::Duration silence_limit;
};

struct ChildEnd {
  enum class Kind {
    kExited,     // `code` is its exit status
    kSignalled,  // `code` is the signal
    kTimeUp,     // stopped at `limit`
    kSilent,     // stopped at `silence_limit`
    kNotStarted  // `code` is errno
  };
  Kind kind = Kind::kNotStarted;
  int code = 0;
};
// "it died: Segmentation fault", ...
std::string DescribeEnd(const ChildEnd& end);

// Runs it to its end; whatever it started itself is stopped with it. Each line
// of its report and of its output (standard output and error together) is
// passed on as it comes, without the newline.
ChildEnd RunChild(const ChildRun& run,
                  absl::FunctionRef<void(const std::string&)> report_line,
                  absl::FunctionRef<void(const std::string&)> output_line);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_CHILD_RUN_H_
