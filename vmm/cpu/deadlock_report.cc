// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/deadlock_report.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace firn::cpu {
namespace {

std::string DescribeState(const StuckStream& stream) {
  switch (stream.state) {
    case OperationState::kNotStarted:
      return "has not started";
    case OperationState::kRuns:
      return "runs and does not end";
    case OperationState::kWaitsInDriver:
      return "waits in a call of the driver that it makes itself";
    case OperationState::kWaitsForCondition:
    case OperationState::kWaitsForStream:
      break;
  }
  return absl::StrCat("waits for ", stream.waits_for);
}

}  // namespace

std::string DescribeDeadlock(std::vector<StuckStream> streams) {
  std::sort(streams.begin(), streams.end(),
            [](const StuckStream& a, const StuckStream& b) {
              const auto key = [](const StuckStream& stream) {
                return std::make_tuple(
                    stream.state == OperationState::kWaitsForStream,
                    stream.stream_id);
              };
              return key(a) < key(b);
            });
  return absl::StrJoin(
      streams, "; ", [](std::string* out, const StuckStream& stream) {
        absl::StrAppend(out, "stream ", stream.stream_id, " (device ",
                        stream.device, "), operation ", stream.operation,
                        " of ", stream.operations, " (", stream.name,
                        "): ", DescribeState(stream));
      });
}

}  // namespace firn::cpu
