// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The classical structures behind one interface: which free bytes of an address
// range a block gets. Pure bookkeeping: whether and by what the addresses are
// backed is up to the owner.

#ifndef FIRN_CORE_PLACEMENT_PLACEMENT_H_
#define FIRN_CORE_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "firn/core/placement/free_range_tree.h"

namespace firn {

// Addresses are numbers from 0 on. All of a granule is the structure's or none
// of it: the owner gives it runs of granules, and takes granules away.
//
// Thread safety: none; guarded by its owner.
class Placement {
 public:
  virtual ~Placement() = default;

  // The value of PoolOptions::placement that names it.
  virtual absl::string_view name() const = 0;

  // Granules that must be given, at a multiple of the alignment, for Take to
  // succeed for certain, whatever is free.
  struct Growth {
    uint64_t bytes = 0;
    uint64_t alignment_bytes = 0;  // a power of two; a granule at least
  };
  virtual Growth GrowthFor(uint64_t bytes, uint64_t alignment_bytes) const = 0;

  // The granules, none of which is the structure's, are free from now on.
  // `wanted_bytes` is what they were got for: structures that keep sizes apart
  // give them to those of that size.
  virtual void Give(FreeRange granules, uint64_t wanted_bytes) = 0;

  // The extent of a block of so many bytes, above 0, that starts at a multiple
  // of `alignment_bytes`, a power of two of at least kQuantumBytes; nothing,
  // and nothing has changed for anybody, if there is no room. The extent is in
  // whole quanta, and as long as the structure wants it.
  virtual std::optional<FreeRange> Take(uint64_t bytes,
                                        uint64_t alignment_bytes) = 0;

  // The extent of a block, as Take has said it, is free again; but for what of
  // it was withdrawn.
  virtual void Free(FreeRange extent) = 0;

  // The granules are the structure's no more: what is free of them now is not,
  // and what blocks free there will not be. Those of them in which a block lies
  // are not given again before it is freed.
  virtual void Withdraw(FreeRange granules) = 0;
};

}  // namespace firn

#endif  // FIRN_CORE_PLACEMENT_PLACEMENT_H_
