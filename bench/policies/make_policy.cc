// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/policies/make_policy.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/policies/arena_policy.h"
#include "bench/policies/buddy_policy.h"
#include "bench/policies/caching_policy.h"
#include "bench/policies/expandable_policy.h"
#include "bench/policies/firn_policy.h"
#include "bench/policies/ideal_policy.h"
#include "bench/policies/paged_migrating_policy.h"
#include "bench/policies/paged_policy.h"
#include "bench/policies/size_hash_policy.h"
#include "bench/policies/slab_policy.h"
#include "bench/policies/stitching_policy.h"
#include "bench/policies/tiered_policy.h"

namespace firn::bench {
namespace {

using Maker =
    absl::StatusOr<std::unique_ptr<Policy>> (*)(const PolicyOptions& options);

template <typename Baseline>
absl::StatusOr<std::unique_ptr<Policy>> MakeBaseline(
    const PolicyOptions& options) {
  return std::make_unique<Baseline>(options);
}

struct NamedMaker {
  absl::string_view name;
  Maker make;
};

constexpr NamedMaker kMakers[] = {
    {"firn", &FirnPolicy::Create},
    {"free_list", &MakeBaseline<FreeListPolicy>},
    {"best_fit", &MakeBaseline<BestFitPolicy>},
    {"size_hash", &MakeBaseline<SizeHashPolicy>},
    {"slab", &MakeBaseline<SlabPolicy>},
    {"buddy", &MakeBaseline<BuddyPolicy>},
    {"tiered", &MakeBaseline<TieredPolicy>},
    {"caching", &MakeBaseline<CachingPolicy>},
    {"expandable", &MakeBaseline<ExpandablePolicy>},
    {"paged", &MakeBaseline<PagedPolicy>},
    {"paged_migrating", &MakeBaseline<PagedMigratingPolicy>},
    {"stitching", &MakeBaseline<StitchingPolicy>},
    {"ideal", &MakeBaseline<IdealPolicy>},
};

absl::Status CheckSizes(const PolicyOptions& options) {
  const uint64_t granule_bytes = options.granule_bytes;
  if (granule_bytes < 4096 || (granule_bytes & (granule_bytes - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a granule of ", granule_bytes,
                     " bytes: must be a power of two of at least 4096"));
  }
  if (options.capacity_bytes == 0 ||
      options.capacity_bytes % granule_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a capacity of ", options.capacity_bytes,
        " bytes: must be one or more granules of ", granule_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<absl::string_view> PolicyNames() {
  std::vector<absl::string_view> names;
  for (const NamedMaker& maker : kMakers) names.push_back(maker.name);
  return names;
}

bool CompactsInBackground(const PolicyOptions& options) {
  return options.compaction == CompactionMode::kBackground &&
         (options.policy == "firn" || options.policy == "paged_migrating");
}

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(
    const PolicyOptions& options) {
  if (absl::Status status = CheckSizes(options); !status.ok()) return status;
  for (const NamedMaker& maker : kMakers) {
    if (maker.name == options.policy) return maker.make(options);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown policy '", options.policy, "': one of ",
                   absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace firn::bench
