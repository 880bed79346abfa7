// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of graph-private pools (Pool::BeginPool).

#ifndef FIRN_CORE_GRAPH_POOL_ID_H_
#define FIRN_CORE_GRAPH_POOL_ID_H_

#include <cstdint>

namespace firn {

// Chosen by the caller, any number, as frameworks do:
//
//   constexpr firn::GraphPoolId kDecoding{7};
enum class GraphPoolId : uint64_t {};

}  // namespace firn

#endif  // FIRN_CORE_GRAPH_POOL_ID_H_
