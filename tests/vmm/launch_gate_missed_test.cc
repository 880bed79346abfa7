// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Work that waits for what scopes have named would miss: that of other
// contexts, and that of launches outside of scopes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_drain.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Scope = LaunchGate::Scope;

// --- Other contexts ---

// Of a context whose work no wait for the gate's devices covers: one more of
// the first device, or, where there is none, that of a device the gate does not
// know of.
class ForeignContext {
 public:
  explicit ForeignContext(LaunchGateScene* scene)
      : context_(scene->SecondContext()) {
    if (context_ != nullptr) {
      driver_ = context_.get();
    } else if (scene->device_count() > 1) {
      driver_ = scene->device(1);
    }
  }
  // nullptr if there is no such context here.
  Driver* driver() { return driver_; }

 private:
  std::unique_ptr<Driver> context_;
  Driver* driver_ = nullptr;
};

class LaunchGateForeignTest : public LaunchGateDrainTest {
 protected:
  void Make(bool value_writes) {
    GateSceneOptions options;
    options.most_gated_devices = 1;
    options.tracker.value_writes = value_writes;
    scene_ = std::make_unique<LaunchGateScene>(std::move(options));
    foreign_ = std::make_unique<ForeignContext>(scene_.get());
  }
  void TearDown() override { foreign_.reset(); }

  // Not armed: a wait for the device would miss it.
  void ExpectIsWaitedForOrRefused() {
    HeldStream held(foreign_->driver());
    LaunchHeld(&held, {held.stream()});
    const absl::Status in_flight = gate().Close(kMoment).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(in_flight) ||
                absl::IsFailedPrecondition(in_flight))
        << in_flight;
    if (absl::IsDeadlineExceeded(in_flight)) {
      EXPECT_EQ(gate().stats().tokens_written, 1u);
    } else {
      EXPECT_THAT(std::string(in_flight.message()),
                  HasSubstr("stream of another context"));
      // Not even by the caller's own wait, which does not cover it.
      gate().ForgetLaunches();
      EXPECT_THAT(gate().Close(kMoment),
                  StatusIs(absl::StatusCode::kFailedPrecondition));
      held.Release();
      ASSERT_EQ(held.Wait(), DriverResult::kSuccess);
      EXPECT_THAT(gate().Close(kMoment),
                  StatusIs(absl::StatusCode::kFailedPrecondition));
      const Scope scope(&gate(), {held.stream()});
    }
    const ReleaseSoon release(&held);
    FIRN_ASSERT_OK(gate().Close(absl::InfiniteDuration()));
    EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
    EXPECT_EQ(gate().stats().device_waits, 0u);
  }

  std::unique_ptr<ForeignContext> foreign_;
};

TEST_F(LaunchGateForeignTest, WorkOfAnotherContextIsWaitedForOrRefused) {
  Make(/*value_writes=*/true);
  if (foreign_->driver() == nullptr) GTEST_SKIP() << "there is one context";
  ExpectIsWaitedForOrRefused();
}

TEST_F(LaunchGateForeignTest, WorkOfAnotherContextIsRefusedWithoutValues) {
  Make(/*value_writes=*/false);
  if (foreign_->driver() == nullptr) GTEST_SKIP() << "there is one context";
  ExpectIsWaitedForOrRefused();
  EXPECT_EQ(gate().stats().tokens_written, 0u);
}

// --- Work that no scope has named ---

class LaunchGateUnscopedTest : public LaunchGateDrainTest {
 protected:
  void Make(absl::Duration grace) {
    GateSceneOptions options;
    options.gate.report_unscoped_work = true;
    options.gate.unscoped_grace = grace;
    options.gate.report = [this](absl::string_view line) {
      const MutexLock lock(&mutex_);
      lines_.emplace_back(line);
    };
    scene_ = std::make_unique<LaunchGateScene>(std::move(options));
  }
  std::vector<std::string> lines() {
    const MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LaunchGateUnscopedTest, NothingIsReportedOfWorkInScopes) {
  Make(kPatience);
  gate().Arm();
  HeldStream held(device());
  LaunchHeld(&held, {held.stream()});
  {
    const ReleaseSoon release(&held);
    FIRN_EXPECT_OK(gate().Close(absl::InfiniteDuration()));
  }
  FIRN_EXPECT_OK(gate().Close(absl::InfiniteDuration()));
  EXPECT_THAT(lines(), IsEmpty());
  EXPECT_EQ(gate().stats().unscoped_reports, 0u);
}

TEST_F(LaunchGateUnscopedTest,
       ALaunchOutsideEveryScopeIsReportedAndNotRunOver) {
  Make(absl::Milliseconds(1));
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), DriverResult::kSuccess);
  // On a busy machine a moment may pass before the device has been looked at.
  const absl::Time deadline = absl::Now() + kPatience;
  do {
    EXPECT_THAT(gate().Close(kMoment),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("work that no scope has named")));
  } while (lines().empty() && absl::Now() < deadline);
  EXPECT_THAT(lines(), Contains(HasSubstr("device 0 is still busy")));
  EXPECT_EQ(gate().stats().unscoped_reports, lines().size());
  const ReleaseSoon release(&held);
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_EQ(device()->StreamQuery(held.stream()), DriverResult::kSuccess);
}

TEST_F(LaunchGateUnscopedTest, AStreamThatItsScopeDidNotNameIsReported) {
  Make(absl::Milliseconds(1));
  gate().Arm();
  HeldStream named(device());
  HeldStream other(device());
  LaunchHeld(&other, {named.stream()});
  {
    const ReleaseSoon release(&other);
    FIRN_EXPECT_OK(gate().Close(kPatience));
    EXPECT_EQ(scene_->Read(0), scene_->Filled(kTouched));
  }
  EXPECT_THAT(lines(), Contains(HasSubstr("device 0 is still busy")));
}

}  // namespace
}  // namespace firn::testing
