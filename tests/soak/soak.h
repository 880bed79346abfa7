// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads that use a pool in every way at once while controllers compact it,
// for as long as one likes.

#ifndef FIRN_TESTS_SOAK_SOAK_H_
#define FIRN_TESTS_SOAK_SOAK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn::testing {

struct SoakOptions {
  CpuSync sync = CpuSync::kLazy;
  absl::Duration duration = absl::Minutes(10);
  int threads = 8;
  int streams = 4;
  int domains = 3;
  uint64_t seed = 1;
  // Small granules make many moves.
  uint64_t granule_bytes = uint64_t{64} << 10;
  uint64_t capacity_bytes = uint64_t{24} << 20;
};

struct SoakResult {
  double seconds = 0;
  uint64_t operations = 0;
  uint64_t checks = 0;  // kernels that have looked at a block's every byte
  uint64_t moves = 0;   // virtual granules remapped
  uint64_t failed_allocations = 0;
  uint64_t captures = 0;
  // What must be 0: kernels that found a byte other than it was written; errors
  // of the driver that stay; calls that failed and should not have.
  uint64_t content_errors = 0;
  uint64_t sticky_errors = 0;
  uint64_t refused_calls = 0;
  std::string first_refusal;
};

// Eight threads, by default, allocate in three domains and free, write and
// check their blocks by kernels on four streams through the raw pointers,
// inside launch scopes; pin them, declare them idle and active, capture graphs
// that use them. Two controllers never stop, one that closes the gate and one
// that moves what is idle. At the end all is freed, nothing may be live, and
// the pool's invariants hold: an error says which does not.
absl::StatusOr<SoakResult> RunSoak(const SoakOptions& options);

// "soak: mode=lazy seconds=600 moves=123456 content_errors=0 sticky_errors=0".
std::string SoakLine(const SoakOptions& options, const SoakResult& result);

}  // namespace firn::testing

#endif  // FIRN_TESTS_SOAK_SOAK_H_
