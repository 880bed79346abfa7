// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/servegen_lengths.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/traces/byte_source.h"
#include "bench/traces/decimal_number.h"
#include "bench/traces/whole_number.h"
#include "nlohmann/json.hpp"

namespace firn::bench {
namespace {

// The largest of the published files has 4 MB.
constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr double kMaxStartSeconds = 1e12;

constexpr absl::string_view kShape =
    "{window: {input_tokens: text, output_tokens: text}} is expected";

// Takes the file's parts as the parser finds them, so that no tree of them is
// ever held. A call returns false, with an error kept, to end the parse.
class LengthsHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  LengthsHandler(absl::string_view path, size_t most_lengths)
      : path_(path), most_lengths_(most_lengths) {}

  const absl::Status& status() const { return status_; }
  std::vector<LengthWindow> TakeWindows() { return std::move(windows_); }

  bool null() override { return OtherValue(); }
  bool boolean(bool) override { return OtherValue(); }
  bool number_integer(number_integer_t) override { return OtherValue(); }
  bool number_unsigned(number_unsigned_t) override { return OtherValue(); }
  bool number_float(number_float_t, const string_t&) override {
    return OtherValue();
  }
  bool binary(binary_t&) override { return OtherValue(); }
  bool start_array(size_t) override { return Enter(false); }
  bool end_array() override { return Leave(); }
  bool start_object(size_t) override { return Enter(true); }
  bool end_object() override { return Leave(); }

  bool key(string_t& name) override {
    if (depth_ == kInFile) return StartWindow(name);
    if (depth_ == kInWindow) field_ = name;
    return true;
  }

  bool string(string_t& text) override {
    TokenHistogram* histogram = depth_ == kInWindow ? Histogram() : nullptr;
    if (histogram == nullptr) return OtherValue();
    absl::StatusOr<TokenHistogram> read = TokenHistogram::Parse(text);
    if (!read.ok()) return Fail(read.status().message());
    lengths_ += read->lengths();
    if (lengths_ > most_lengths_) return Fail("too many lengths in all");
    *histogram = *std::move(read);
    (histogram == &window_.input ? has_input_ : has_output_) = true;
    return true;
  }

  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::json::exception&) override {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_, ": byte ", position, ": damaged or cut off at ",
                     Quoted(last_token), "; ", kShape));
    return false;
  }

 private:
  // Depths of the parse.
  static constexpr size_t kOutside = 0;
  static constexpr size_t kInFile = 1;
  static constexpr size_t kInWindow = 2;

  TokenHistogram* Histogram() {
    if (field_ == "input_tokens") return &window_.input;
    if (field_ == "output_tokens") return &window_.output;
    return nullptr;
  }

  // A value that is no histogram: right only within other fields.
  bool OtherValue() {
    if (depth_ < kInWindow || (depth_ == kInWindow && Histogram() != nullptr)) {
      return Fail(absl::StrCat("a value of another type; ", kShape));
    }
    return true;
  }

  bool Enter(bool object) {
    if (!(object && depth_ < kInWindow) && !OtherValue()) return false;
    ++depth_;
    return true;
  }

  bool Leave() {
    --depth_;
    return depth_ != kInFile || EndWindow();
  }

  bool StartWindow(const std::string& name) {
    window_ = LengthWindow();
    has_input_ = has_output_ = false;
    window_name_ = name;
    field_.clear();
    absl::StatusOr<double> start_s = ParseDecimal(name, kMaxStartSeconds);
    if (!start_s.ok()) {
      window_name_.clear();
      return Fail(
          absl::StrCat("a window's start: ", start_s.status().message()));
    }
    window_.start_s = *start_s;
    return true;
  }

  bool EndWindow() {
    field_.clear();
    if (!has_input_ || !has_output_) {
      return Fail(absl::StrCat(
          "no ", has_input_ ? "output_tokens" : "input_tokens", "; ", kShape));
    }
    if (window_.input.empty() != window_.output.empty()) {
      return Fail(
          "lengths for only one of input_tokens and output_tokens; for both "
          "or for neither is expected");
    }
    if (!window_.input.empty()) windows_.push_back(std::move(window_));
    return true;
  }

  // "FILE: window '600': input_tokens: reason", as far as it is inside these.
  bool Fail(absl::string_view reason) {
    std::string where(path_);
    if (!window_name_.empty()) {
      absl::StrAppend(&where, ": window ", Quoted(window_name_));
    }
    if (!field_.empty()) absl::StrAppend(&where, ": ", field_);
    status_ = absl::InvalidArgumentError(absl::StrCat(where, ": ", reason));
    return false;
  }

  const absl::string_view path_;
  const size_t most_lengths_;
  absl::Status status_;
  std::vector<LengthWindow> windows_;
  size_t lengths_ = 0;
  size_t depth_ = kOutside;
  LengthWindow window_;  // the current one
  std::string window_name_;
  std::string field_;
  bool has_input_ = false;
  bool has_output_ = false;
};

}  // namespace

absl::StatusOr<std::vector<LengthWindow>> ReadServeGenLengths(
    absl::string_view path, size_t most_lengths) {
  absl::StatusOr<std::string> text = ReadAllBytes(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  LengthsHandler handler(path, most_lengths);
  nlohmann::json::sax_parse(*text, &handler);
  if (!handler.status().ok()) return handler.status();
  std::vector<LengthWindow> windows = handler.TakeWindows();
  std::sort(windows.begin(), windows.end(),
            [](const LengthWindow& a, const LengthWindow& b) {
              return a.start_s < b.start_s;
            });
  for (size_t i = 1; i < windows.size(); ++i) {
    if (windows[i].start_s == windows[i - 1].start_s) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": two windows start at ", windows[i].start_s, " s"));
    }
  }
  return windows;
}

}  // namespace firn::bench
