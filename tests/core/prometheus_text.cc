// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/prometheus_text.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace firn::testing {
namespace {

// [a-zA-Z_][a-zA-Z0-9_]*: what names of metrics and labels may both be.
bool IsName(absl::string_view text) {
  if (text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0])))
    return false;
  return absl::c_all_of(text, [](char c) {
    return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c));
  });
}

bool IsWholeNumber(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// A whole number, or one like 0.25 or 2.5e-05.
bool IsNumber(absl::string_view text) {
  if (IsWholeNumber(text)) return true;
  const size_t exponent = text.find("e-");
  if (exponent != absl::string_view::npos) {
    return IsNumber(text.substr(0, exponent)) &&
           IsWholeNumber(text.substr(exponent + 2));
  }
  const size_t point = text.find('.');
  return point != absl::string_view::npos &&
         IsWholeNumber(text.substr(0, point)) &&
         IsWholeNumber(text.substr(point + 1));
}

// What stands before `end`, which is taken too; nothing if there is no `end`.
absl::string_view TakeUntil(char end, absl::string_view* rest) {
  const size_t at = rest->find(end);
  if (at == absl::string_view::npos) return {};
  const absl::string_view taken = rest->substr(0, at);
  rest->remove_prefix(at + 1);
  return taken;
}

// Takes a label's value with its second quote; false if it is none.
bool TakeLabelValue(absl::string_view* rest, std::string* value) {
  while (!rest->empty()) {
    const char c = rest->front();
    rest->remove_prefix(1);
    if (c == '"') return true;
    if (c != '\\') {
      *value += c;
      continue;
    }
    if (rest->empty()) return false;
    const char escaped = rest->front();
    rest->remove_prefix(1);
    if (escaped == 'n') {
      *value += '\n';
    } else if (escaped == '\\' || escaped == '"') {
      *value += escaped;
    } else {
      return false;
    }
  }
  return false;
}

// name{label="value",...} number
bool ReadSample(absl::string_view line, absl::string_view family,
                PrometheusSample* sample) {
  if (TakeUntil('{', &line) != family) return false;
  do {
    const std::string label(TakeUntil('=', &line));
    std::string value;
    if (!IsName(label) || !absl::ConsumePrefix(&line, "\"") ||
        !TakeLabelValue(&line, &value) ||
        !sample->labels.emplace(label, value).second) {
      return false;
    }
  } while (absl::ConsumePrefix(&line, ","));
  if (!absl::ConsumePrefix(&line, "} ") || !IsNumber(line)) return false;
  sample->value = std::string(line);
  return true;
}

absl::Status Refuse(absl::string_view line, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", line, "\": ", why));
}

class Reader {
 public:
  absl::Status ReadLine(absl::string_view line) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "# HELP ")) return ReadHelp(line, rest);
    if (absl::ConsumePrefix(&rest, "# TYPE ")) return ReadType(line, rest);
    PrometheusSample sample;
    if (families_.empty() || families_.back().type.empty()) {
      return Refuse(line, "no HELP and TYPE before it");
    }
    if (!ReadSample(line, families_.back().name, &sample)) {
      return Refuse(line, "no sample of the family that it stands in");
    }
    if (!labels_.insert(sample.labels).second) {
      return Refuse(line, "this series was there before");
    }
    families_.back().samples.push_back(std::move(sample));
    return absl::OkStatus();
  }

  // Of what ended here.
  absl::Status CheckEnd() const {
    if (families_.empty() || !families_.back().samples.empty()) {
      return absl::OkStatus();
    }
    return Refuse(families_.back().name, "a family without samples");
  }

  std::vector<PrometheusFamily> families() && { return std::move(families_); }

 private:
  absl::Status ReadHelp(absl::string_view line, absl::string_view rest) {
    const absl::Status end = CheckEnd();
    if (!end.ok()) return end;
    PrometheusFamily family;
    family.name = std::string(TakeUntil(' ', &rest));
    family.help = std::string(rest);
    if (!IsName(family.name) || family.help.empty()) {
      return Refuse(line, "no name and help");
    }
    if (!names_.insert(family.name).second) {
      return Refuse(line, "this family was there before");
    }
    labels_.clear();
    families_.push_back(std::move(family));
    return absl::OkStatus();
  }

  absl::Status ReadType(absl::string_view line, absl::string_view rest) {
    const absl::string_view name = TakeUntil(' ', &rest);
    if (families_.empty() || families_.back().name != name ||
        !families_.back().type.empty()) {
      return Refuse(line, "not right after the HELP of its family");
    }
    if (rest != "gauge" && rest != "counter") {
      return Refuse(line, "no type that is written here");
    }
    families_.back().type = std::string(rest);
    return absl::OkStatus();
  }

  std::vector<PrometheusFamily> families_;
  std::set<std::string> names_;
  std::set<std::map<std::string, std::string>> labels_;  // of the last family
};

}  // namespace

absl::StatusOr<std::vector<PrometheusFamily>> ReadPrometheus(
    absl::string_view text) {
  if (!absl::EndsWith(text, "\n")) {
    return absl::InvalidArgumentError("does not end with a newline");
  }
  Reader reader;
  for (const absl::string_view line :
       absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    const absl::Status status = reader.ReadLine(line);
    if (!status.ok()) return status;
  }
  const absl::Status end = reader.CheckEnd();
  if (!end.ok()) return end;
  return std::move(reader).families();
}

}  // namespace firn::testing
