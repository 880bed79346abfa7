// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/launch_gate.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/launch_gate_scene.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

using Scope = LaunchGate::Scope;

// Who may be inside, and when: no work is launched here.
class LaunchGateTest : public ::testing::Test {
 protected:
  LaunchGate& gate() { return scene_.gate(); }

  // A scope open on a thread of its own until the object goes, or Leave.
  class Guest {
   public:
    explicit Guest(LaunchGate* gate) {
      thread_ = std::thread([this, gate] {
        const Scope scope(gate, {});
        inside_ = true;
        while (!leave_) absl::SleepFor(absl::Microseconds(50));
      });
    }
    ~Guest() { Leave(); }
    bool is_inside() const { return inside_; }
    void Leave() {
      leave_ = true;
      if (thread_.joinable()) thread_.join();
    }

   private:
    std::atomic<bool> inside_{false};
    std::atomic<bool> leave_{false};
    std::thread thread_;
  };

  // Of a gate that another thread is about to close: a guest that comes too
  // late.
  std::unique_ptr<Guest> KeptOutGuest() {
    while (true) {
      auto guest = std::make_unique<Guest>(&gate());
      EXPECT_TRUE(HoldsSoon([&] {
        return guest->is_inside() || gate().stats().blocked_scopes > 0;
      }));
      if (!guest->is_inside()) return guest;
    }
  }

  LaunchGateScene scene_;
};

TEST_F(LaunchGateTest, ANewGateIsOpenNotArmedAndNotUsed) {
  EXPECT_FALSE(gate().is_armed());
  EXPECT_FALSE(gate().was_used());
  EXPECT_FALSE(gate().ThisThreadIsInside());
  EXPECT_EQ(gate().stats().closings, 0u);
}

TEST_F(LaunchGateTest, AScopeMarksTheGateAsUsed) {
  {
    const Scope scope(&gate(), {});
    EXPECT_TRUE(gate().ThisThreadIsInside());
  }
  EXPECT_TRUE(gate().was_used());
  EXPECT_FALSE(gate().ThisThreadIsInside());
  EXPECT_FALSE(gate().is_armed());
}

TEST_F(LaunchGateTest, AGateWithNothingToAwaitClosesInNoTime) {
  FIRN_ASSERT_OK(gate().Close(absl::ZeroDuration()));
  FIRN_ASSERT_OK(gate().Close(-absl::InfiniteDuration()));
  FIRN_ASSERT_OK(gate().Close(absl::InfiniteDuration()));
  EXPECT_EQ(gate().stats().closings, 3u);
  EXPECT_EQ(gate().stats().device_waits, 0u);
  EXPECT_TRUE(gate().is_armed());
}

TEST_F(LaunchGateTest, AThreadInsideAScopeCannotCloseTheGate) {
  {
    const Scope outer(&gate(), {});
    const Scope inner(&gate(), {});
    EXPECT_THAT(gate().Close(absl::InfiniteDuration()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inside a launch scope")));
    EXPECT_EQ(gate().stats().refusals, 1u);
    EXPECT_EQ(gate().stats().timeouts, 0u);
  }
  FIRN_EXPECT_OK(gate().Close(kPatience));
}

TEST_F(LaunchGateTest, AnotherThreadsScopeIsNotThisThreads) {
  Guest guest(&gate());
  ASSERT_TRUE(HoldsSoon([&] { return guest.is_inside(); }));
  EXPECT_FALSE(gate().ThisThreadIsInside());
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("1 scope was still open")));
  EXPECT_EQ(gate().stats().timeouts, 1u);
}

TEST_F(LaunchGateTest, ClosingWaitsForTheScopesThatAreOpen) {
  Guest guest(&gate());
  ASSERT_TRUE(HoldsSoon([&] { return guest.is_inside(); }));
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    FIRN_EXPECT_OK(gate().Close(absl::InfiniteDuration()));
    closed = true;
  });
  const std::unique_ptr<Guest> late = KeptOutGuest();
  EXPECT_FALSE(closed);
  EXPECT_FALSE(late->is_inside());
  guest.Leave();
  closer.join();
  EXPECT_TRUE(HoldsSoon([&] { return late->is_inside(); }));
}

TEST_F(LaunchGateTest, AfterATimeoutScopesEnterAtOnceAndTheNextCloseSucceeds) {
  Guest guest(&gate());
  ASSERT_TRUE(HoldsSoon([&] { return guest.is_inside(); }));
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  { const Scope scope(&gate(), {}); }
  EXPECT_EQ(gate().stats().blocked_scopes, 0u);
  guest.Leave();
  FIRN_EXPECT_OK(gate().Close(kPatience));
}

TEST_F(LaunchGateTest, NobodyEntersWhileTheGateIsClosed) {
  std::optional<LaunchGate::Closure> closure;
  {
    FIRN_ASSERT_OK_AND_ASSIGN(LaunchGate::Closure closed,
                              gate().Close(kPatience));
    closure.emplace(std::move(closed));
  }
  Guest guest(&gate());
  EXPECT_TRUE(scene_.SomebodyIsKeptOut());
  absl::SleepFor(kMoment);
  EXPECT_FALSE(guest.is_inside());
  closure.reset();
  EXPECT_TRUE(HoldsSoon([&] { return guest.is_inside(); }));
  EXPECT_EQ(gate().stats().blocked_scopes, 1u);
}

TEST_F(LaunchGateTest, WhoWasKeptWaitingGetsInBeforeTheGateClosesAgain) {
  for (int i = 0; i < 200; ++i) {
    auto closure = gate().Close(kPatience);
    FIRN_ASSERT_OK(closure);
    const uint64_t blocked = gate().stats().blocked_scopes;
    std::atomic<bool> was_inside{false};
    std::thread guest([&] {
      const Scope scope(&gate(), {});
      was_inside = true;
    });
    EXPECT_TRUE(
        HoldsSoon([&] { return gate().stats().blocked_scopes > blocked; }));
    { const LaunchGate::Closure opened = *std::move(closure); }
    FIRN_EXPECT_OK(gate().Close(kPatience));
    EXPECT_TRUE(was_inside);
    guest.join();
  }
}

TEST_F(LaunchGateTest, ASecondCloserWaitsForTheFirst) {
  auto closure = gate().Close(kPatience);
  FIRN_ASSERT_OK(closure);
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("another thread had closed it")));
  std::atomic<bool> second_closed{false};
  std::thread second([&] {
    FIRN_EXPECT_OK(gate().Close(absl::InfiniteDuration()));
    second_closed = true;
  });
  absl::SleepFor(kMoment);
  EXPECT_FALSE(second_closed);
  { const LaunchGate::Closure opened = *std::move(closure); }
  second.join();
  EXPECT_EQ(gate().stats().closings, 2u);
}

TEST_F(LaunchGateTest, ANestedScopeEntersThoughTheGateIsClosing) {
  std::atomic<bool> inside{false};
  std::atomic<bool> nested{false};
  std::atomic<bool> leave{false};
  std::thread launching([&] {
    const Scope outer(&gate(), {});
    inside = true;
    EXPECT_TRUE(scene_.SomebodyIsKeptOut());
    const Scope inner(&gate(), {});
    nested = true;
    while (!leave) absl::SleepFor(absl::Microseconds(50));
  });
  ASSERT_TRUE(HoldsSoon([&] { return inside.load(); }));
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    FIRN_EXPECT_OK(gate().Close(absl::InfiniteDuration()));
    closed = true;
  });
  // Keeps trying, as the gate may not have begun to close yet.
  while (!nested) {
    Guest late(&gate());
    (void)HoldsSoon([&] { return nested.load() || late.is_inside(); });
    leave = nested.load();
  }
  launching.join();
  closer.join();
  EXPECT_TRUE(closed);
}

TEST_F(LaunchGateTest, TheEndOfANestedScopeDoesNotLetTheGateClose) {
  std::atomic<int> step{0};
  std::thread launching([&] {
    const Scope outer(&gate(), {});
    { const Scope inner(&gate(), {}); }
    step = 1;
    while (step != 2) absl::SleepFor(absl::Microseconds(50));
  });
  ASSERT_TRUE(HoldsSoon([&] { return step == 1; }));
  EXPECT_THAT(gate().Close(kMoment),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  step = 2;
  launching.join();
  FIRN_EXPECT_OK(gate().Close(kPatience));
}

TEST_F(LaunchGateTest, ScopesMayEndInAnyOrder) {
  // Ends them in each order of three, and tries to close from another thread
  // whenever one has ended.
  std::vector<size_t> order = {0, 1, 2};
  do {
    std::vector<std::unique_ptr<Scope>> scopes;
    for (size_t i = 0; i < order.size(); ++i) {
      scopes.push_back(
          std::make_unique<Scope>(&gate(), absl::Span<const StreamHandle>()));
    }
    for (size_t i = 0; i < order.size(); ++i) {
      std::thread([&] {
        EXPECT_THAT(gate().Close(absl::ZeroDuration()),
                    StatusIs(absl::StatusCode::kDeadlineExceeded,
                             HasSubstr("1 scope was still open")));
      }).join();
      EXPECT_TRUE(gate().ThisThreadIsInside());
      scopes[order[i]].reset();
    }
    EXPECT_FALSE(gate().ThisThreadIsInside());
    FIRN_EXPECT_OK(gate().Close(kPatience));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(LaunchGateTest, GatesDoNotKnowOfEachOther) {
  LaunchGateScene other;
  auto first =
      std::make_unique<Scope>(&gate(), absl::Span<const StreamHandle>());
  EXPECT_FALSE(other.gate().ThisThreadIsInside());
  FIRN_EXPECT_OK(other.gate().Close(kPatience));
  auto second =
      std::make_unique<Scope>(&other.gate(), absl::Span<const StreamHandle>());
  EXPECT_TRUE(other.gate().ThisThreadIsInside());
  first.reset();
  EXPECT_FALSE(gate().ThisThreadIsInside());
  EXPECT_TRUE(other.gate().ThisThreadIsInside());
  FIRN_EXPECT_OK(gate().Close(kPatience));
  EXPECT_THAT(other.gate().Close(kPatience),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  second.reset();
  FIRN_EXPECT_OK(other.gate().Close(kPatience));
}

TEST_F(LaunchGateTest, MoreThreadsThanSlotsAreAllWaitedFor) {
  constexpr int kThreads = 150;
  std::vector<std::unique_ptr<Guest>> guests;
  for (int i = 0; i < kThreads; ++i) {
    guests.push_back(std::make_unique<Guest>(&gate()));
  }
  for (const auto& guest : guests) {
    ASSERT_TRUE(HoldsSoon([&] { return guest->is_inside(); }));
  }
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("150 scopes were still open")));
  guests.resize(1);
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("1 scope was still open")));
  guests.clear();
  FIRN_EXPECT_OK(gate().Close(kPatience));
}

TEST_F(LaunchGateTest, AClosureThatWasMovedFromOpensNothing) {
  auto closed = gate().Close(kPatience);
  FIRN_ASSERT_OK(closed);
  auto moved = std::make_unique<LaunchGate::Closure>(*std::move(closed));
  closed = absl::UnknownError("gone");
  EXPECT_THAT(gate().Close(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  moved.reset();
  FIRN_EXPECT_OK(gate().Close(absl::ZeroDuration()));
}

}  // namespace
}  // namespace firn::testing
