// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Fails every driver call of an operation in turn: each time everything is to
// be as it was, a retry is to succeed, and nothing is to be left in the end.
//
// A scene is made anew for each try. It has
//   MappedMemory& memory();
//   MemoryView View();           all that the operation may change
//   absl::Status Operate();      the operation
//   void ExpectDone();           after Operate has succeeded
//   testing::AssertionResult CloseLeavesNothing();   the last thing called

#ifndef FIRN_TESTS_SUPPORT_FAILURE_SWEEP_H_
#define FIRN_TESTS_SUPPORT_FAILURE_SWEEP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/driver_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/memory_view.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// The driver calls of the operation, which is checked to succeed without
// failures.
template <typename Scene>
uint64_t CallsOf() {
  Scene scene;
  scene.memory().faults().Reset();
  FIRN_EXPECT_OK(scene.Operate());
  const uint64_t calls = scene.memory().faults().calls();
  scene.ExpectDone();
  ExpectSound(scene.memory());
  EXPECT_TRUE(scene.CloseLeavesNothing());
  return calls;
}

// Expects that the operation, which fails by the faults on order, changes
// nothing and succeeds afterwards. Returns how many calls were made to fail.
template <typename Scene>
uint64_t ExpectUndoneAndRetried(Scene& scene, const MemoryView& before) {
  MappedMemory& memory = scene.memory();
  const absl::Status status = scene.Operate();
  const uint64_t failures = memory.faults().failures();
  memory.faults().Reset();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               ::testing::HasSubstr("CUDA_ERROR_UNKNOWN")));
  ExpectSound(memory);
  ExpectSameView(scene.View(), before);
  FIRN_EXPECT_OK(scene.Operate());
  scene.ExpectDone();
  ExpectSound(memory);
  EXPECT_TRUE(scene.CloseLeavesNothing());
  return failures;
}

template <typename Scene>
void FailEachCall() {
  const uint64_t calls = CallsOf<Scene>();
  EXPECT_GT(calls, 0u);
  for (uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n, " of ", calls));
    Scene scene;
    const MemoryView before = scene.View();
    scene.memory().faults().Reset();
    scene.memory().faults().FailNth(n, DriverResult::kUnknown);
    EXPECT_EQ(ExpectUndoneAndRetried(scene, before), 1u);
    if (::testing::Test::HasFailure()) return;  // one is enough to read
  }
}

// The way back meets a failure as well, at each of its calls.
template <typename Scene>
void FailEachTwoCalls() {
  const uint64_t calls = CallsOf<Scene>();
  EXPECT_GT(calls, 0u);
  for (uint64_t n = 0; n < calls; ++n) {
    for (uint64_t m = n + 1;; ++m) {
      SCOPED_TRACE(absl::StrCat("calls ", n, " of ", calls, " and ", m));
      Scene scene;
      const MemoryView before = scene.View();
      scene.memory().faults().Reset();
      scene.memory().faults().FailNth(n, DriverResult::kUnknown);
      scene.memory().faults().FailNth(m, DriverResult::kUnknown);
      const uint64_t failures = ExpectUndoneAndRetried(scene, before);
      if (::testing::Test::HasFailure()) return;
      if (failures < 2) break;  // the way back ended before
    }
  }
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_SUPPORT_FAILURE_SWEEP_H_
