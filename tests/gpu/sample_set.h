// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Repeated readings of one quantity.

#ifndef FIRN_TESTS_GPU_SAMPLE_SET_H_
#define FIRN_TESTS_GPU_SAMPLE_SET_H_

#include <cstddef>
#include <vector>

namespace firn::gpu_check {

class SampleSet {
 public:
  void Add(double value) { values_.push_back(value); }

  size_t count() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  // The least value that at least `share` of all are no larger than (nearest
  // rank); 0 of none.
  double Percentile(double share) const;
  double p10() const { return Percentile(0.1); }
  double median() const { return Percentile(0.5); }
  double p90() const { return Percentile(0.9); }

 private:
  std::vector<double> values_;
};

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_SAMPLE_SET_H_
