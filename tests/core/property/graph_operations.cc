// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/graph_operations.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {

void BeginPool::Perform(State& state) const {
  GraphAccount& graphs = state.graphs();
  const DeviceWork& work = state.work();
  std::vector<StreamHandle> handles;
  for (uint32_t i = 0; i < work.stream_count(); ++i) {
    if ((streams >> i & 1) != 0) handles.push_back(work.stream(i));
  }
  const GraphPoolId pool{id};
  const absl::Status status = state.pool().BeginPool(pool, handles);
  const bool is_refused = graphs.IsOpen(pool) || graphs.HasUser(handles);
  if (status.ok()) {
    state.Expect(!is_refused, "BeginPool: took what it must refuse");
    graphs.Begin(&state.pool(), pool, handles);
    return;
  }
  // The first one may have to wait for what was freed before.
  const bool may_be_refused =
      is_refused || (!graphs.are_used() && state.is_inside());
  state.Expect((may_be_refused && absl::IsFailedPrecondition(status)) ||
                   state.was_faulted(),
               absl::StrCat("BeginPool: ", status.ToString()));
}

void EndPool::Perform(State& state) const {
  GraphAccount& graphs = state.graphs();
  const GraphPoolId pool{id};
  const absl::Status status = state.pool().EndPool(pool);
  if (graphs.IsOpen(pool)) {
    state.Expect(status);
    graphs.End(pool);
  } else {
    state.Expect(absl::IsFailedPrecondition(status),
                 absl::StrCat("EndPool: ", status.ToString()));
  }
}

void ReleasePool::Perform(State& state) const {
  GraphAccount& graphs = state.graphs();
  const GraphPoolId pool{id};
  const absl::Status status = state.pool().ReleasePool(pool);
  if (!graphs.IsKnown(pool)) {
    return state.Expect(absl::IsInvalidArgument(status),
                        absl::StrCat("ReleasePool: ", status.ToString()));
  }
  if (graphs.IsOpen(pool) && graphs.IsLastUse(pool)) {
    return state.Expect(absl::IsFailedPrecondition(status),
                        absl::StrCat("ReleasePool: ", status.ToString()));
  }
  state.Expect(status);
  graphs.Release(pool);
}

}  // namespace firn::testing::property
