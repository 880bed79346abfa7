// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of weighted values in constant memory: bins as wide as 1/2048 of
// their value.

#ifndef FIRN_BENCH_REPLAY_WEIGHTED_HISTOGRAM_H_
#define FIRN_BENCH_REPLAY_WEIGHTED_HISTOGRAM_H_

#include <cstddef>
#include <vector>

namespace firn::bench {

// Values from 1 to 2^32; those outside count in the first or last bin. Thread
// safety: none.
class WeightedHistogram {
 public:
  WeightedHistogram();

  void Add(double value, double weight);

  // The least value v so that values up to v have at least the share `quantile`
  // of all weight: exact where one value fell into v's bin, else the largest
  // of them. 0 when nothing was added.
  double Quantile(double quantile) const;

 private:
  struct Bin {
    double weight = 0;
    double largest = 0;
  };

  static size_t BinOf(double value);

  std::vector<Bin> bins_;
  double total_weight_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_REPLAY_WEIGHTED_HISTOGRAM_H_
