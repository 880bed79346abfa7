// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Who may access what a mapping table maps: peers may, again after every
// remap; and a driver that does not do as it was told is caught.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kNoSuchDevice = 1000;

// Answers, when told to, that a location may only read.
class LyingDriver : public DriverWrapper {
 public:
  explicit LyingDriver(Driver* base) : DriverWrapper(base) {}

  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    const DriverResult result =
        DriverWrapper::MemGetAccess(flags, location, address);
    if (result == DriverResult::kSuccess && address == lie_about) {
      *flags = AccessFlags::kRead;
    }
    return result;
  }

  DevicePtr lie_about = 0;
};

MappingTableOptions AccessFrom(const std::vector<int32_t>& devices,
                               bool verify_access) {
  MappingTableOptions options;
  for (const int32_t device : devices) {
    options.access.push_back(ReadWriteAccess(device));
  }
  options.verify_access = verify_access;
  return options;
}

// --- Verification ---

class VerifiedAccessTest : public ::testing::Test {
 protected:
  MappingTable MakeTable(bool verify_access) {
    return MappingTable(&driver_, &memory_.addresses(), &memory_.store(),
                        AccessFrom({0}, verify_access));
  }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }
  uint64_t queries() {
    return memory_.counts().count(DriverCall::kMemGetAccess);
  }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/6, /*vg_count=*/8};
  LyingDriver driver_{&memory_.faults()};
};

TEST_F(VerifiedAccessTest, EveryMappingThatIsMadeIsAskedFor) {
  MappingTable table = MakeTable(/*verify_access=*/true);
  FIRN_ASSERT_OK(table.Apply(
      {MapTo(0, granule(0)), MapTo(1, granule(1)), MapTo(4, granule(2))}));
  EXPECT_EQ(queries(), 3u);
  FIRN_ASSERT_OK(table.Apply({Unmap(0), MapTo(1, granule(3))}));
  EXPECT_EQ(queries(), 4u);
}

TEST_F(VerifiedAccessTest, NothingIsAskedWithoutIt) {
  MappingTable table = MakeTable(/*verify_access=*/false);
  driver_.lie_about = memory_.AddressOf(1);
  FIRN_EXPECT_OK(table.Apply({MapTo(0, granule(0)), MapTo(1, granule(1))}));
  EXPECT_EQ(queries(), 0u);
}

TEST_F(VerifiedAccessTest, ByDefaultItIsDoneInDebugBuildsAlone) {
  FIRN_ASSERT_OK(memory_.table().Apply({MapTo(0, granule(0))}));
#ifdef NDEBUG
  EXPECT_EQ(queries(), 0u);
#else
  EXPECT_EQ(queries(), 1u);
#endif
}

TEST_F(VerifiedAccessTest, AWrongAnswerUndoesTheChange) {
  MappingTable table = MakeTable(/*verify_access=*/true);
  FIRN_ASSERT_OK(table.Apply({MapTo(0, granule(0)), MapTo(1, granule(1))}));
  memory_.Write(0, 10);
  memory_.Write(1, 11);
  driver_.lie_about = memory_.AddressOf(2);
  EXPECT_THAT(table.Apply({MapTo(0, granule(2)), Unmap(1), MapTo(2, granule(3)),
                           MapTo(3, granule(4))}),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("access 1 to virtual granule 2"),
                             HasSubstr("instead of 3"))));
  driver_.lie_about = 0;
  FIRN_EXPECT_OK(table.lost_status());
  FIRN_EXPECT_OK(table.CheckInvariants());
  EXPECT_EQ(table.mapped_vgs(), 2u);
  EXPECT_EQ(table.generation(VgIndex(0)), 1u);
  EXPECT_EQ(memory_.Read(0), memory_.Pattern(10));
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(11));
  FIRN_EXPECT_OK(table.Apply({MapTo(2, granule(3))}));
}

TEST_F(VerifiedAccessTest, AQueryThatFailsUndoesTheChangeToo) {
  MappingTable table = MakeTable(/*verify_access=*/true);
  FIRN_ASSERT_OK(table.Apply({MapTo(0, granule(0))}));
  memory_.Write(0, 10);
  memory_.faults().FailNthOf(DriverCall::kMemGetAccess, 1,
                             DriverResult::kNotPermitted);
  EXPECT_THAT(table.Apply({MapTo(0, granule(2)), MapTo(1, granule(1))}),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("cuMemGetAccess")));
  FIRN_EXPECT_OK(table.lost_status());
  FIRN_EXPECT_OK(table.CheckInvariants());
  EXPECT_EQ(memory_.Read(0), memory_.Pattern(10));
}

TEST_F(VerifiedAccessTest, InvariantsFailWhenAccessIsNotWhatWasGiven) {
  MappingTable table = MakeTable(/*verify_access=*/false);
  FIRN_ASSERT_OK(table.Apply({MapTo(0, granule(0)), MapTo(1, granule(1))}));
  driver_.lie_about = memory_.AddressOf(1);
  EXPECT_THAT(table.CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("I3"), HasSubstr("location 0"))));
}

// --- Peers ---

// Two devices; the second is to have access to the memory of the first.
class PeerAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<Driver>>& drivers = memory_.devices().drivers;
    int32_t can_access = 0;
    if (drivers.size() > 1) {
      ASSERT_EQ(drivers[1]->DeviceCanAccessPeer(&can_access, 0),
                DriverResult::kSuccess);
    }
    if (can_access == 0) GTEST_SKIP() << "no device that is a peer";
    peer_ = drivers[1].get();
    table_ = std::make_unique<MappingTable>(
        &memory_.faults(), &memory_.addresses(), &memory_.store(),
        AccessFrom({0, 1}, /*verify_access=*/true));
  }

  // Maps and fills with the virtual granule's number as seed.
  void MapAndFill(const std::vector<MappingChange>& changes) {
    FIRN_ASSERT_OK(table_->Apply(changes));
    for (const MappingChange& change : changes) {
      memory_.Write(change.vg.value(), change.vg.value());
    }
  }
  void ExpectPeerReads(uint32_t vg, uint32_t seed) {
    EXPECT_EQ(ReadWords(peer_, memory_.AddressOf(vg), memory_.granule_bytes()),
              memory_.Pattern(seed));
  }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/6, /*vg_count=*/8};
  Driver* peer_ = nullptr;
  std::unique_ptr<MappingTable> table_;
};

TEST_F(PeerAccessTest, PeersCanUseNewMappings) {
  MapAndFill(
      {MapTo(0, granule(0)), MapTo(1, granule(1)), MapTo(4, granule(2))});
  for (const uint32_t vg : {0u, 1u, 4u}) ExpectPeerReads(vg, vg);
  WriteWords(peer_, memory_.AddressOf(1), memory_.Pattern(20));
  EXPECT_EQ(memory_.Read(1), memory_.Pattern(20));
  FIRN_EXPECT_OK(table_->CheckInvariants());
}

TEST_F(PeerAccessTest, PeersCanUseWhatWasRemapped) {
  MapAndFill(
      {MapTo(0, granule(0)), MapTo(1, granule(1)), MapTo(4, granule(2))});
  FIRN_ASSERT_OK(table_->Apply({MapTo(0, granule(1)), MapTo(1, granule(2)),
                                MapTo(4, granule(0)), MapTo(6, granule(0))}));
  ExpectPeerReads(0, 1);
  ExpectPeerReads(1, 4);
  ExpectPeerReads(4, 0);
  ExpectPeerReads(6, 0);
  FIRN_EXPECT_OK(table_->CheckInvariants());
}

// The way back re-applies the whole list, too.
TEST_F(PeerAccessTest, PeersCanUseWhatWasRestored) {
  MapAndFill({MapTo(0, granule(0)), MapTo(1, granule(1))});
  memory_.faults().FailNthOf(DriverCall::kMemSetAccess, 0,
                             DriverResult::kOutOfMemory);
  EXPECT_THAT(table_->Apply({MapTo(0, granule(2)), MapTo(1, granule(3))}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  ExpectPeerReads(0, 0);
  ExpectPeerReads(1, 1);
  FIRN_EXPECT_OK(table_->CheckInvariants());
}

TEST_F(PeerAccessTest, PeersCanUseHostMemory) {
  MapAndFill({MapTo(0, granule(0))});
  Acquisition host;
  FIRN_ASSERT_OK(memory_.store().AcquireAtMost(1, &host, GranuleKind::kHost));
  ASSERT_EQ(host.granules.size(), 1u);
  MapAndFill({MapTo(0, host.granules[0])});
  ExpectPeerReads(0, 0);
  FIRN_EXPECT_OK(table_->CheckInvariants());
}

// What the tests above are worth: who is not on the list cannot read.
TEST_F(PeerAccessTest, WithoutBeingOnTheListAPeerCannotReadAnything) {
  FIRN_ASSERT_OK(memory_.table().Apply({MapTo(7, granule(5))}));
  std::vector<uint32_t> words(16);
  EXPECT_NE(peer_->MemcpyDtoHAsync(words.data(), memory_.AddressOf(7),
                                   words.size() * sizeof(words[0]), nullptr),
            DriverResult::kSuccess);
}

TEST_F(PeerAccessTest, InvariantsFailWhenAPeerHasNoAccess) {
  MapAndFill({MapTo(0, granule(0))});
  AccessDesc none = ReadWriteAccess(1);
  none.flags = AccessFlags::kNone;
  ASSERT_EQ(memory_.device()->MemSetAccess(memory_.AddressOf(0),
                                           memory_.granule_bytes(), &none, 1),
            DriverResult::kSuccess);
  EXPECT_THAT(table_->CheckInvariants(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("I3"), HasSubstr("location 1"))));
}

TEST(UnreachablePeerTest, ADeviceThatCannotBeGivenAccessUndoesTheChange) {
  MappedMemory memory(CpuStorage::kReal, /*granule_count=*/4, /*vg_count=*/6);
  MappingTable table(&memory.faults(), &memory.addresses(), &memory.store(),
                     AccessFrom({0, kNoSuchDevice}, /*verify_access=*/false));
  EXPECT_THAT(
      table.Apply({MapTo(0, memory.granule(0)), MapTo(1, memory.granule(1)),
                   MapTo(3, memory.granule(2))}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemSetAccess")));
  FIRN_EXPECT_OK(table.lost_status());
  FIRN_EXPECT_OK(table.CheckInvariants());
  EXPECT_EQ(table.mapped_vgs(), 0u);
  EXPECT_EQ(table.generation(VgIndex(0)), 0u);
  // The addresses are as good as new.
  FIRN_EXPECT_OK(memory.table().Apply({MapTo(0, memory.granule(0))}));
  EXPECT_TRUE(memory.CloseLeavesNothing());
}

// Both devices exist, but no way between them.
TEST(UnreachablePeerTest, APeerWithoutAWayToTheDeviceUndoesTheChange) {
  CpuDriverOptions device_options;
  device_options.device_count = 2;
  device_options.peer_access = false;
  device_options.granularity_bytes = kTestGranuleBytes;
  device_options.device_bytes = 4 * kTestGranuleBytes;
  FIRN_ASSERT_OK_AND_ASSIGN(auto devices,
                            CpuDriver::CreateDevices(device_options));
  Driver* const device = devices[0].get();
  FIRN_ASSERT_OK_AND_ASSIGN(
      auto addresses, AddressSpace::Reserve(device, kTestGranuleBytes, 6, 6));
  GranuleStoreOptions store_options;
  store_options.granule_bytes = kTestGranuleBytes;
  store_options.budget_granules = 4;
  store_options.movable = MovableProp(0);
  GranuleStore store(device, store_options);
  Acquisition acquisition;
  FIRN_ASSERT_OK(store.AcquireAtMost(2, &acquisition));
  const std::vector<GranuleId>& granules = acquisition.granules;
  {
    MappingTable table(device, addresses.get(), &store,
                       AccessFrom({0, 1}, /*verify_access=*/true));
    EXPECT_THAT(
        table.Apply({MapTo(0, granules[0]), MapTo(1, granules[1])}),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("cuMemSetAccess")));
    FIRN_EXPECT_OK(table.lost_status());
    FIRN_EXPECT_OK(table.CheckInvariants());
    EXPECT_EQ(table.mapped_vgs(), 0u);
  }
  MappingTable alone(device, addresses.get(), &store,
                     AccessFrom({0}, /*verify_access=*/true));
  FIRN_EXPECT_OK(alone.Apply({MapTo(0, granules[0]), MapTo(1, granules[1])}));
  FIRN_EXPECT_OK(alone.CheckInvariants());
}

}  // namespace
}  // namespace firn::testing
