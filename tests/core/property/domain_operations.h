// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on domains, on limits, and on memory that others may hold. See
// operation.h for what an operation is.

#ifndef FIRN_TESTS_CORE_PROPERTY_DOMAIN_OPERATIONS_H_
#define FIRN_TESTS_CORE_PROPERTY_DOMAIN_OPERATIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "firn/core/memory_limit.h"
#include "tests/core/property/block_operations.h"
#include "tests/core/property/choices.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/state.h"

namespace firn::testing::property {

// Often none; rarely one that must be refused.
MemoryLimit DrawLimit(Choices& choices, const Setting& setting);

// Also tries names that no domain may have, and a domain that there is not.
struct CreateDomain {
  static constexpr absl::string_view kName = "CreateDomain";
  static constexpr uint32_t kWeights[] = {10, 4, 8};

  uint32_t name = 0;
  uint64_t hard_bytes = 0;
  uint64_t soft_bytes = 0;

  static CreateDomain Draw(Choices& choices, const Setting& setting) {
    const MemoryLimit limit = DrawLimit(choices, setting);
    return {choices.Index(6), limit.hard_bytes, limit.soft_bytes};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("name", name);
    visit("hard_bytes", hard_bytes);
    visit("soft_bytes", soft_bytes);
  }
};

struct CloseDomain {
  static constexpr absl::string_view kName = "CloseDomain";
  static constexpr uint32_t kWeights[] = {2, 6, 4};

  uint32_t domain = 0;

  static CloseDomain Draw(Choices& choices, const Setting& /*setting*/) {
    return {choices.Index(DomainAccount::kMostOpen)};
  }
  void Perform(State& state) const { state.domains().Close(domain); }
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("domain", domain);
  }
};

struct SetDomainLimit {
  static constexpr absl::string_view kName = "SetDomainLimit";
  static constexpr uint32_t kWeights[] = {4, 4, 4};

  uint32_t domain = 1;
  uint64_t hard_bytes = 0;
  uint64_t soft_bytes = 0;

  static SetDomainLimit Draw(Choices& choices, const Setting& setting) {
    const MemoryLimit limit = DrawLimit(choices, setting);
    return {1 + choices.Index(7), limit.hard_bytes, limit.soft_bytes};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("domain", domain);
    visit("hard_bytes", hard_bytes);
    visit("soft_bytes", soft_bytes);
  }
};

struct SetLimit {
  static constexpr absl::string_view kName = "SetLimit";
  static constexpr uint32_t kWeights[] = {4, 4, 4};

  uint64_t hard_bytes = 0;
  uint64_t soft_bytes = 0;

  static SetLimit Draw(Choices& choices, const Setting& setting) {
    const MemoryLimit limit = DrawLimit(choices, setting);
    return {limit.hard_bytes, limit.soft_bytes};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("hard_bytes", hard_bytes);
    visit("soft_bytes", soft_bytes);
  }
};

// Exports a block, if it can be; `keeps`: closes the descriptors later.
struct Export {
  static constexpr absl::string_view kName = "Export";
  static constexpr uint32_t kWeights[] = {12, 12, 12};

  uint32_t block = 0;
  // An exportable block rather than any.
  bool seeks = false;
  bool keeps = false;

  static Export Draw(Choices& choices, const Setting& /*setting*/) {
    return {DrawNumber(choices), !choices.OneIn(8), choices.OneIn(2)};
  }
  void Perform(State& state) const;
  template <typename Visitor>
  void Fields(Visitor& visit) const {
    visit("block", block);
    visit("seeks", seeks);
    visit("keeps", keeps);
  }
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_DOMAIN_OPERATIONS_H_
