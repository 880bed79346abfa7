// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/operation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tests/core/property/printing.h"

namespace firn::testing::property {
namespace {

constexpr size_t kPhases = 3;
constexpr uint64_t kLongestPhase = 400;

// Draws one of the types by their weights in the phase.
template <typename... Types>
Operation DrawOne(std::variant<Types...>* /*tag*/, size_t phase,
                  Choices& choices, const Setting& setting) {
  const uint64_t total = (uint64_t{Types::kWeights[phase]} + ...);
  uint64_t point = choices.Below(total);
  Operation drawn;
  bool is_drawn = false;
  const auto consider = [&](auto draw, uint64_t weight) {
    if (is_drawn) return;
    if (point < weight) {
      drawn = draw(choices, setting);
      is_drawn = true;
    } else {
      point -= weight;
    }
  };
  (consider(&Types::Draw, Types::kWeights[phase]), ...);
  return drawn;
}

}  // namespace

void Perform(const Operation& operation, State& state) {
  std::visit([&](const auto& one) { one.Perform(state); }, operation);
}

std::string ToCode(const Operation& operation) {
  return std::visit([](const auto& one) { return ToCode(one); }, operation);
}

Operation DrawOperation(Choices& choices, const Setting& setting, Phase phase) {
  return DrawOne(static_cast<Operation*>(nullptr), static_cast<size_t>(phase),
                 choices, setting);
}

std::vector<Operation> DrawOperations(Choices& choices, const Setting& setting,
                                      uint64_t count) {
  std::vector<Operation> operations;
  operations.reserve(count);
  while (operations.size() < count) {
    const Phase phase = static_cast<Phase>(choices.Below(kPhases));
    const uint64_t rest = count - operations.size();
    const uint64_t length = std::min(rest, choices.Between(1, kLongestPhase));
    for (uint64_t i = 0; i < length; ++i) {
      operations.push_back(DrawOperation(choices, setting, phase));
    }
  }
  return operations;
}

}  // namespace firn::testing::property
