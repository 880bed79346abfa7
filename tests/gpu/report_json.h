// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pieces that reports and the result file are made of, as JSON.

#ifndef FIRN_TESTS_GPU_REPORT_JSON_H_
#define FIRN_TESTS_GPU_REPORT_JSON_H_

#include <string>

#include "nlohmann/json.hpp"
#include "tests/gpu/report.h"
#include "tests/gpu/table.h"

namespace firn::gpu_check {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 are replaced: a driver may name itself as it likes.
inline std::string DumpLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

inline Json ToJson(const Cell& cell) {
  const double* const number = std::get_if<double>(&cell);
  return number != nullptr ? Json(*number) : Json(std::get<std::string>(cell));
}
inline Cell ToCell(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return json.is_string() ? json.get<std::string>() : std::string();
}

inline Json ToJson(const Row& row) {
  Json cells = Json::array();
  for (const Cell& cell : row) cells.push_back(ToJson(cell));
  return cells;
}
inline Row ToRow(const Json& cells) {
  Row row;
  for (const Json& cell : cells) row.push_back(ToCell(cell));
  return row;
}

inline Json ToJson(const DeviceFacts& facts) {
  return {{"name", facts.name},
          {"ordinal", facts.ordinal},
          {"driver_version", facts.driver_version},
          {"is_gpu", facts.is_gpu},
          {"memory_bytes", facts.memory_bytes},
          {"granule_bytes", facts.granule_bytes}};
}
inline DeviceFacts ToDeviceFacts(const Json& json) {
  DeviceFacts facts;
  facts.name = json.value("name", "");
  facts.ordinal = json.value("ordinal", 0);
  facts.driver_version = json.value("driver_version", 0);
  facts.is_gpu = json.value("is_gpu", false);
  facts.memory_bytes = json.value("memory_bytes", 0.0);
  facts.granule_bytes = json.value("granule_bytes", 0.0);
  return facts;
}

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_REPORT_JSON_H_
