// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lets libFuzzer choose what is done to a pool: its bytes are the decisions by
// which the property test draws settings and operations.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/types/span.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/sequence.h"

namespace firn::testing::property {
namespace {

// More only make a fuzzer slow: what a failure needs is far less.
constexpr size_t kMostOperations = 1000;

// Prints what is wrong and ends the process, as a fuzzer wants it.
void RunBytes(absl::Span<const uint8_t> bytes) {
  ByteChoices choices(bytes);
  const CpuStorage storage =
      choices.OneIn(2) ? CpuStorage::kReal : CpuStorage::kGhost;
  const CpuSync sync = choices.OneIn(2) ? CpuSync::kLazy : CpuSync::kDraining;
  Setting setting = DrawSetting(storage, sync, choices);
  // The same bytes shall always do the same.
  setting.settled = true;
  std::vector<Operation> operations;
  while (!choices.empty() && operations.size() < kMostOperations) {
    operations.push_back(DrawOperation(choices, setting, Phase::kChurn));
  }
  const Outcome outcome = RunSequence(setting, operations, /*check_every=*/8);
  if (outcome.failure.empty()) return;
  std::fprintf(stderr, "%s", Describe(setting, operations, outcome).c_str());
  std::abort();
}

}  // namespace
}  // namespace firn::testing::property

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  firn::testing::property::RunBytes(absl::MakeConstSpan(data, bytes));
  return 0;
}
