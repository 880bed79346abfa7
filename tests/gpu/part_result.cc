// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/part_result.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/gpu/report_json.h"

namespace firn::gpu_check {
namespace {

Outcome ParseOutcome(const std::string& name) {
  if (name == OutcomeName(Outcome::kPassed)) return Outcome::kPassed;
  if (name == OutcomeName(Outcome::kSkipped)) return Outcome::kSkipped;
  return Outcome::kFailed;
}

}  // namespace

size_t PartResult::Count(Outcome outcome) const {
  return static_cast<size_t>(std::count_if(
      items.begin(), items.end(),
      [outcome](const Item& item) { return item.outcome == outcome; }));
}

Outcome PartResult::outcome() const {
  if (!failures.empty() || Count(Outcome::kFailed) > 0) return Outcome::kFailed;
  return Count(Outcome::kPassed) > 0 ? Outcome::kPassed : Outcome::kSkipped;
}

void ReportReader::ReadLine(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    result_->failures.push_back(absl::StrCat("a bad report line: ", line));
    return;
  }
  if (json.contains("step")) {
    lost_table_.clear();
    open_step_ = json.value("step", size_t{0});
    open_step_name_ = json.value("name", "");
  } else if (json.contains("end")) {
    open_step_.reset();
    result_->items.push_back({json.value("end", ""),
                              ParseOutcome(json.value("outcome", "")),
                              json.value("why", "")});
  } else if (json.contains("table")) {
    const std::string name = json.value("table", "");
    if (FindTable(name) != nullptr) return;  // by an earlier process
    Table table;
    table.name = name;
    table.title = json.value("title", "");
    table.columns = json.value("columns", std::vector<std::string>());
    result_->tables.push_back(table);
  } else if (json.contains("row")) {
    AddRow(json.value("row", ""), ToRow(json["cells"]));
  } else if (json.contains("row_if_lost")) {
    lost_table_ = json.value("row_if_lost", "");
    lost_row_ = ToRow(json["cells"]);
  } else if (json.contains("note")) {
    const std::string note = json.value("note", "");
    if (std::find(result_->notes.begin(), result_->notes.end(), note) ==
        result_->notes.end()) {
      result_->notes.push_back(note);
    }
  } else if (json.contains("device")) {
    device_ = ToDeviceFacts(json["device"]);
  } else if (json.contains("go_on_from")) {
    go_on_from_ = json.value("go_on_from", size_t{0});
  } else if (json.contains("done")) {
    done_ = true;
  } else {
    result_->failures.push_back(absl::StrCat("a bad report line: ", line));
  }
}

void ReportReader::LoseOpenStep(const std::string& why) {
  if (!open_step_.has_value()) return;
  if (lost_table_.empty()) {
    result_->items.push_back({open_step_name_, Outcome::kFailed, why});
  } else {
    AddRow(lost_table_, lost_row_);
    result_->items.push_back({open_step_name_, Outcome::kPassed, why});
  }
}

void ReportReader::AddRow(const std::string& table_name, Row row) {
  Table* const table = FindTable(table_name);
  if (table == nullptr) return;
  row.resize(table->columns.size());
  table->rows.push_back(std::move(row));
}

Table* ReportReader::FindTable(const std::string& name) {
  for (Table& table : result_->tables) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

}  // namespace firn::gpu_check
