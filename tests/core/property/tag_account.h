// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The tags of a sequence of operations, and what is allocated with them.

#ifndef FIRN_TESTS_CORE_PROPERTY_TAG_ACCOUNT_H_
#define FIRN_TESTS_CORE_PROPERTY_TAG_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "firn/core/tags.h"
#include "tests/core/property/account.h"

namespace firn::testing::property {

class TagAccount : public Account {
 public:
  TagAccount();

  // The pool gave out `tag` for this name. Internal: it is not the one that it
  // must give out.
  absl::Status Register(absl::string_view name, Tag tag);
  // 0: no tag; else one of those registered, by the remainder, if any is.
  Tag Pick(uint32_t number) const;
  // Is not registered.
  Tag Unknown() const { return static_cast<Tag>(expected_.size()); }

  void Added(const LiveBlock& block) override;
  void Removed(const LiveBlock& block) override;
  absl::Status AfterOperation(const Pool& pool, const PoolStats& stats,
                              bool was_faulted) override;

 private:
  std::vector<TagStats> expected_;  // by tag
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_TAG_ACCOUNT_H_
