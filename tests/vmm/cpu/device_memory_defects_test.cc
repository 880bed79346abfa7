// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each defect breaks its rule, no other, and nothing else: the books stay in
// order.

#include <unistd.h>

#include <cstdint>
#include <vector>

#include "firn/vmm/cpu/device_memory.h"
#include "firn/vmm/cpu/kernel_mapping_budget.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/test_memory.h"

namespace firn::cpu_testing {
namespace {

constexpr DriverResult kOk = DriverResult::kSuccess;
constexpr DriverResult kInvalid = DriverResult::kInvalidValue;
constexpr AccessFlags kNone = AccessFlags::kNone;
constexpr AccessFlags kReadWrite = AccessFlags::kReadWrite;

class DefectsTest : public MemoryTest {
 protected:
  static cpu::MemoryOptions With(CpuDefect defect) {
    cpu::MemoryOptions options = SmallMemory();
    options.defect = defect;
    return options;
  }
  // Whether the byte at `address` is what it was; there is none in ghosts.
  static bool Holds(DevicePtr address, uint8_t value) {
    return !GetParam() || ByteAt(address) == value;
  }
  static void Fill(DevicePtr address, uint8_t value) {
    if (GetParam()) ByteAt(address) = value;
  }
  // Frees all that is in the reservation, which a driver without mistakes in
  // its books allows, and checks that nothing is left.
  static void ExpectNothingLeft(TestMemory& memory, DevicePtr base,
                                uint64_t granules,
                                const std::vector<PhysicalHandle>& handles) {
    for (uint64_t i = 0; i < granules; ++i) {
      size_t bytes = 0;
      if (memory->GetAddressRange(nullptr, &bytes, memory.At(base, i)).ok()) {
        memory.Unmap(memory.At(base, i), bytes / kMemoryGranule);
      }
    }
    for (const PhysicalHandle handle : handles) memory.Release(handle);
    EXPECT_EQ(memory->live_mappings(), 0u);
    EXPECT_EQ(memory->live_handles(), 0u);
    EXPECT_EQ(memory.FreeGranules(), kMemoryGranules);
    EXPECT_TRUE(memory->Unreserve(base, granules * kMemoryGranule).ok());
  }

  const int64_t kernel_mappings_ = cpu::KernelMappingBudget::OfProcess().used();
  void TearDown() override {
    EXPECT_EQ(cpu::KernelMappingBudget::OfProcess().used(), kernel_mappings_);
  }
};

TEST_P(DefectsTest, AccessCheckDropped) {
  TestMemory memory(GetParam(), With(CpuDefect::kAccessCheckDropped));
  const DevicePtr base = memory.Reserve(1);
  EXPECT_TRUE(memory.Permits(0, base, 1, true));
  EXPECT_TRUE(memory.Permits(0, 64, 1, true));
}

TEST_P(DefectsTest, SubRangeUnmapAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kSubRangeUnmapAllowed));
  const DevicePtr base = memory.Reserve(8);
  const PhysicalHandle handle = memory.Create(8);
  memory.Map(base, handle, 8);
  memory.SetAccess(base, 8);
  Fill(memory.At(base, 5), 7);
  memory.Unmap(base);
  memory.Unmap(memory.At(base, 3), 2);
  memory.Unmap(memory.At(base, 7));
  EXPECT_EQ(memory->live_mappings(), 2u);
  EXPECT_TRUE(memory.Permits(0, memory.At(base, 1), 2 * kMemoryGranule, true));
  EXPECT_FALSE(memory.Permits(0, memory.At(base, 3), 1, true));
  EXPECT_TRUE(Holds(memory.At(base, 5), 7));
  memory.SetAccess(memory.At(base, 5), 2, 0, kNone);
  memory.SetAccess(memory.At(base, 5), 2);
  EXPECT_TRUE(Holds(memory.At(base, 5), 7));
  EXPECT_EQ(memory.TryUnmap(memory.At(base, 2), 2), kInvalid);
  ExpectNothingLeft(memory, base, 8, {handle});
}

TEST_P(DefectsTest, MapOverMappedAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kMapOverMappedAllowed));
  const DevicePtr base = memory.Reserve(6);
  const PhysicalHandle three = memory.Create(3);
  const PhysicalHandle two = memory.Create(2);
  memory.Map(base, three, 3);
  memory.Map(memory.At(base, 4), two, 2);
  memory.SetAccess(base, 3);
  memory.SetAccess(memory.At(base, 4), 2);
  Fill(base, 3);
  const PhysicalHandle over = memory.Create(3);
  memory.Map(memory.At(base, 2), over, 3);
  EXPECT_EQ(memory.GetAccess(memory.At(base, 2), Device(0)), kNone);
  memory.SetAccess(memory.At(base, 2), 3);
  EXPECT_TRUE(Holds(base, 3));
  EXPECT_TRUE(memory.Permits(0, base, 6 * kMemoryGranule, true));
  EXPECT_EQ(memory->live_mappings(), 3u);
  ExpectNothingLeft(memory, base, 6, {three, two, over});
}

TEST_P(DefectsTest, PartialMapAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kPartialMapAllowed));
  const DevicePtr base = memory.Reserve(4);
  const PhysicalHandle handle = memory.Create(3);
  EXPECT_EQ(memory.TryMap(base, handle, 4), kInvalid);
  memory.Map(base, handle, 2);
  memory.SetAccess(base, 2);
  EXPECT_TRUE(memory.Permits(0, base, 2 * kMemoryGranule, true));
  ExpectNothingLeft(memory, base, 4, {handle});
}

TEST_P(DefectsTest, HoleInSetAccessAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kHoleInSetAccessAllowed));
  const DevicePtr base = memory.Reserve(5);
  const PhysicalHandle handle = memory.Create();
  memory.Map(memory.At(base, 1), handle);
  memory.Map(memory.At(base, 3), handle);
  memory.SetAccess(base, 5);
  EXPECT_EQ(memory.GetAccess(memory.At(base, 1), Device(0)), kReadWrite);
  EXPECT_EQ(memory.GetAccess(memory.At(base, 3), Device(0)), kReadWrite);
  EXPECT_FALSE(memory.Permits(0, base, 1, true));
  // What is mapped later has no access yet.
  memory.Map(base, handle);
  EXPECT_EQ(memory.GetAccess(base, Device(0)), kNone);
  ExpectNothingLeft(memory, base, 5, {handle});
}

TEST_P(DefectsTest, AccessSurvivesRemap) {
  TestMemory memory(GetParam(), With(CpuDefect::kAccessSurvivesRemap));
  const DevicePtr base = memory.Reserve(2);
  const PhysicalHandle handle = memory.Create(2);
  memory.Map(base, handle, 2);
  EXPECT_EQ(memory.GetAccess(base, Device(0)), kNone);
  memory.SetAccess(base, 2);
  Fill(memory.At(base, 1), 5);
  memory.Unmap(base, 2);
  EXPECT_FALSE(memory.Permits(0, base, 1, true));
  memory.Map(base, handle, 2);
  EXPECT_TRUE(memory.Permits(0, base, 2 * kMemoryGranule, true));
  EXPECT_TRUE(Holds(memory.At(base, 1), 5));
  ExpectNothingLeft(memory, base, 2, {handle});
}

TEST_P(DefectsTest, PeerForgotten) {
  TestMemory memory(GetParam(), With(CpuDefect::kPeerForgotten));
  const DevicePtr base = memory.Reserve(1);
  const PhysicalHandle handle = memory.Create();
  memory.Map(base, handle);
  EXPECT_EQ(memory.TrySetAccess(
                base, 1, {{Device(0), kReadWrite}, {Device(1), kReadWrite}}),
            kOk);
  EXPECT_EQ(memory.GetAccess(base, Device(0)), kReadWrite);
  EXPECT_EQ(memory.GetAccess(base, Device(1)), kNone);
  ExpectNothingLeft(memory, base, 1, {handle});
}

TEST_P(DefectsTest, FreeWhileMappedAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kFreeWhileMappedAllowed));
  const DevicePtr base = memory.Reserve(3);
  const PhysicalHandle handle = memory.Create();
  memory.Map(base, handle);
  memory.Map(memory.At(base, 2), handle);
  memory.SetAccess(base);
  memory.Release(handle);
  EXPECT_TRUE(memory->Unreserve(base, 3 * kMemoryGranule).ok());
  EXPECT_EQ(memory->live_mappings(), 0u);
  EXPECT_EQ(memory.FreeGranules(), kMemoryGranules);
}

TEST_P(DefectsTest, ReleaseFreesWhileMapped) {
  TestMemory memory(GetParam(), With(CpuDefect::kReleaseFreesWhileMapped));
  const DevicePtr base = memory.Reserve(1);
  const PhysicalHandle handle = memory.Create();
  memory.Map(base, handle);
  memory.SetAccess(base);
  Fill(base, 5);
  memory.Release(handle);
  EXPECT_TRUE(Holds(base, 0));
  EXPECT_EQ(memory.FreeGranules(), kMemoryGranules);
  EXPECT_EQ(memory.TryCreate(PropAt(Device(0)), kMemoryGranules), kOk);
  EXPECT_EQ(memory.FreeGranules(), 0u);
  memory.Unmap(base);
  EXPECT_EQ(memory.FreeGranules(), 0u);
  EXPECT_EQ(memory->live_handles(), 1u);
}

TEST_P(DefectsTest, RetainAddsNoReference) {
  TestMemory memory(GetParam(), With(CpuDefect::kRetainAddsNoReference));
  const DevicePtr base = memory.Reserve(1);
  const PhysicalHandle handle = memory.Create();
  memory.Map(base, handle);
  PhysicalHandle retained = 0;
  ASSERT_TRUE(memory->Retain(&retained, base).ok());
  EXPECT_EQ(retained, handle);
  memory.Release(retained);
  EXPECT_EQ(memory->Release(handle).result, kInvalid);
  ASSERT_TRUE(memory->Retain(&retained, base).ok());
  EXPECT_EQ(memory->Release(retained).result, kInvalid);
  ExpectNothingLeft(memory, base, 1, {});
}

TEST_P(DefectsTest, ExportOfPrivateAllowed) {
  TestMemory memory(GetParam(), With(CpuDefect::kExportOfPrivateAllowed));
  PhysicalHandle handle = 0;
  const DevicePtr base = memory.NewMemory(PropAt(Device(0)), &handle);
  Fill(base, 5);
  const int file = memory.Export(handle);
  TestMemory other(GetParam());
  const DevicePtr there = other.Reserve(1);
  other.Map(there, other.Import(file));
  other.SetAccess(there);
  EXPECT_TRUE(Holds(there, 5));
  close(file);
}

TEST_P(DefectsTest, ImportSurvivesNothing) {
  TestMemory memory(GetParam(), With(CpuDefect::kImportSurvivesNothing));
  PhysicalHandle handle = 0;
  const DevicePtr base = memory.NewMemory(ShareablePropAt(Device(0)), &handle);
  Fill(base, 5);
  const int file = memory.Export(handle);
  TestMemory other(GetParam());
  const DevicePtr there = other.Reserve(1);
  other.Map(there, other.Import(file));
  other.SetAccess(there);
  const PhysicalHandle imported = memory.Import(file);
  EXPECT_TRUE(Holds(there, 5));
  memory.Release(handle);
  EXPECT_TRUE(Holds(there, 0));
  EXPECT_TRUE(Holds(base, 0));
  EXPECT_EQ(memory.FreeGranules(), kMemoryGranules);
  memory.Unmap(base);
  memory.Release(imported);
  close(file);
  EXPECT_EQ(memory.FreeGranules(), kMemoryGranules);
  EXPECT_EQ(memory->live_handles(), 0u);
}

TEST_P(DefectsTest, ImportSurvivesNothingSparesWhatWasNotExported) {
  TestMemory memory(GetParam(), With(CpuDefect::kImportSurvivesNothing));
  PhysicalHandle handle = 0;
  const DevicePtr base = memory.NewMemory(ShareablePropAt(Device(0)), &handle);
  Fill(base, 5);
  memory.Release(handle);
  EXPECT_TRUE(Holds(base, 5));
  EXPECT_EQ(memory.FreeGranules(), kMemoryGranules - 1);
}

INSTANTIATE_TEST_SUITE_P(Storages, DefectsTest, ::testing::Bool(), MemoryKind);

}  // namespace
}  // namespace firn::cpu_testing
