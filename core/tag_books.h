// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The tags of a pool, and which live blocks have one.

#ifndef FIRN_CORE_TAG_BOOKS_H_
#define FIRN_CORE_TAG_BOOKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "firn/core/tags.h"

namespace firn {

// Blocks by the keys by which the pool tells them apart. Thread safety: none;
// guarded by its owner.
class TagBooks {
 public:
  static constexpr size_t kMostTags = 255;

  // InvalidArgument or ResourceExhausted says what is wrong. A name that is
  // registered has its tag already.
  absl::StatusOr<Tag> Register(absl::string_view name);
  // InvalidArgument unless blocks may have this tag.
  absl::Status Check(Tag tag) const;

  // A block was allocated with a tag other than kUntagged.
  void Add(uint64_t key, Tag tag, uint64_t requested_bytes);
  // A block was freed; nothing happens if it has no tag.
  void Remove(uint64_t key, uint64_t requested_bytes) {
    if (!empty()) Erase(key, requested_bytes);
  }
  Tag TagOf(uint64_t key) const {
    const auto found = tag_of_.find(key);
    return found != tag_of_.end() ? found->second : Tag::kUntagged;
  }
  // By tag, the untagged first.
  std::vector<std::string> Names() const;
  bool empty() const { return tag_of_.empty(); }
  bool Has(uint64_t key) const {
    return !tag_of_.empty() && tag_of_.contains(key);
  }

  // By tag, the untagged first: what is left of the pool's own figures.
  std::vector<TagStats> Stats(uint64_t live_bytes, uint64_t live_allocations,
                              uint64_t allocations) const;

 private:
  void Erase(uint64_t key, uint64_t requested_bytes);

  std::vector<TagStats> stats_;                  // of tags 1, 2, ...
  absl::flat_hash_map<std::string, Tag> named_;  // by name
  absl::flat_hash_map<uint64_t, Tag> tag_of_;    // live blocks, by key
};

}  // namespace firn

#endif  // FIRN_CORE_TAG_BOOKS_H_
