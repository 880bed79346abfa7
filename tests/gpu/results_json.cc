// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/results_json.h"

#include "tests/gpu/report_json.h"

namespace firn::gpu_check {
namespace {

Json RowJson(const Table& table, const Row& row, const DeviceFacts& device) {
  Json json = {{"device", device.name},
               {"driver_version", device.driver_version}};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    json[table.columns[i]] = ToJson(row[i]);
  }
  return json;
}

Json PartJson(const PartResult& part, const DeviceFacts& device) {
  Json tables = Json::array();
  for (const Table& table : part.tables) {
    Json rows = Json::array();
    for (const Row& row : table.rows) {
      rows.push_back(RowJson(table, row, device));
    }
    tables.push_back({{"name", table.name},
                      {"title", table.title},
                      {"columns", table.columns},
                      {"rows", rows}});
  }
  Json items = Json::array();
  for (const Item& item : part.items) {
    items.push_back({{"name", item.name},
                     {"outcome", std::string(OutcomeName(item.outcome))},
                     {"why", item.why}});
  }
  return {{"name", part.name},
          {"outcome", std::string(OutcomeName(part.outcome()))},
          {"wall_s", part.wall_s},
          {"limit_s", part.limit_s},
          {"passed", part.Count(Outcome::kPassed)},
          {"failed", part.Count(Outcome::kFailed)},
          {"skipped", part.Count(Outcome::kSkipped)},
          {"failures", part.failures},
          {"notes", part.notes},
          {"items", items},
          {"tables", tables}};
}

}  // namespace

std::string ToJsonText(const Results& results) {
  Json parts = Json::array();
  for (const PartResult& part : results.parts) {
    parts.push_back(PartJson(part, results.device));
  }
  const Json json = {{"schema", 1},
                     {"is_gpu", results.device.is_gpu},
                     {"passed", results.passed},
                     {"device", ToJson(results.device)},
                     {"library", results.library},
                     {"budget_s", results.budget_s},
                     {"wall_s", results.wall_s},
                     {"parts", parts}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace firn::gpu_check
