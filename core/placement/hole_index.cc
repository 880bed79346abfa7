// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/placement/hole_index.h"

namespace firn {

void HoleIndex::Resize(uint32_t limit) {
  is_changed_.resize(limit, false);
  // At twice the size, as vectors do: no mark has to wait for memory.
  if (changed_.capacity() < limit) changed_.reserve(size_t{limit} * 2);
  for (Order& order : orders_) {
    if (order.in_use) order.quanta.resize(limit, 0);
  }
}

void HoleIndex::Order::Set(GranuleId granule, uint32_t hole_quanta) {
  uint32_t& known_quanta = quanta[granule.value()];
  if (known_quanta == hole_quanta) return;
  if (known_quanta > 0) by_quanta.erase({known_quanta, granule.value()});
  if (hole_quanta > 0) by_quanta.insert({hole_quanta, granule.value()});
  known_quanta = hole_quanta;
}

}  // namespace firn
