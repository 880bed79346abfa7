// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder of ServeGen's data: for each client N, chunk-N-trace.csv says when
// it sends requests and chunk-N-dataset.json how long they are. Other files are
// ignored.

#ifndef FIRN_BENCH_TRACES_SERVEGEN_FOLDER_H_
#define FIRN_BENCH_TRACES_SERVEGEN_FOLDER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/servegen_lengths.h"
#include "bench/traces/servegen_rates.h"

namespace firn::bench {

struct ServeGenClient {
  uint64_t number = 0;  // N
  // Both by time, never empty. Times count from the start of the folder's data.
  std::vector<RateWindow> rates;
  std::vector<LengthWindow> lengths;

  // Which of `lengths` holds at that time: the last that has begun, or else
  // the first.
  const LengthWindow& LengthsAt(double time_s) const;
};

// Thread safety: read-only once read.
struct ServeGenFolder {
  // By number. Clients without a dataset file, or without a length in it, are
  // left out, as are those that never send a request.
  std::vector<ServeGenClient> clients;
  // From the start of the earliest window to the end of the latest, of the
  // files of clients left out, too.
  double span_s = 0;
};

// Whether the folder has a chunk-N-trace.csv.
bool IsServeGenFolder(absl::string_view path);

// Errors name the file; InvalidArgument also for a folder in which no client is
// left. Memory is limited to some hundreds of MB, whatever the files hold.
absl::StatusOr<ServeGenFolder> ReadServeGenFolder(absl::string_view path);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_SERVEGEN_FOLDER_H_
