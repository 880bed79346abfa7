// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names that users chose, made fit for the formats that statistics are written
// in. Pure functions of any bytes; the results are valid UTF-8, each byte that
// is part of no character replaced by U+FFFD.

#ifndef FIRN_CORE_TEXT_ESCAPES_H_
#define FIRN_CORE_TEXT_ESCAPES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace firn {

// The text with each byte that belongs to no character replaced by U+FFFD.
std::string ToValidUtf8(absl::string_view text);

// What stands between the quotes of a JSON string (RFC 8259).
std::string EscapeForJson(absl::string_view text);

// What stands between the quotes of a label's value in Prometheus' text format.
std::string EscapeForPrometheusLabel(absl::string_view text);

// What follows the name in a HELP line of it; quotes stay as they are.
std::string EscapeForPrometheusHelp(absl::string_view text);

}  // namespace firn

#endif  // FIRN_CORE_TEXT_ESCAPES_H_
