// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/pickle_document.h"

#include <cstddef>

namespace firn::bench {

const std::vector<PickleValue>& PickleDocument::Items(
    const PickleValue& value) const {
  static const auto& nothing = *new std::vector<PickleValue>();
  switch (value.kind) {
    case PickleKind::kTuple:
    case PickleKind::kList:
    case PickleKind::kDict:
      return containers_[value.index];
    default:
      return nothing;
  }
}

const PickleValue* PickleDocument::Find(const PickleValue& dict,
                                        absl::string_view key) const {
  if (dict.kind != PickleKind::kDict) return nullptr;
  const std::vector<PickleValue>& items = Items(dict);
  // Backwards: of two equal keys Python keeps the later value.
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (IsText(items[i - 2], key)) return &items[i - 1];
  }
  return nullptr;
}

}  // namespace firn::bench
