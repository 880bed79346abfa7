// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints structs that name their fields as C++: Allocate{.bytes = 512}.

#ifndef FIRN_TESTS_CORE_PROPERTY_PRINTING_H_
#define FIRN_TESTS_CORE_PROPERTY_PRINTING_H_

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace firn::testing::property {

// Handed to a struct's Fields(), in the order of their declaration. Enums need
// a function NameOf that returns how C++ spells the value.
class FieldPrinter {
 public:
  template <typename T>
  void operator()(absl::string_view name, const T& value) {
    absl::StrAppend(&text_, text_.empty() ? "." : ", .", name, " = ");
    if constexpr (std::is_same_v<T, bool>) {
      absl::StrAppend(&text_, value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      absl::StrAppend(&text_, NameOf(value));
    } else {
      static_assert(std::is_unsigned_v<T>);
      absl::StrAppend(&text_, value);
      if (value > 0x7FFFFFFF) absl::StrAppend(&text_, "u");
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// `T` has a kName and Fields().
template <typename T>
std::string ToCode(const T& value) {
  FieldPrinter printer;
  value.Fields(printer);
  return absl::StrCat(T::kName, "{", printer.text(), "}");
}

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_PRINTING_H_
