// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The request logs of Mooncake: one JSON object a line, with the whole numbers
// timestamp (milliseconds), input_length and output_length (tokens), and
// hash_ids: a number for each piece of 512 tokens of the prompt, the last of
// which may be shorter. Equal numbers mean that prompts are equal up to the end
// of that piece. Other fields do not matter.
//
// A line has up to LineReader::kMaxLineBytes characters: with numbers of six
// digits it holds the pieces of prompts of some 4 million tokens.

#ifndef FIRN_BENCH_TRACES_MOONCAKE_LOG_H_
#define FIRN_BENCH_TRACES_MOONCAKE_LOG_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/line_reader.h"
#include "bench/traces/request.h"
#include "bench/traces/trace.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

inline constexpr uint32_t kMooncakePieceTokens = 512;

// Whether a file whose first line begins so is meant to be one: an object with
// hash_ids, or with timestamp and input_length.
bool IsMooncakeLog(absl::string_view line);

// The requests as recorded, read as a stream. Errors are InvalidArgument and
// name file, line and field; also for a log without requests. Thread safety:
// none.
class MooncakeRows : public RequestSource {
 public:
  static absl::StatusOr<std::unique_ptr<RequestSource>> Open(
      absl::string_view path);

  absl::StatusOr<bool> Next(Request* request) override;
  absl::Status Rewind() override;

 private:
  explicit MooncakeRows(LineReader lines) : lines_(std::move(lines)) {}

  LineReader lines_;
  bool found_any_ = false;
};

// As KV traffic, with the keys of kv_options.h; with layout=blocks, blocks are
// shared by contents.
absl::StatusOr<std::unique_ptr<TraceSource>> OpenMooncakeLog(
    const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_MOONCAKE_LOG_H_
