// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/debug_report.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace firn {
namespace {

std::string NameBlock(const DebugBlock& block, absl::string_view tag_name) {
  std::string text = absl::StrCat("the block of ", block.bytes, " bytes at 0x",
                                  absl::Hex(block.address));
  if (block.tag != Tag::kUntagged) {
    absl::StrAppend(&text, " (tag \"", tag_name, "\")");
  }
  return text;
}

std::string DescribeSites(const DebugBlock& block) {
  std::string text =
      absl::StrCat("\n  allocated by ", DescribeCallSite(block.allocated));
  if (block.freed.thread != 0) {
    absl::StrAppend(&text, "\n  freed by ", DescribeCallSite(block.freed));
  }
  return text;
}

}  // namespace

std::string DescribeDamage(const DebugBlock& block, absl::string_view tag_name,
                           DamagedPart part, const Damage& damage) {
  int64_t base = 0;
  absl::string_view what = "written after it was freed";
  if (part == DamagedPart::kFrontGuard) {
    base = -static_cast<int64_t>(block.front_bytes());
    what = "written before its start";
  } else if (part == DamagedPart::kBackGuard) {
    base = static_cast<int64_t>(block.bytes);
    what = "written behind its end";
  }
  if (part != DamagedPart::kBody &&
      block.state == DebugBlock::State::kQuarantined) {
    what = part == DamagedPart::kFrontGuard
               ? "written before its start after it was freed"
               : "written behind its end after it was freed";
  }
  return absl::StrCat(
      "firn: ", NameBlock(block, tag_name), ": ", what, ": ", damage.bytes,
      damage.bytes == 1 ? " byte" : " bytes", " at offsets ",
      base + static_cast<int64_t>(damage.first), " to ",
      base + static_cast<int64_t>(damage.last), ", the first of them 0x",
      absl::Hex(damage.found, absl::kZeroPad2), DescribeSites(block));
}

std::string DescribeBlock(const DebugBlock& block, absl::string_view tag_name) {
  return absl::StrCat(NameBlock(block, tag_name), DescribeSites(block));
}

}  // namespace firn
