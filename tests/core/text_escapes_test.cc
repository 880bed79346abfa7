// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/text_escapes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace firn {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

TEST(TextEscapesTest, PlainTextStaysAsItIs) {
  constexpr absl::string_view kPlain = "weights/layer 0: {a='b'}, \x7F ~";
  EXPECT_EQ(EscapeForJson(kPlain), kPlain);
  EXPECT_EQ(EscapeForPrometheusLabel(kPlain), kPlain);
  EXPECT_EQ(EscapeForPrometheusHelp(kPlain), kPlain);
  EXPECT_EQ(EscapeForJson(""), "");
}

TEST(TextEscapesTest, JsonEscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(EscapeForJson("a\"b\\c"), "a\\\"b\\\\c");
  EXPECT_EQ(EscapeForJson("\n\t\x1F"), "\\u000a\\u0009\\u001f");
  EXPECT_EQ(EscapeForJson(absl::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(TextEscapesTest, LabelsEscapeBackslashesQuotesAndNewlines) {
  EXPECT_EQ(EscapeForPrometheusLabel("a\\b\"c\nd\te"), "a\\\\b\\\"c\\nd\te");
  // Not what a newline is written as.
  EXPECT_EQ(EscapeForPrometheusLabel("\\n"), "\\\\n");
}

TEST(TextEscapesTest, HelpEscapesBackslashesAndNewlinesButNoQuotes) {
  EXPECT_EQ(EscapeForPrometheusHelp("a\\b\"c\nd"), "a\\\\b\"c\\nd");
}

TEST(TextEscapesTest, CharactersOfAllLengthsStay) {
  // The least and the greatest of two, three and four bytes, and what lies
  // around the surrogates.
  for (const absl::string_view text :
       {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(EscapeForJson(text), text);
    EXPECT_EQ(EscapeForPrometheusLabel(text), text);
    EXPECT_EQ(EscapeForPrometheusHelp(text), text);
  }
}

TEST(TextEscapesTest, BytesThatArePartOfNoCharacterAreReplaced) {
  // A continuation alone, overlong forms, a surrogate, beyond the last
  // character, and bytes that never occur.
  for (const absl::string_view text :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    std::string replaced;
    for (size_t i = 0; i < text.size(); ++i) {
      absl::StrAppend(&replaced, kReplacement);
    }
    EXPECT_EQ(EscapeForJson(text), replaced);
    EXPECT_EQ(EscapeForPrometheusLabel(text), replaced);
    EXPECT_EQ(EscapeForPrometheusHelp(text), replaced);
  }
}

TEST(TextEscapesTest, ACharacterThatIsCutOffTakesNothingWithIt) {
  EXPECT_EQ(EscapeForJson("\xC3\"x"), absl::StrCat(kReplacement, "\\\"x"));
  EXPECT_EQ(EscapeForPrometheusLabel("a\xE2\x82"),
            absl::StrCat("a", kReplacement, kReplacement));
  EXPECT_EQ(EscapeForPrometheusLabel("\xF0\x9F\n"),
            absl::StrCat(kReplacement, kReplacement, "\\n"));
}

}  // namespace
}  // namespace firn
