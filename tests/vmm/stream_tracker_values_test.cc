// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tokens as values: where they are written, where not, and what they cross.

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/stream_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_stream.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/status_matchers.h"
#include "tests/vmm/stream_tracker_scene.h"

namespace firn::testing {
namespace {

using ::testing::IsEmpty;

// Accepts writes of values, makes them as `change` says, and notes where they
// go.
class WrittenValues : public DriverWrapper {
 public:
  explicit WrittenValues(Driver* base) : DriverWrapper(base) {}

  std::function<DriverResult(std::function<DriverResult()> write)> change;
  std::vector<DevicePtr> addresses;

  DriverResult StreamWriteValue64(StreamHandle stream, DevicePtr address,
                                  uint64_t value, uint32_t flags) override {
    addresses.push_back(address);
    const auto write = [&] {
      return base()->StreamWriteValue64(stream, address, value, flags);
    };
    return change == nullptr ? write() : change(write);
  }
};

class StreamTrackerValuesTest : public StreamTrackerScene {
 protected:
  void SetUp() override {
    StreamTrackerScene::SetUp();
    if (!Track()->writes_values()) {
      GTEST_SKIP() << "this device does not write values to the host";
    }
  }
};

TEST_F(StreamTrackerValuesTest, NoEventIsRecordedForAToken) {
  FaultingDriver faults(device());
  const std::unique_ptr<StreamTracker> tracker =
      Track(StreamTrackerOptions(), {&faults});
  const StreamHandle stream = MakeStream();
  FIRN_ASSERT_OK(tracker->Identify(stream));
  faults.FailRandomlyOf(DriverCall::kEventRecord, 1, 1, DriverResult::kUnknown);
  FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
  EXPECT_EQ(device()->StreamDestroy(stream), kOk);
}

TEST_F(StreamTrackerValuesTest, AForeignStreamOfThisDeviceIsMarked) {
  auto* const cpu = dynamic_cast<CpuDriver*>(device());
  if (cpu == nullptr) GTEST_SKIP() << "only the CPU driver makes contexts";
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CpuDriver> context,
                            cpu->CreateContext());
  const std::unique_ptr<StreamTracker> tracker = Track();
  HeldStream held(context.get());
  FIRN_ASSERT_OK_AND_ASSIGN(const StreamIdentity identity,
                            tracker->Identify(held.stream()));
  EXPECT_TRUE(identity.is_foreign);
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken token = MarkOn(*tracker, held.stream());
  EXPECT_EQ(token.stream_id, identity.id);
  EXPECT_FALSE(IsDone(*tracker, token));
  held.Release();
  FIRN_EXPECT_OK(Wait(*tracker, token));
}

TEST_F(StreamTrackerValuesTest, AForeignStreamIsMarkedThroughWhoeverAcceptsIt) {
  auto* const second =
      device_count() < 2 ? nullptr : dynamic_cast<CpuDriver*>(device(1));
  if (second == nullptr) GTEST_SKIP() << "no second device with contexts";
  FIRN_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CpuDriver> context,
                            second->CreateContext());
  const std::unique_ptr<StreamTracker> tracker =
      Track(StreamTrackerOptions(), {device(0), device(1)});
  StreamHandle stream = nullptr;
  ASSERT_EQ(context->StreamCreate(&stream, kStreamNonBlocking), kOk);
  for (int i = 0; i < 3; ++i) {
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
  }
  FIRN_EXPECT_OK(tracker->CheckInvariants());
}

TEST_F(StreamTrackerValuesTest, AStreamThatNobodyAcceptsIsRefused) {
  if (device_count() < 2 || devices().way == Way::kGpu) {
    GTEST_SKIP() << "a stream of a device that is not the tracker's is needed";
  }
  const std::unique_ptr<StreamTracker> tracker = Track();
  const StreamHandle stream = MakeStream(1);
  EXPECT_THAT(tracker->Mark(stream),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_EQ(tracker->pending_streams(), 0u);
  FIRN_EXPECT_OK(tracker->CheckInvariants());
  EXPECT_EQ(device(1)->StreamDestroy(stream), kOk);
}

TEST_F(StreamTrackerValuesTest, WhereAValueDoesNotArriveEventsAreUsed) {
  LedgerDriver ledger(device());
  {
    WrittenValues driver(&ledger);
    driver.change = [](auto /*write*/) { return kOk; };
    const std::unique_ptr<StreamTracker> tracker =
        Track(StreamTrackerOptions(), {&driver});
    EXPECT_FALSE(tracker->writes_values());
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, nullptr)));
  }
  EXPECT_TRUE(ledger.empty()) << ledger.Describe();
}

TEST_F(StreamTrackerValuesTest, WhereWritesAreRefusedEventsAreUsed) {
  LedgerDriver ledger(device());
  {
    WrittenValues driver(&ledger);
    driver.change = [](auto /*write*/) { return DriverResult::kNotSupported; };
    const std::unique_ptr<StreamTracker> tracker =
        Track(StreamTrackerOptions(), {&driver});
    EXPECT_FALSE(tracker->writes_values());
  }
  EXPECT_TRUE(ledger.empty()) << ledger.Describe();
}

// Where there is no memory of kHost, a node's will do.
TEST_F(StreamTrackerValuesTest, MemoryOfANodeIsTriedWhereTheHostsIsRefused) {
  class NoHostMemory : public DriverWrapper {
   public:
    explicit NoHostMemory(Driver* base) : DriverWrapper(base) {}
    DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                           const AllocationProp* prop,
                           uint64_t flags) override {
      types.insert(prop->location.type);
      return prop->location.type == LocationType::kHost
                 ? DriverResult::kNotSupported
                 : base()->MemCreate(handle, bytes, prop, flags);
    }
    std::set<LocationType> types;
  };
  LedgerDriver ledger(device());
  {
    NoHostMemory driver(&ledger);
    const std::unique_ptr<StreamTracker> tracker =
        Track(StreamTrackerOptions(), {&driver});
    EXPECT_EQ(driver.types.count(LocationType::kHostNuma), 1u);
    FIRN_EXPECT_OK(Wait(*tracker, MarkOn(*tracker, nullptr)));
  }
  EXPECT_TRUE(ledger.empty()) << ledger.Describe();
}

TEST_F(StreamTrackerValuesTest, ACounterWithAPendingTokenIsNotUsedAgain) {
  WrittenValues driver(device());
  const std::unique_ptr<StreamTracker> tracker =
      Track(StreamTrackerOptions(), {&driver});
  driver.addresses.clear();
  HeldStream held(device());
  ASSERT_EQ(held.Hold(), kOk);
  const StreamToken pending = MarkOn(*tracker, held.stream());
  const DevicePtr counter = driver.addresses.back();
  for (int i = 0; i < 600; ++i) {
    const StreamHandle stream = MakeStream();
    FIRN_ASSERT_OK(Wait(*tracker, MarkOn(*tracker, stream)));
    ASSERT_EQ(device()->StreamDestroy(stream), kOk);
    ASSERT_NE(driver.addresses.back(), counter);
  }
  // The others are.
  const std::set<DevicePtr> different(driver.addresses.begin(),
                                      driver.addresses.end());
  EXPECT_LT(different.size(), 300u);
  EXPECT_FALSE(IsDone(*tracker, pending));
  FIRN_EXPECT_OK(tracker->CheckInvariants());
}

TEST_F(StreamTrackerValuesTest, MemoryThatAWriteMayStillReachIsLeft) {
  LedgerDriver ledger(device());
  WrittenValues driver(&ledger);
  StreamTrackerOptions options;
  options.max_wait_at_end = absl::Milliseconds(10);
  {
    const std::unique_ptr<StreamTracker> tracker = Track(options, {&driver});
    // The trial went well; this does not arrive.
    driver.change = [](auto /*write*/) { return kOk; };
    EXPECT_FALSE(IsDone(*tracker, MarkOn(*tracker, nullptr)));
  }
  EXPECT_FALSE(ledger.empty());
  EXPECT_THAT(ledger.CleanUp(), IsEmpty());
}

}  // namespace
}  // namespace firn::testing
