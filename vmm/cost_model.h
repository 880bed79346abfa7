// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What driver calls cost, in microseconds of a virtual clock. The figures come
// from published measurements of others (docs/benchmarks.md names them); none
// was measured by this project on a GPU.

#ifndef FIRN_VMM_COST_MODEL_H_
#define FIRN_VMM_COST_MODEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/vmm/uniform_draws.h"

namespace firn {

enum class CostProfile { kNone, kFast, kA100 };

// "none", "fast" or "a100"; InvalidArgument lists them otherwise.
absl::StatusOr<CostProfile> ParseCostProfile(absl::string_view name);

// Deterministic: the same calls in the same order cost the same.
// Thread safety: none; guarded by its owner.
class CostModel {
 public:
  explicit CostModel(CostProfile profile) : profile_(profile) {}

  // Each returns what one such call costs, in microseconds. `handles` is the
  // number of physical handles the range covers.
  double Reserve();
  double Create();
  double Map();
  double SetAccess(uint64_t handles);
  double Unmap(uint64_t handles);
  double Release();
  double Copy(uint64_t bytes);

 private:
  double WithTail(double us);

  CostProfile profile_;
  UniformDraws uniform_{1};
};

}  // namespace firn

#endif  // FIRN_VMM_COST_MODEL_H_
