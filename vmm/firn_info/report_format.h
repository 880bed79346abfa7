// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn_info: reports as text for people and as JSON for programs.

#ifndef FIRN_VMM_FIRN_INFO_REPORT_FORMAT_H_
#define FIRN_VMM_FIRN_INFO_REPORT_FORMAT_H_

#include <string>
#include <vector>

#include "firn/vmm/firn_info/device_report.h"

namespace firn::info {

// A heading for each driver, and a line for each fact.
std::string FormatText(const std::vector<DriverReport>& drivers);

// One object: {"drivers": [{"name": ..., "devices": [...]}]}, on one line.
// Byte counts are numbers; where a thing is not known or not available, its
// "reason" says why.
std::string FormatJson(const std::vector<DriverReport>& drivers);

}  // namespace firn::info

#endif  // FIRN_VMM_FIRN_INFO_REPORT_FORMAT_H_
