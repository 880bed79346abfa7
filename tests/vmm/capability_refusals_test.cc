// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices that say one thing and permit another, and what is made of that.

#include <functional>
#include <map>
#include <memory>

#include "firn/vmm/capabilities.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/test_device.h"

namespace firn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A device with other attributes and other permissions than its own.
class OtherwiseDevice : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;

  std::map<DeviceAttribute, int32_t> attributes;
  int32_t driver_version = 13000;
  // What MemCreate says before it looks.
  std::function<DriverResult(const AllocationProp&)> may_create;
  AccessFlags access = AccessFlags::kReadWrite;
  int32_t device_count = 1;
  // By ordinal.
  std::map<int32_t, DriverResult> peer_results;
  std::map<int32_t, int32_t> peer_access;

  DriverIdentity identity() const override {
    DriverIdentity identity = base()->identity();
    identity.driver_version = driver_version;
    return identity;
  }
  DriverResult DeviceGetCount(int32_t* count) override {
    *count = device_count;
    return DriverResult::kSuccess;
  }
  DriverResult DeviceGetAttribute(int32_t* value,
                                  DeviceAttribute attribute) override {
    const auto it = attributes.find(attribute);
    if (it == attributes.end()) {
      return base()->DeviceGetAttribute(value, attribute);
    }
    *value = it->second;
    return DriverResult::kSuccess;
  }
  DriverResult DeviceCanAccessPeer(int32_t* can_access, int32_t peer) override {
    *can_access = peer_access[peer];
    return peer_results[peer];
  }
  DriverResult MemCreate(PhysicalHandle* handle, size_t bytes,
                         const AllocationProp* prop, uint64_t flags) override {
    const DriverResult result =
        may_create ? may_create(*prop) : DriverResult::kSuccess;
    return result == DriverResult::kSuccess
               ? base()->MemCreate(handle, bytes, prop, flags)
               : result;
  }
  DriverResult MemGetAccess(AccessFlags* flags, const MemLocation* location,
                            DevicePtr address) override {
    const DriverResult result = base()->MemGetAccess(flags, location, address);
    if (access != AccessFlags::kReadWrite) *flags = access;
    return result;
  }
};

// Refuses memory of the one kind of location.
std::function<DriverResult(const AllocationProp&)> Refuse(LocationType type,
                                                          DriverResult result) {
  return [=](const AllocationProp& prop) {
    return prop.location.type == type ? result : DriverResult::kSuccess;
  };
}

class CapabilityRefusalsTest : public ::testing::Test {
 protected:
  ~CapabilityRefusalsTest() override {
    EXPECT_EQ(ledger_.empty(), !leaves_something_) << ledger_.Describe();
  }

  std::unique_ptr<CpuDriver> device_ = MakeTestDevice(CpuStorage::kReal, 16);
  LedgerDriver ledger_{device_.get()};
  OtherwiseDevice driver_{&ledger_};
  bool leaves_something_ = false;
};

TEST_F(CapabilityRefusalsTest, TheCpuDriverHasAllButFabricHandles) {
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_TRUE(found.virtual_memory.available);
  EXPECT_TRUE(found.stream_ids.available);
  EXPECT_TRUE(found.stream_values_64.available);
  EXPECT_TRUE(found.posix_file_descriptors.available);
  EXPECT_TRUE(found.rdma.available);
  EXPECT_FALSE(found.fabric_handles.available);
  EXPECT_EQ(found.fabric_handles.reason, "attribute 128 of the device is 0");
  EXPECT_TRUE(found.host_spill.available);
  EXPECT_EQ(found.host_spill.reason,
            "memory of the host: attribute 145 of the device is 1, and a trial "
            "succeeded");
  EXPECT_EQ(found.host_location.type, LocationType::kHost);
  EXPECT_EQ(found.host_granularity.minimum_bytes, kTestGranuleBytes);
  EXPECT_EQ(found.memory.total_bytes, 16 * kTestGranuleBytes);
  EXPECT_EQ(found.memory.free_bytes, 16 * kTestGranuleBytes);
}

TEST_F(CapabilityRefusalsTest, AGhostDeviceWritesNoValues) {
  const std::unique_ptr<CpuDriver> ghost =
      MakeTestDevice(CpuStorage::kGhost, 16);
  const Capabilities found = ProbeCapabilities(ghost.get());
  EXPECT_TRUE(found.virtual_memory.available);
  EXPECT_FALSE(found.stream_values_64.available);
  EXPECT_EQ(found.stream_values_64.reason, "attribute 122 of the device is 0");
}

TEST_F(CapabilityRefusalsTest, AVirtualGpuThatRefusesToCreateHasNoVmm) {
  driver_.may_create = [](const AllocationProp&) {
    return DriverResult::kNotPermitted;
  };
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.virtual_memory.available);
  EXPECT_EQ(found.virtual_memory.reason,
            "cuMemCreate: CUDA_ERROR_NOT_PERMITTED (800)");
  EXPECT_TRUE(found.stream_ids.available);
  for (const Capability* capability :
       {&found.stream_values_64, &found.posix_file_descriptors, &found.rdma,
        &found.fabric_handles, &found.host_spill}) {
    EXPECT_FALSE(capability->available);
    EXPECT_EQ(capability->reason, "there is no virtual memory management");
  }
}

TEST_F(CapabilityRefusalsTest, AnAccessThatIsNotGrantedIsFound) {
  driver_.access = AccessFlags::kRead;
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.virtual_memory.available);
  EXPECT_EQ(found.virtual_memory.reason,
            "cuMemGetAccess: not the access that cuMemSetAccess has set");
}

TEST_F(CapabilityRefusalsTest, APromiseThatIsNotMadeIsNotTried) {
  driver_.attributes[DeviceAttribute::kPosixFileDescriptorHandles] = 0;
  driver_.attributes[DeviceAttribute::kGpuDirectRdmaWithVmm] = 0;
  driver_.may_create = [](const AllocationProp& prop) {
    EXPECT_EQ(prop.requested_handle_types, ShareableHandleType::kNone);
    EXPECT_EQ(prop.alloc_flags.gpu_direct_rdma_capable, 0);
    return DriverResult::kSuccess;
  };
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_EQ(found.posix_file_descriptors.reason,
            "attribute 103 of the device is 0");
  EXPECT_EQ(found.rdma.reason, "attribute 110 of the device is 0");
  EXPECT_FALSE(found.posix_file_descriptors.available);
  EXPECT_FALSE(found.rdma.available);
}

TEST_F(CapabilityRefusalsTest, FabricHandlesThatArePromisedMayBeRefused) {
  driver_.attributes[DeviceAttribute::kFabricHandles] = 1;
  Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.fabric_handles.available);
  EXPECT_EQ(found.fabric_handles.reason,
            "cuMemCreate: CUDA_ERROR_NOT_SUPPORTED (801)");
  driver_.may_create = [](const AllocationProp& prop) {
    return prop.requested_handle_types == ShareableHandleType::kFabric
               ? DriverResult::kNotPermitted
               : DriverResult::kSuccess;
  };
  found = ProbeCapabilities(&driver_);
  EXPECT_EQ(found.fabric_handles.reason,
            "cuMemCreate: CUDA_ERROR_NOT_PERMITTED (800)");
}

TEST_F(CapabilityRefusalsTest, WithoutTheHostAtLargeTheNearestNodeIsTaken) {
  driver_.attributes[DeviceAttribute::kHostVirtualMemoryManagement] = 0;
  driver_.attributes[DeviceAttribute::kHostNumaId] = -1;
  Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_TRUE(found.host_spill.available);
  EXPECT_EQ(found.host_location.type, LocationType::kHostNuma);
  EXPECT_EQ(found.host_location.id, 0);
  EXPECT_EQ(found.host_granularity.minimum_bytes, kTestGranuleBytes);
  EXPECT_EQ(found.host_spill.reason,
            "memory of NUMA node 0: attribute 141 of the device is 1, and a "
            "trial succeeded (of the host at large: attribute 145 of the "
            "device is 0)");
  // Another node, which this system lacks.
  driver_.attributes[DeviceAttribute::kHostNumaId] = 1;
  found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.host_spill.available);
  EXPECT_THAT(found.host_spill.reason, HasSubstr("CUDA_ERROR_INVALID_VALUE"));
}

TEST_F(CapabilityRefusalsTest, ARefusalOfTheHostAtLargeLeadsToTheNodeToo) {
  driver_.may_create = Refuse(LocationType::kHost, DriverResult::kNotSupported);
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_TRUE(found.host_spill.available);
  EXPECT_EQ(found.host_location.type, LocationType::kHostNuma);
  EXPECT_THAT(found.host_spill.reason,
              HasSubstr("cuMemCreate: CUDA_ERROR_NOT_SUPPORTED (801)"));
}

TEST_F(CapabilityRefusalsTest, DriversBefore124AreNotTrustedWithNodes) {
  driver_.attributes[DeviceAttribute::kHostVirtualMemoryManagement] = 0;
  driver_.driver_version = 12030;
  Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.host_spill.available);
  EXPECT_EQ(found.host_location.type, LocationType::kInvalid);
  EXPECT_EQ(found.host_spill.reason,
            "of the host at large: attribute 145 of the device is 0; of a NUMA "
            "node: the driver is of CUDA 12.3, and 12.4 is the first to do it "
            "right");
  EXPECT_EQ(found.host_granularity.reason, "no memory of the host can be used");
  driver_.driver_version = 12040;
  EXPECT_TRUE(ProbeCapabilities(&driver_).host_spill.available);
}

TEST_F(CapabilityRefusalsTest, WithoutHostMemoryBothReasonsAreGiven) {
  driver_.may_create = [](const AllocationProp& prop) {
    return prop.location.type == LocationType::kDevice
               ? DriverResult::kSuccess
               : DriverResult::kNotPermitted;
  };
  Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.host_spill.available);
  EXPECT_EQ(found.host_spill.reason,
            "of the host at large: cuMemCreate: CUDA_ERROR_NOT_PERMITTED "
            "(800); of a NUMA node: cuMemCreate: CUDA_ERROR_NOT_PERMITTED "
            "(800)");
  driver_.attributes[DeviceAttribute::kHostNumaVirtualMemoryManagement] = 0;
  found = ProbeCapabilities(&driver_);
  EXPECT_THAT(found.host_spill.reason,
              HasSubstr("of a NUMA node: attribute 141 of the device is 0"));
}

TEST_F(CapabilityRefusalsTest, PeersAreAskedOneByOne) {
  driver_.device_count = 4;
  driver_.peer_access[1] = 1;
  driver_.peer_results[3] = DriverResult::kInvalidDevice;
  const Capabilities found = ProbeCapabilities(&driver_);
  ASSERT_EQ(found.peers.size(), 3u);
  EXPECT_EQ(found.peers[0].ordinal, 1);
  EXPECT_TRUE(found.peers[0].access.available);
  EXPECT_EQ(found.peers[1].ordinal, 2);
  EXPECT_FALSE(found.peers[1].access.available);
  EXPECT_FALSE(found.peers[2].access.available);
  EXPECT_THAT(found.peers[2].access.reason,
              StartsWith("cuDeviceCanAccessPeer"));
  EXPECT_TRUE(found.peer_access.available);
  EXPECT_EQ(found.peer_access.reason, "1 of 3 other devices");
}

TEST_F(CapabilityRefusalsTest, WithoutAnotherDeviceThereIsNoPeer) {
  EXPECT_EQ(ProbeCapabilities(&driver_).peer_access.reason,
            "there is no other device");
  driver_.device_count = 2;
  const Capabilities found = ProbeCapabilities(&driver_);
  EXPECT_FALSE(found.peer_access.available);
  EXPECT_EQ(found.peer_access.reason, "0 of 1 other devices");
}

TEST_F(CapabilityRefusalsTest, AFullDeviceCannotShowWhatItCan) {
  driver_.may_create = [](const AllocationProp&) {
    return DriverResult::kOutOfMemory;
  };
  EXPECT_EQ(ProbeCapabilities(&driver_).virtual_memory.reason,
            "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)");
}

// A write that may come yet must find its memory.
TEST_F(CapabilityRefusalsTest, MemoryStaysWhereAWriteCannotBeWaitedFor) {
  leaves_something_ = true;
  FaultingDriver faults(&driver_);
  for (uint64_t n = 0; n < 3; ++n) {
    faults.FailNthOf(DriverCall::kStreamSynchronize, n, DriverResult::kUnknown);
  }
  const Capabilities found = ProbeCapabilities(&faults);
  EXPECT_FALSE(found.stream_values_64.available);
  EXPECT_EQ(found.stream_values_64.reason,
            "cuStreamSynchronize: CUDA_ERROR_UNKNOWN (999)");
  EXPECT_THAT(ledger_.Describe(),
              AllOf(HasSubstr("1 mapping"), HasSubstr("1 handle")));
  ledger_.CleanUp();
  leaves_something_ = false;
  EXPECT_EQ(device_->loss(), "");
}

// Freeing what is mapped would be wrong: the mapping stays, and the address.
TEST_F(CapabilityRefusalsTest, AddressesThatCannotBeUnmappedAreNotFreed) {
  FaultingDriver faults(&driver_);
  faults.FailRandomlyOf(DriverCall::kMemUnmap, 1, 1, DriverResult::kUnknown);
  const Capabilities found = ProbeCapabilities(&faults);
  EXPECT_FALSE(found.virtual_memory.available);
  EXPECT_EQ(found.virtual_memory.reason,
            "cuMemUnmap: CUDA_ERROR_UNKNOWN (999)");
  EXPECT_THAT(ledger_.Describe(),
              AllOf(HasSubstr("1 reservation"), HasSubstr("1 mapping")));
  EXPECT_EQ(device_->last_report(), "");
  ledger_.CleanUp();
}

}  // namespace
}  // namespace firn::testing
