// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of the check: each runs in processes of its own, so that a device
// that is lost, a driver that crashes and a call that hangs harm no other.

#ifndef FIRN_TESTS_GPU_PARTS_H_
#define FIRN_TESTS_GPU_PARTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/gpu/measurement.h"

namespace firn::gpu_check {

inline constexpr char kContractGroup[] = "contract";
inline constexpr char kTestsGroup[] = "tests";
inline constexpr char kMeasureGroup[] = "measure";
// Comes first, always.
inline constexpr char kDevicePart[] = "device";

struct Part {
  const char* name;
  const char* group;  // the first two have their own part alone
  double weight;      // its share of the time
  int silence_s;      // a process of it that says nothing for so long hangs
  absl::Status (*measure)(MeasureContext& context);  // of a measurement
};

// In their order, but for kDevicePart.
const std::vector<Part>& AllParts();
// Any part; null if there is none.
const Part* FindPart(absl::string_view name);
// For messages: "contract, tests, measure, calls, ...".
std::string PartNames();
bool IsPartOrGroup(absl::string_view name);

// The parts that --only=`only` asks for; empty: all.
std::vector<Part> ChooseParts(absl::string_view only);

}  // namespace firn::gpu_check

#endif  // FIRN_TESTS_GPU_PARTS_H_
