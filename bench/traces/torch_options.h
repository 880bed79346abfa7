// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The keys of a PyTorch memory snapshot's trace.

#ifndef FIRN_BENCH_TRACES_TORCH_OPTIONS_H_
#define FIRN_BENCH_TRACES_TORCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/traces/torch_size_law.h"
#include "bench/traces/trace_spec.h"

namespace firn::bench {

struct TorchOptions {
  uint64_t loops = 1;
  uint64_t eval_every = 0;
  uint64_t checkpoint_every = 0;
  uint64_t seed = 1;
  // The same program recorded at another length; empty: none, and then the
  // lengths below have no meaning.
  std::string pair;
  TorchLengths lengths;
  std::vector<uint64_t> jitter = {256, 384, 512, 640, 768, 896, 1024};
};

// Keys: loops, eval_every, checkpoint_every, seed, pair, length, pair_length,
// jitter. The lengths of the recordings are the first number in the name of
// each file unless given.
absl::StatusOr<TorchOptions> ReadTorchOptions(const TraceSpec& spec);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_OPTIONS_H_
