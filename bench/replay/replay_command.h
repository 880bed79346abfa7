// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_replay without its process: arguments in, text and exit status out.

#ifndef FIRN_BENCH_REPLAY_REPLAY_COMMAND_H_
#define FIRN_BENCH_REPLAY_REPLAY_COMMAND_H_

#include <ostream>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace firn::bench {

inline constexpr int kExitOk = 0;
// A block lost its contents, or an event could not be replayed.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitBadInput = 2;

// `args` without the program's name. The result goes to `out`, messages to
// `err`, each one line; with `show_progress` a line about progress, too.
int RunReplayCommand(absl::Span<const absl::string_view> args,
                     std::ostream& out, std::ostream& err, bool show_progress);

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_REPLAY_COMMAND_H_
