// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The gaps between the requests of one client, as ServeGen describes them: a
// distribution's name and the coefficient of variation (CV), the standard
// deviation over the mean.

#ifndef FIRN_BENCH_TRACES_ARRIVAL_GAPS_H_
#define FIRN_BENCH_TRACES_ARRIVAL_GAPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/traces/seeded_random.h"

namespace firn::bench {

// Gaps with a mean of 1. Thread safety: read-only once made.
class ArrivalGaps {
 public:
  // Greater ones are damage: a window of n requests cannot show a CV beyond
  // the root of n.
  static constexpr double kMaxCv = 1e4;

  // `distribution` is Gamma, Weibull (both of that CV, up to kMaxCv) or
  // Exponential (whose CV is 1 whatever is given). The words of
  // InvalidArgument are fit to follow "FILE:LINE: field: ".
  static absl::StatusOr<ArrivalGaps> Create(absl::string_view distribution,
                                            double cv);

  // `gaps` (at least 1) of them together: exact for Gamma and Exponential.
  // Many Weibull gaps are drawn as Gamma ones with the same mean and CV.
  double DrawSum(uint64_t gaps, SeededRandom* random) const;

 private:
  ArrivalGaps() = default;

  double cv_squared_ = 1;
  double weibull_power_ = 0;  // 1 / shape; 0 for no Weibull
  double weibull_scale_ = 0;
};

// 1 / shape of the Weibull distribution of that CV, from 0.001 to kMaxCv.
double WeibullPower(double cv);

// The natural logarithm of Gamma(x), for x of at least 1.
double LogGamma(double x);

}  // namespace firn::bench

#endif  // FIRN_BENCH_TRACES_ARRIVAL_GAPS_H_
