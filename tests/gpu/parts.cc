// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace firn::gpu_check {
namespace {

constexpr Part kDevice = {kDevicePart, kMeasureGroup, 0, 40, &MeasureDevice};

}  // namespace

const std::vector<Part>& AllParts() {
  static const auto* const parts = new std::vector<Part>{
      {kContractGroup, kContractGroup, 80, 20, nullptr},
      {kTestsGroup, kTestsGroup, 80, 30, nullptr},
      {"misuse", kMeasureGroup, 24, 10, &MeasureMisuse},
      {"waits", kMeasureGroup, 16, 12, &MeasureWaits},
      {"capture", kMeasureGroup, 6, 10, &MeasureCapture},
      {"calls", kMeasureGroup, 14, 30, &MeasureCalls},
      {"batching", kMeasureGroup, 8, 30, &MeasureBatching},
      {"moves", kMeasureGroup, 6, 30, &MeasureMoves},
      {"copies", kMeasureGroup, 4, 30, &MeasureCopies},
      {"host", kMeasureGroup, 5, 30, &MeasureHost},
      {"aliases", kMeasureGroup, 14, 30, &MeasureAliases},
      {"growth", kMeasureGroup, 30, 30, &MeasureGrowth},
  };
  return *parts;
}

const Part* FindPart(absl::string_view name) {
  if (name == kDevice.name) return &kDevice;
  for (const Part& part : AllParts()) {
    if (name == part.name) return &part;
  }
  return nullptr;
}

std::string PartNames() {
  std::string names =
      absl::StrCat(kContractGroup, ", ", kTestsGroup, ", ", kMeasureGroup);
  for (const Part& part : AllParts()) {
    if (part.measure != nullptr) absl::StrAppend(&names, ", ", part.name);
  }
  return names;
}

bool IsPartOrGroup(absl::string_view name) {
  return !name.empty() && !ChooseParts(name).empty();
}

std::vector<Part> ChooseParts(absl::string_view only) {
  std::vector<Part> chosen;
  for (const Part& part : AllParts()) {
    if (only.empty() || only == part.group || only == part.name) {
      chosen.push_back(part);
    }
  }
  return chosen;
}

}  // namespace firn::gpu_check
