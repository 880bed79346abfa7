// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cost_model.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace firn {
namespace {

// What one profile charges, in microseconds.
struct Costs {
  double reserve = 0;
  double create = 0;
  double create_spread = 0;  // uniform from 0, on top: first touch and scrub
  double map = 0;
  double set_access = 0;
  double set_access_per_handle = 0;
  double unmap_per_handle = 0;
  double release = 0;
  double copy_launch = 0;
  double copy_bytes_per_us = 1;
  bool has_tail = false;
};

// A100, 80 GB: per-call times published for 4096 handles of 2 MiB. SetAccess is
// a line fitted through the one published point, 36 us for one handle.
constexpr Costs kA100 = {
    /*reserve=*/19,
    /*create=*/30,
    /*create_spread=*/165,
    /*map=*/1.5,
    /*set_access=*/20,
    /*set_access_per_handle=*/16,
    /*unmap_per_handle=*/26,
    /*release=*/20,
    /*copy_launch=*/8,
    /*copy_bytes_per_us=*/750e3,
    /*has_tail=*/true,
};

// A fast device and driver: 21 us for the access of one handle, and Unmap per
// handle as on the A100, since its cost grows with the handles everywhere.
constexpr Costs kFast = {
    /*reserve=*/9,
    /*create=*/8,
    /*create_spread=*/0,
    /*map=*/1,
    /*set_access=*/20,
    /*set_access_per_handle=*/1,
    /*unmap_per_handle=*/11.5,
    /*release=*/8,
    /*copy_launch=*/5,
    /*copy_bytes_per_us=*/1.4e6,
    /*has_tail=*/false,
};

constexpr Costs kNone = {};

const Costs& CostsOf(CostProfile profile) {
  switch (profile) {
    case CostProfile::kNone:
      return kNone;
    case CostProfile::kFast:
      return kFast;
    case CostProfile::kA100:
      return kA100;
  }
  return kNone;
}

// One call in 5000 stalls for 150 to 950 us; one in 100 takes four times as
// long.
constexpr double kStallShare = 0.0002;
constexpr double kStallMinUs = 150;
constexpr double kStallMaxUs = 950;
constexpr double kSlowShare = 0.01;
constexpr double kSlowFactor = 4;

}  // namespace

absl::StatusOr<CostProfile> ParseCostProfile(absl::string_view name) {
  if (name == "none") return CostProfile::kNone;
  if (name == "fast") return CostProfile::kFast;
  if (name == "a100") return CostProfile::kA100;
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown cost profile '", name, "': expected a100, fast or none"));
}

double CostModel::Reserve() { return WithTail(CostsOf(profile_).reserve); }

double CostModel::Create() {
  const Costs& costs = CostsOf(profile_);
  double us = costs.create;
  if (costs.create_spread > 0) us += costs.create_spread * uniform_.Next();
  return WithTail(us);
}

double CostModel::Map() { return WithTail(CostsOf(profile_).map); }

double CostModel::SetAccess(uint64_t handles) {
  const Costs& costs = CostsOf(profile_);
  return WithTail(costs.set_access +
                  costs.set_access_per_handle * static_cast<double>(handles));
}

double CostModel::Unmap(uint64_t handles) {
  return WithTail(CostsOf(profile_).unmap_per_handle *
                  static_cast<double>(handles));
}

double CostModel::Release() { return WithTail(CostsOf(profile_).release); }

// A copy is work of the device: none of the driver's tail.
double CostModel::Copy(uint64_t bytes) {
  if (profile_ == CostProfile::kNone) return 0;
  const Costs& costs = CostsOf(profile_);
  return costs.copy_launch +
         static_cast<double>(bytes) / costs.copy_bytes_per_us;
}

double CostModel::WithTail(double us) {
  if (!CostsOf(profile_).has_tail) return us;
  const double draw = uniform_.Next();
  if (draw < kStallShare) {
    return us + kStallMinUs + (kStallMaxUs - kStallMinUs) * uniform_.Next();
  }
  if (draw < kStallShare + kSlowShare) return us * kSlowFactor;
  return us;
}

}  // namespace firn
