// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tags: what a pool's memory is used for, in the user's own words.
//
//   absl::StatusOr<firn::Tag> weights = pool->RegisterTag("weights");
//   if (!weights.ok()) return weights.status();
//   firn::AllocateOptions options;
//   options.tag = *weights;
//   ... pool->Allocate(bytes, options) ...
//   for (const firn::TagStats& tag : pool->GetTagStats()) { ... }

#ifndef FIRN_CORE_TAGS_H_
#define FIRN_CORE_TAGS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace firn {

// Of one pool, which has given it out.
enum class Tag : uint8_t { kUntagged = 0 };

// What is allocated with one tag.
struct TagStats {
  Tag tag = Tag::kUntagged;
  std::string name;  // "untagged" for blocks without a tag
  uint64_t live_bytes = 0;
  uint64_t live_allocations = 0;
  uint64_t allocations = 0;  // since creation
  // The most that was live at a time. Not known of blocks without a tag, which
  // threads allocate and free in their caches.
  std::optional<uint64_t> peak_live_bytes;
};

}  // namespace firn

#endif  // FIRN_CORE_TAGS_H_
