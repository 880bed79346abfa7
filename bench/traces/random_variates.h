// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Draws from named distributions, out of a seeded sequence.

#ifndef FIRN_BENCH_TRACES_RANDOM_VARIATES_H_
#define FIRN_BENCH_TRACES_RANDOM_VARIATES_H_

#include <cstdint>

#include "bench/traces/seeded_random.h"

namespace firn::bench {

// Standard normal, by Box and Muller.
double DrawNormal(SeededRandom* random);

// Gamma with that shape (greater than 0) and scale 1, by Marsaglia and Tsang.
// Below a shape of some 1/1000 most draws are too small for a double: 0.
double DrawGamma(double shape, SeededRandom* random);

// How many tries the first success takes, at least 1; `share` in (0, 1] of
// them succeed.
uint64_t DrawTries(double share, SeededRandom* random);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_RANDOM_VARIATES_H_
