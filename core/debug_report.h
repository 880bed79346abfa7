// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pool with DebugOptions says of damage and misuse.

#ifndef FIRN_CORE_DEBUG_REPORT_H_
#define FIRN_CORE_DEBUG_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "firn/core/debug_books.h"
#include "firn/core/guard_bands.h"

namespace firn {

enum class DamagedPart { kFrontGuard, kBackGuard, kBody };

// Offsets count from the start of the block: negative before it. Names where
// the block was allocated and, if it was, freed.
std::string DescribeDamage(const DebugBlock& block, absl::string_view tag_name,
                           DamagedPart part, const Damage& damage);

// "the block of 64 bytes at 0x7f00 (tag "weights")", and where it was allocated
// and, if it was, freed.
std::string DescribeBlock(const DebugBlock& block, absl::string_view tag_name);

}  // namespace firn

#endif  // FIRN_CORE_DEBUG_REPORT_H_
