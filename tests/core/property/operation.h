// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// One step of a sequence. An operation is an aggregate with
//   kName, Fields(visit)   to be printed as C++ that compiles
//   kWeights               how often it is drawn while the pool is to grow,
//                          shrink and churn
//   Draw(choices, setting) one with any fields
//   Perform(state) const   does it, and checks what can be seen at once
// and is a member of Operation: there is nothing else to do to add one.
// Performed in any state, it must do something or nothing: sequences are cut.

#ifndef FIRN_TESTS_CORE_PROPERTY_OPERATION_H_
#define FIRN_TESTS_CORE_PROPERTY_OPERATION_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tests/core/property/block_operations.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/domain_operations.h"
#include "tests/core/property/graph_operations.h"
#include "tests/core/property/hook_operations.h"
#include "tests/core/property/idle_operations.h"
#include "tests/core/property/pool_operations.h"
#include "tests/core/property/record_operations.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

using Operation = std::variant<
    Allocate, Exhaust, Free, FreeMost, FreeWrongly, Use, AskGeneration, Compact,
    Trim, PrintStats, Delay, Synchronize, CreateStream, DestroyStream,
    OpenScope, CloseScope, FailCall, RecordUse, ReleaseStream, TakePin,
    GiveUpPin, FreePinned, RegisterTag, AskUsage, AddHook, GiveUpHook,
    CreateDomain, CloseDomain, SetDomainLimit, SetLimit, Export, BeginPool,
    EndPool, ReleasePool, MarkIdle, MarkActive, GatherIdle, Oversubscribe>;

void Perform(const Operation& operation, State& state);
std::string ToCode(const Operation& operation);

enum class Phase { kGrow, kShrink, kChurn };

Operation DrawOperation(Choices& choices, const Setting& setting, Phase phase);

// A sequence in phases in which the pool tends to grow, to shrink, or neither.
std::vector<Operation> DrawOperations(Choices& choices, const Setting& setting,
                                      uint64_t count);

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_OPERATION_H_
