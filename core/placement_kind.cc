// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement_kind.h"

#include "absl/strings/str_cat.h"
#include "firn/vmm/units.h"

namespace firn {
namespace {

struct NamedKind {
  PlacementKind kind;
  absl::string_view name;
};

constexpr NamedKind kKinds[] = {
    {PlacementKind::kFirn, "firn"},
    {PlacementKind::kFreeList, "free_list"},
    {PlacementKind::kBestFit, "best_fit"},
    {PlacementKind::kSizeHash, "size_hash"},
    {PlacementKind::kSlab, "slab"},
    {PlacementKind::kBuddy, "buddy"},
    {PlacementKind::kTiered, "tiered"},
};

constexpr uint64_t kMostLargeBytes = uint64_t{1} << 46;

}  // namespace

absl::string_view PlacementKindName(PlacementKind kind) {
  for (const NamedKind& named : kKinds) {
    if (named.kind == kind) return named.name;
  }
  return "unknown";
}

std::optional<PlacementKind> PlacementKindFromName(absl::string_view name) {
  for (const NamedKind& named : kKinds) {
    if (named.name == name) return named.kind;
  }
  return std::nullopt;
}

absl::Status TierBounds::Validate(uint64_t granule_bytes) const {
  if ((large_bytes & (large_bytes - 1)) != 0 || large_bytes < granule_bytes ||
      large_bytes > kMostLargeBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "large_bytes: ", large_bytes, "; must be a power of two from ",
        granule_bytes, ", one granule, to ", kMostLargeBytes));
  }
  if (small_bytes == 0 || small_bytes % kQuantumBytes != 0 ||
      small_bytes > large_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "small_bytes: ", small_bytes, "; must be a multiple of ", kQuantumBytes,
        " from ", kQuantumBytes, " to large_bytes, ", large_bytes));
  }
  if (small != Small::kSlab && small != Small::kSizeHash) {
    return absl::InvalidArgumentError(
        absl::StrCat("small: ", static_cast<int>(small),
                     "; must be Small::kSlab or Small::kSizeHash"));
  }
  return absl::OkStatus();
}

}  // namespace firn
