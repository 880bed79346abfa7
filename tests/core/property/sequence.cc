// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tests/core/property/printing.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {
namespace {

// Operations on one pool: long enough for phases to follow each other.
constexpr uint64_t kStepsPerPool = 1000;
constexpr absl::Duration kTimeToShrink = absl::Seconds(20);

}  // namespace

Outcome RunSequence(State* state, const std::vector<Operation>& operations,
                    uint64_t check_every) {
  Outcome outcome;
  for (const Operation& operation : operations) {
    if (!state->failure().empty()) break;
    Perform(operation, *state);
    ++outcome.performed;
    state->AfterOperation(outcome.performed % check_every == 0);
  }
  state->Drain();
  outcome.failure = state->failure();
  outcome.counts = state->counts();
  return outcome;
}

Outcome RunSequence(const Setting& setting,
                    const std::vector<Operation>& operations,
                    uint64_t check_every) {
  State state(setting);
  return RunSequence(&state, operations, check_every);
}

std::vector<Operation> Shrink(
    std::vector<Operation> operations,
    absl::FunctionRef<bool(const std::vector<Operation>&)> fails,
    absl::Duration most_time) {
  const absl::Time deadline = absl::Now() + most_time;
  // Halves first, then smaller pieces, the last ones first: what comes after
  // the failure goes at once.
  for (size_t length = operations.size(); length > 0; length /= 2) {
    for (size_t end = operations.size(); end > 0;) {
      if (absl::Now() > deadline) return operations;
      const size_t begin = end - std::min(length, end);
      std::vector<Operation> fewer = operations;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(begin),
                  fewer.begin() + static_cast<std::ptrdiff_t>(end));
      if (fails(fewer)) operations = std::move(fewer);
      end = begin;
    }
  }
  return operations;
}

std::string Describe(const Setting& setting,
                     const std::vector<Operation>& operations,
                     const Outcome& outcome) {
  std::string text =
      absl::StrCat(outcome.failure, "\nafter ", outcome.performed,
                   " operations. As a test:\n\n  ExpectHolds(\n      ",
                   ToCode(setting), ",\n      {");
  absl::StrAppend(&text,
                  absl::StrJoin(operations, ",\n       ",
                                [](std::string* out, const Operation& one) {
                                  out->append(ToCode(one));
                                }),
                  "});\n");
  return text;
}

std::string RunDrawn(CpuStorage storage, CpuSync sync, uint64_t seed,
                     uint64_t steps, uint64_t check_every, StepCounts* counts) {
  SeededChoices choices(seed);
  for (uint64_t done = 0; done < steps; done += kStepsPerPool) {
    const Setting setting = DrawSetting(storage, sync, choices);
    std::vector<Operation> operations =
        DrawOperations(choices, setting, std::min(kStepsPerPool, steps - done));
    const Outcome first = RunSequence(setting, operations, check_every);
    counts->Add(first.counts);
    if (first.failure.empty()) continue;
    operations.resize(first.performed);
    // Where nothing depends on time, a sequence fails each time.
    Setting settled = setting;
    settled.settled = true;
    for (const Setting& tried : {settled, setting}) {
      const std::vector<Operation> shrunk = Shrink(
          operations,
          [&](const std::vector<Operation>& fewer) {
            return !RunSequence(tried, fewer, /*check_every=*/1)
                        .failure.empty();
          },
          kTimeToShrink);
      const Outcome last = RunSequence(tried, shrunk, /*check_every=*/1);
      if (!last.failure.empty()) return Describe(tried, shrunk, last);
    }
    return absl::StrCat("(It does not fail each time.) ",
                        Describe(setting, operations, first));
  }
  return "";
}

}  // namespace firn::testing::property
