// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/stored_granules.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

class StoredGranulesTest : public ::testing::Test {
 protected:
  void TearDown() override { FIRN_EXPECT_OK(granules_.CheckList(list_)); }

  GranuleId Add() { return granules_.Add(/*handle=*/7, GranuleKind::kMovable); }
  GranuleId AddInFront(absl::Time cached_since) {
    const GranuleId granule = Add();
    granules_.LinkFront(&list_, granule, cached_since);
    return granule;
  }
  GranuleId AddAtBack(absl::Time cached_since) {
    const GranuleId granule = Add();
    granules_.LinkBack(&list_, granule, cached_since);
    return granule;
  }
  // From the front.
  std::vector<GranuleId> Listed() const {
    std::vector<GranuleId> listed;
    for (GranuleId at = list_.front; !at.is_none(); at = granules_[at].next) {
      listed.push_back(at);
    }
    return listed;
  }
  std::vector<absl::Time> Times() const {
    std::vector<absl::Time> times;
    for (const GranuleId granule : Listed()) {
      times.push_back(granules_[granule].cached_since);
    }
    return times;
  }

  StoredGranules granules_;
  GranuleList list_;
};

TEST_F(StoredGranulesTest, AnIdThatIsFreeIsUsedAgainWithoutItsPast) {
  const GranuleId first = Add();
  const GranuleId second = Add();
  granules_[first].sharing = GranuleSharing::kKnown;
  granules_[first].cached_since = At(5);
  granules_.Remove(first);
  EXPECT_FALSE(granules_.contains(first));
  EXPECT_TRUE(granules_.contains(second));
  EXPECT_FALSE(granules_.contains(GranuleId()));
  EXPECT_EQ(granules_.Add(8, GranuleKind::kHost), first);
  EXPECT_EQ(granules_.id_limit(), 2u);
  EXPECT_EQ(granules_[first].handle, 8u);
  EXPECT_EQ(granules_[first].kind, GranuleKind::kHost);
  EXPECT_EQ(granules_[first].sharing, GranuleSharing::kPrivate);
  EXPECT_EQ(granules_[first].cached_since, absl::InfiniteFuture());
}

TEST_F(StoredGranulesTest, GranulesAreLinkedAtBothEndsAndUnlinkedAnywhere) {
  const GranuleId b = AddInFront(At(1));
  const GranuleId a = AddInFront(At(2));
  const GranuleId c = AddAtBack(At(0));
  const GranuleId d = AddAtBack(At(0));
  EXPECT_THAT(Listed(), ElementsAre(a, b, c, d));
  granules_.Unlink(&list_, b);
  FIRN_EXPECT_OK(granules_.CheckList(list_));
  EXPECT_THAT(Listed(), ElementsAre(a, c, d));
  granules_.Unlink(&list_, d);
  granules_.Unlink(&list_, a);
  FIRN_EXPECT_OK(granules_.CheckList(list_));
  EXPECT_THAT(Listed(), ElementsAre(c));
  granules_.Unlink(&list_, c);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_TRUE(list_.back.is_none());
  granules_.LinkBack(&list_, b, At(3));
  EXPECT_EQ(list_.front, b);
}

TEST_F(StoredGranulesTest, TimesThatWouldBreakTheOrderAreBent) {
  AddInFront(At(10));
  AddInFront(At(4));
  AddAtBack(At(20));
  AddAtBack(At(2));
  EXPECT_THAT(Times(), ElementsAre(At(10), At(10), At(10), At(2)));
}

TEST_F(StoredGranulesTest, OnlyUnknownTimesAreSet) {
  AddInFront(At(10));
  AddInFront(absl::InfiniteFuture());
  AddInFront(At(12));  // in front of one that is not known: not known either
  granules_.SetUnknownTimes(list_, At(30));
  EXPECT_THAT(Times(), ElementsAre(At(30), At(30), At(10)));
  granules_.SetUnknownTimes(list_, At(40));
  EXPECT_THAT(Times(), ElementsAre(At(30), At(30), At(10)));
}

TEST_F(StoredGranulesTest, AClockThatGoesBackKeepsTheOrder) {
  AddInFront(At(10));
  AddInFront(absl::InfiniteFuture());
  AddInFront(absl::InfiniteFuture());
  granules_.SetUnknownTimes(list_, At(5));
  EXPECT_THAT(Times(), ElementsAre(At(10), At(10), At(10)));
}

TEST_F(StoredGranulesTest, CheckListFindsWhatIsWrong) {
  AddInFront(At(1));
  const GranuleId middle = AddInFront(At(2));
  AddInFront(At(3));
  const auto expect_wrong = [&] {
    EXPECT_THAT(granules_.CheckList(list_),
                StatusIs(absl::StatusCode::kInternal));
  };
  ++list_.granules;
  expect_wrong();
  list_.granules -= 2;
  expect_wrong();
  ++list_.granules;
  granules_[middle].cached_since = At(9);
  expect_wrong();
  granules_[middle].cached_since = At(2);
  granules_[middle].previous = middle;
  expect_wrong();
  granules_[middle].previous = list_.front;
  list_.back = middle;
  expect_wrong();
  list_.back = granules_[middle].next;
}

}  // namespace
}  // namespace firn::testing
