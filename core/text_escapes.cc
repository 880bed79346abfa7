// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/text_escapes.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace firn {
namespace {

constexpr absl::string_view kReplacementCharacter = "\xEF\xBF\xBD";

bool IsIn(char byte, uint8_t least, uint8_t most) {
  const auto value = static_cast<uint8_t>(byte);
  return value >= least && value <= most;
}

// The bytes of the character that `text`, which is not empty, begins with; 0
// if it begins with none (Unicode, table 3-7: no overlong forms, no surrogates,
// nothing beyond U+10FFFF).
size_t BytesOfFirstCharacter(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  uint8_t least_second = 0x80;
  uint8_t most_second = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    bytes = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    bytes = 3;
    if (first == 0xE0) least_second = 0xA0;
    if (first == 0xED) most_second = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    bytes = 4;
    if (first == 0xF0) least_second = 0x90;
    if (first == 0xF4) most_second = 0x8F;
  }
  if (bytes == 0 || text.size() < bytes) return 0;
  if (!IsIn(text[1], least_second, most_second)) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (!IsIn(text[i], 0x80, 0xBF)) return 0;
  }
  return bytes;
}

}  // namespace

std::string ToValidUtf8(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t bytes = BytesOfFirstCharacter(text);
    absl::StrAppend(&valid,
                    bytes == 0 ? kReplacementCharacter : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return valid;
}

std::string EscapeForJson(absl::string_view text) {
  std::string escaped;
  for (const char c : ToValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (IsIn(c, 0, 0x1F)) {
      absl::StrAppend(&escaped, "\\u",
                      absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad4));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string EscapeForPrometheusLabel(absl::string_view text) {
  return absl::StrReplaceAll(ToValidUtf8(text),
                             {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string EscapeForPrometheusHelp(absl::string_view text) {
  return absl::StrReplaceAll(ToValidUtf8(text),
                             {{"\\", "\\\\"}, {"\n", "\\n"}});
}

}  // namespace firn
