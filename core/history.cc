// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/history.h"

namespace firn {

absl::string_view HistoryKindName(HistoryKind kind) {
  switch (kind) {
    case HistoryKind::kAllocate:
      return "allocate";
    case HistoryKind::kFree:
      return "free";
    case HistoryKind::kFreeRequested:
      return "free_requested";
    case HistoryKind::kFreeCompleted:
      return "free_completed";
    case HistoryKind::kAllocateFailure:
      return "allocate_failure";
    case HistoryKind::kMap:
      return "map";
    case HistoryKind::kUnmap:
      return "unmap";
    case HistoryKind::kMove:
      return "move";
    case HistoryKind::kPassBegin:
      return "pass_begin";
    case HistoryKind::kPassEnd:
      return "pass_end";
  }
  return "unknown";
}

}  // namespace firn
