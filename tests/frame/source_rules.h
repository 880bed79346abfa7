// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules every source file keeps, as pure functions of a path (relative to
// the root, with forward slashes) and a text. Each returns one sentence a
// violation, none if the file is in order.

#ifndef FIRN_TESTS_FRAME_SOURCE_RULES_H_
#define FIRN_TESTS_FRAME_SOURCE_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace firn::testing {

using Violations = std::vector<std::string>;

// A folder includes only itself and what lies below it: core, compaction, vmm.
// They are spelled firn/<folder>/<file>.h everywhere; bench and tests by their
// path from the root. cuda.h stays inside the sources of vmm/cuda.
Violations CheckIncludes(absl::string_view path, absl::string_view text);

// The licence lines come first; a header is guarded by FIRN_<PATH>_H_.
Violations CheckHead(absl::string_view path, absl::string_view text);

// A file has fewer than 600 lines.
Violations CheckLength(absl::string_view path, absl::string_view text);

// A file lies in a known top-level folder and in no catch-all folder.
Violations CheckPlace(absl::string_view path);

}  // namespace firn::testing

#endif  // FIRN_TESTS_FRAME_SOURCE_RULES_H_
