// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pairs two recordings of one program at different sequence lengths.
//
// The allocations of both are aligned in their order by the shortest edit
// script (E. Myers, An O(ND) difference algorithm, 1986), where two match if
// their sizes are those of one block (AreCounterparts). Where a gap between two
// matches holds as many allocations on either side, they are paired up in turn.
// Each block of the snapshot so gets the law of its size; those without a
// counterpart keep the recorded size. Frees need no alignment: the program that
// is played is the snapshot's own.
//
// More than one in twenty blocks (and more than one) unexplained: not the same
// program.

#ifndef FIRN_BENCH_TRACES_TORCH_PAIRING_H_
#define FIRN_BENCH_TRACES_TORCH_PAIRING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/traces/torch_program.h"
#include "bench/traces/torch_size_law.h"

namespace firn::bench {

constexpr size_t kNoCounterpart = ~size_t{0};

// For each of `own` the number of its counterpart in `pair`, rising, or
// kNoCounterpart. Sizes are in the order of allocation. InvalidArgument where
// they differ by more than `most_differences` insertions and removals. Takes
// time O((own + pair) x differences) and memory O(differences^2).
absl::StatusOr<std::vector<size_t>> AlignAllocations(
    const TorchLengths& lengths, absl::Span<const uint64_t> own,
    absl::Span<const uint64_t> pair, size_t most_differences);

// The law of each block of `own`. InvalidArgument says what does not match; it
// is to follow the names of the two files.
absl::StatusOr<std::vector<TorchSizeLaw>> PairPrograms(
    const TorchLengths& lengths, const TorchProgram& own,
    const TorchProgram& pair);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_TORCH_PAIRING_H_
