// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/sample_set.h"

#include <algorithm>
#include <cmath>

namespace firn::gpu_check {

double SampleSet::Percentile(double share) const {
  if (values_.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values_.size()));
  const size_t index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  std::vector<double> values = values_;
  const auto nth = values.begin() + static_cast<ptrdiff_t>(index);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace firn::gpu_check
