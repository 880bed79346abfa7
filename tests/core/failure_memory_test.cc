// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/core/failure_memory.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace firn {
namespace {

using ::firn::testing::StatusIs;

constexpr FailureMemory::Events kEvents = {3, 1};

const absl::Status* Find(const FailureMemory& memory,
                         const FailedRequest& request,
                         FailureMemory::Events events) {
  return memory.Find(request, [events] { return events; });
}

FailedRequest OfBytes(uint64_t bytes) {
  FailedRequest request;
  request.bytes = bytes;
  request.alignment_quanta = 1;
  return request;
}

absl::Status Failure(uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(bytes));
}

TEST(FailureMemoryTest, RemembersEachOfSomeHundredRequests) {
  FailureMemory memory;
  EXPECT_EQ(Find(memory, OfBytes(1), kEvents), nullptr);
  uint64_t known = 0;
  for (uint64_t i = 1; i <= 400; ++i) {
    memory.Add(OfBytes(1000 * i), kEvents, Failure(1000 * i));
  }
  for (uint64_t i = 1; i <= 400; ++i) {
    const absl::Status* const found = Find(memory, OfBytes(1000 * i), kEvents);
    if (found == nullptr) continue;
    ++known;
    EXPECT_THAT(*found, StatusIs(absl::StatusCode::kResourceExhausted,
                                 absl::StrCat(1000 * i)));
  }
  EXPECT_GE(known, 390u);
}

TEST(FailureMemoryTest, TellsRequestsApartByAllThatMatters) {
  FailureMemory memory;
  memory.Add(OfBytes(512), kEvents, Failure(512));
  FailedRequest other = OfBytes(512);
  other.alignment_quanta = 2;
  EXPECT_EQ(Find(memory, other, kEvents), nullptr);
  other = OfBytes(512);
  other.arena = 1;
  EXPECT_EQ(Find(memory, other, kEvents), nullptr);
  other = OfBytes(512);
  other.reach = 1;
  EXPECT_EQ(Find(memory, other, kEvents), nullptr);
  EXPECT_NE(Find(memory, OfBytes(512), kEvents), nullptr);
}

TEST(FailureMemoryTest, ForgetsWhenAnythingHappens) {
  FailureMemory memory;
  memory.Add(OfBytes(512), kEvents, Failure(512));
  EXPECT_EQ(Find(memory, OfBytes(512), {4, 1}), nullptr);
  EXPECT_EQ(Find(memory, OfBytes(512), {3, 2}), nullptr);
  // Another failure after it: the first is not true any more.
  memory.Add(OfBytes(700), {4, 1}, Failure(700));
  EXPECT_EQ(Find(memory, OfBytes(512), {4, 1}), nullptr);
  EXPECT_NE(Find(memory, OfBytes(700), {4, 1}), nullptr);
  memory.Clear();
  EXPECT_EQ(Find(memory, OfBytes(700), {4, 1}), nullptr);
}

}  // namespace
}  // namespace firn
