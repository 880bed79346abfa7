// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/core/property/pattern_owners.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace firn::testing::property {
namespace {

// Every block starts at a multiple of it.
constexpr uint64_t kStepBytes = 512;
constexpr uint64_t kMostLooks = 16;

// Of an odd number, modulo 2^64.
constexpr uint64_t Inverse(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

constexpr uint64_t kSeedFactor = 0x9E3779B97F4A7C15;
constexpr uint64_t kMixFactor = 0xBF58476D1CE4E5B9;

// (seed + 1) * kSeedFactor + i of the PatternWord that this is.
uint64_t Unmix(uint64_t word) {
  word ^= word >> 29 ^ word >> 58;
  word *= Inverse(kMixFactor);
  return word ^ word >> 31 ^ word >> 62;
}

}  // namespace

void PatternOwners::Set(uint64_t seed, uint32_t owner) {
  MutexLock lock(&mutex_);
  if (owners_.size() <= seed) owners_.resize(seed + 1, kNobody);
  owners_[seed] = owner;
}

std::optional<uint32_t> PatternOwners::FindOwner(uint64_t word) {
  if (word == 0 || word == unknown_word_) return std::nullopt;
  constexpr uint64_t kStep = kStepBytes / 8 * Inverse(kSeedFactor);
  uint64_t seed = Unmix(word) * Inverse(kSeedFactor) - 1;
  for (uint64_t at = 0; at < most_bytes_; at += kStepBytes, seed -= kStep) {
    if (seed < owners_.size()) return owners_[seed];
  }
  unknown_word_ = word;
  return std::nullopt;
}

void PatternOwners::CheckFresh(const FilledBlock& block, uint32_t owner,
                               bool must_be_zero) {
  const char* const bytes = static_cast<const char*>(block.ptr);
  const uint64_t stride =
      kStepBytes * std::max<uint64_t>(1, block.bytes / kStepBytes / kMostLooks);
  MutexLock lock(&mutex_);
  for (uint64_t at = 0; at + 8 <= block.bytes; at += stride) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, 8);
    const std::optional<uint32_t> found = FindOwner(word);
    const bool is_leak = found.has_value() && *found != owner;
    if ((!is_leak && !(must_be_zero && word != 0)) || !text_.empty()) continue;
    text_ =
        absl::StrCat("a new block of ", block.bytes, " bytes of domain ", owner,
                     is_leak ? " shows contents of " : " is not zero",
                     !is_leak            ? ""
                     : *found == kNobody ? "an exported block"
                                         : absl::StrCat("domain ", *found),
                     " at byte ", at);
  }
}

std::string PatternOwners::text() const {
  MutexLock lock(&mutex_);
  return text_;
}

}  // namespace firn::testing::property
