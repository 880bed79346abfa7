// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each driver call of each operation of a granule store fails in turn: what was
// before is intact, a retry succeeds, nothing leaks.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"
#include "tests/vmm/granule_store_scene.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::SizeIs;

class GranuleStoreFailureTest : public GranuleStoreScene {
 protected:
  // Nothing is left on the device between two stores.
  void CloseStore() {
    driver_.Reset();
    FIRN_EXPECT_OK(store_->CheckInvariants());
    store_.reset();
    EXPECT_TRUE(ledger_.empty()) << "left: " << ledger_.Describe();
  }
};

TEST_F(GranuleStoreFailureTest, BulkCreation) {
  constexpr uint32_t kWanted = 64;
  constexpr uint32_t kCached = 4;
  constexpr uint32_t kCreated = kWanted - kCached;
  capped_.set_most_handles(kWanted);
  for (const DriverResult result :
       {DriverResult::kOutOfMemory, DriverResult::kUnknown}) {
    for (uint32_t n = 0; n < kCreated; ++n) {
      SCOPED_TRACE(absl::StrCat("result ", static_cast<int>(result),
                                " of creation ", n));
      GranuleStore& store = MakeStore(kWanted);
      const std::vector<GranuleId> cached = Reversed(FillCache(kCached));
      driver_.FailNthOf(DriverCall::kMemCreate, n, result);
      Acquisition acquisition;
      const absl::Status status = store.AcquireAtMost(kWanted, &acquisition);
      EXPECT_EQ(status.code(), result == DriverResult::kOutOfMemory
                                   ? absl::StatusCode::kOk
                                   : absl::StatusCode::kInternal);
      ASSERT_THAT(acquisition.granules, SizeIs(kCached + n));
      EXPECT_EQ(acquisition.created, n);
      EXPECT_EQ(store.held_granules(), kCached + n);
      EXPECT_EQ(device_granules_held(), kCached + n);
      FIRN_ASSERT_OK(store.CheckInvariants());
      // The prior state again, to the order of the cache.
      store.GiveBack(acquisition);
      EXPECT_EQ(device_granules_held(), kCached);
      EXPECT_THAT(CacheContents(), ElementsAreArray(cached));
      const Acquisition retried = Acquire(kWanted);
      EXPECT_THAT(retried.granules, SizeIs(kWanted));
      EXPECT_EQ(retried.created, kCreated);
      CloseStore();
      if (HasFailure()) return;
    }
  }
}

TEST_F(GranuleStoreFailureTest, AnAcquisitionGoesOnWhereItFailed) {
  constexpr uint32_t kWanted = 8;
  for (uint32_t n = 0; n < kWanted; ++n) {
    SCOPED_TRACE(n);
    GranuleStore& store = MakeStore(kWanted);
    driver_.FailNthOf(DriverCall::kMemCreate, n, DriverResult::kUnknown);
    Acquisition acquisition;
    EXPECT_THAT(store.AcquireAtMost(kWanted, &acquisition),
                StatusIs(absl::StatusCode::kInternal));
    FIRN_EXPECT_OK(store.AcquireAtMost(kWanted - n, &acquisition));
    EXPECT_THAT(acquisition.granules, SizeIs(kWanted));
    EXPECT_EQ(acquisition.created, kWanted);
    store.GiveBack(acquisition);
    EXPECT_EQ(store.held_granules(), 0u);
    CloseStore();
  }
}

TEST_F(GranuleStoreFailureTest, GiveBack) {
  for (uint32_t n = 0; n < 5; ++n) {
    SCOPED_TRACE(n);
    GranuleStore& store = MakeStore(8);
    const std::vector<GranuleId> cached = Reversed(FillCache(2));
    const Acquisition acquisition = Acquire(7);
    driver_.FailNthOf(DriverCall::kMemRelease, n, DriverResult::kUnknown);
    store.GiveBack(acquisition);
    FIRN_ASSERT_OK(store.CheckInvariants());
    // What is refused is cached, behind what was there before.
    EXPECT_EQ(store.cached_granules(), 3u);
    EXPECT_EQ(device_granules_held(), 3u);
    const std::vector<GranuleId> now = CacheContents();
    EXPECT_EQ(std::vector<GranuleId>(now.begin(), now.begin() + 2), cached);
    EXPECT_THAT(store.ReleaseCached(2), IsOkAndHolds(1u));
    EXPECT_THAT(CacheContents(), ElementsAreArray(cached));
    CloseStore();
  }
}

TEST_F(GranuleStoreFailureTest, ReleaseCached) {
  constexpr uint32_t kCached = 70;  // more than one batch
  capped_.set_most_handles(kCached);
  for (uint32_t n = 0; n < kCached; ++n) {
    SCOPED_TRACE(n);
    GranuleStore& store = MakeStore(kCached);
    const std::vector<GranuleId> cached = FillCache(kCached);
    driver_.FailNthOf(DriverCall::kMemRelease, n, DriverResult::kUnknown);
    EXPECT_THAT(store.ReleaseCached(0), StatusIs(absl::StatusCode::kInternal));
    FIRN_ASSERT_OK(store.CheckInvariants());
    EXPECT_EQ(device_granules_held(), kCached - n);
    const std::vector<GranuleId> rest(cached.begin() + n, cached.end());
    EXPECT_THAT(CacheContents(), ElementsAreArray(Reversed(rest)));
    EXPECT_THAT(store.ReleaseCached(0), IsOkAndHolds(kCached - n));
    EXPECT_EQ(store.held_granules(), 0u);
    CloseStore();
    if (HasFailure()) return;
  }
}

TEST_F(GranuleStoreFailureTest, Maintain) {
  // Three retire, two exportable ones are too many, two movable ones are
  // missing: seven calls.
  constexpr uint32_t kCalls = 7;
  for (const DriverResult result :
       {DriverResult::kOutOfMemory, DriverResult::kUnknown}) {
    for (uint32_t n = 0; n <= kCalls; ++n) {
      SCOPED_TRACE(
          absl::StrCat("result ", static_cast<int>(result), " of call ", n));
      GranuleStoreOptions options = Options(8);
      options.low_water_granules = 2;
      options.high_water_granules = 2;
      GranuleStore& store = MakeStore(options);
      std::vector<GranuleId> exportable =
          Acquire(7, GranuleKind::kExportable).granules;
      for (uint32_t i = 0; i < 7; ++i) {
        if (i < 3) {
          FIRN_EXPECT_OK(store.MarkShared(exportable[i]));
        }
        store.Put(exportable[i]);
      }
      driver_.Reset();
      driver_.FailNth(n, result);
      const bool ok = store.Maintain(absl::UnixEpoch()).ok();
      const uint64_t failures = driver_.failures();
      EXPECT_EQ(failures, n < kCalls ? 1u : 0u);
      const bool refill_failed = n == kCalls - 1 || n == kCalls - 2;
      EXPECT_EQ(ok, failures == 0 || (refill_failed &&
                                      result == DriverResult::kOutOfMemory));
      FIRN_ASSERT_OK(store.CheckInvariants());
      EXPECT_EQ(device_granules_held(), store.held_granules());
      // Nothing but what was to go has gone.
      EXPECT_TRUE(store.is_cached(exportable[5]));
      EXPECT_TRUE(store.is_cached(exportable[6]));
      driver_.Reset();
      FIRN_EXPECT_OK(store.Maintain(absl::UnixEpoch()));
      EXPECT_EQ(store.retiring_granules(), 0u);
      EXPECT_EQ(store.cached_granules(), 2u);
      EXPECT_EQ(store.held_granules(), 4u);
      EXPECT_EQ(store.released_total(), 5u);
      EXPECT_EQ(store.possibly_held_elsewhere_total(), 3u);
      CloseStore();
      if (HasFailure()) return;
    }
  }
}

TEST_F(GranuleStoreFailureTest, ExportAndImport) {
  GranuleStore& store = MakeStore(4);
  const GranuleId granule = Acquire(1, GranuleKind::kExportable).granules[0];
  int descriptor = -1;
  driver_.FailNthOf(DriverCall::kMemExportToShareableHandle, 0,
                    DriverResult::kUnknown);
  constexpr auto kType = ShareableHandleType::kPosixFileDescriptor;
  EXPECT_THAT(store.Export(granule, kType, &descriptor),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_FALSE(store.is_shared(granule)) << "nobody has got a handle";
  store.Put(granule);
  EXPECT_TRUE(store.is_cached(granule));
  EXPECT_EQ(Acquire(1, GranuleKind::kExportable).granules[0], granule);
  FIRN_ASSERT_OK(store.Export(granule, kType, &descriptor));
  EXPECT_TRUE(store.is_shared(granule));

  void* const shareable =
      reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  driver_.FailNthOf(DriverCall::kMemImportFromShareableHandle, 0,
                    DriverResult::kUnknown);
  EXPECT_THAT(store.Import(shareable, kType),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(store.imported_total(), 0u);
  EXPECT_EQ(store.id_limit(), 1u);
  FIRN_EXPECT_OK(store.CheckInvariants());
  FIRN_EXPECT_OK(store.Import(shareable, kType));
  EXPECT_EQ(store.imported_total(), 1u);
  EXPECT_EQ(close(descriptor), 0);
}

// A device that is lost takes nothing back. The store goes on answering, and
// its destruction tries once more.
TEST_F(GranuleStoreFailureTest, ALostDeviceIsReportedAndNothingIsGivenOut) {
  GranuleStoreOptions options = Options(8);
  options.low_water_granules = 4;
  GranuleStore& store = MakeStore(options);
  FillCache(2);
  driver_.FailFrom(0, DriverResult::kIllegalAddress);
  Acquisition acquisition;
  EXPECT_THAT(store.AcquireAtMost(4, &acquisition),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(acquisition.granules, SizeIs(2));
  store.GiveBack(acquisition);
  EXPECT_THAT(store.Maintain(absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(store.ReleaseCached(0), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(store.held_granules(), 2u);
  EXPECT_EQ(store.cached_granules(), 2u);
  driver_.Reset();
}

}  // namespace
}  // namespace firn::testing
