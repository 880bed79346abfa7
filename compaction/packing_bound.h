// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How few bins any packing of weights needs, whatever the offsets: what lives
// on one granule is disjoint, so that a placement of virtual granules is above
// all a packing of their live quanta into granules.

#ifndef FIRN_COMPACTION_PACKING_BOUND_H_
#define FIRN_COMPACTION_PACKING_BOUND_H_

#include <cstdint>

#include "absl/types/span.h"

namespace firn {

// `weights[w]` is how many items weigh w; the capacity of a bin is the largest
// index. Never above the least number of bins, and never below
//  - the total weight over the capacity, rounded up,
//  - the number of items of more than half of the capacity,
//  - bound L2 of Martello and Toth, Knapsack Problems (1990), chapter 8.
//
// A function f with f(x1) + ... + f(xn) <= 1 wherever x1 + ... + xn <= 1 is
// dual feasible: the sum of f over all items, rounded up, is a bound. Tried
// are, for every threshold e <= 1/2, Fekete and Schepers' U_e (above 1 - e: 1,
// below e: 0, else x), which give L2, and with each of them, for k = 2 to 7,
// their u_k(x) = x where (k + 1) x is whole, else floor((k + 1) x) / k ("New
// classes of fast lower bounds for bin packing problems", Mathematical
// Programming 91, 2001): L2 sees what is larger than a half, u_k what is larger
// than a (k + 1)th as well.
//
// Linear in the capacity.
uint32_t PackingBound(absl::Span<const uint32_t> weights);

}  // namespace firn

#endif  // FIRN_COMPACTION_PACKING_BOUND_H_
