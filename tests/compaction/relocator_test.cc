// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/compaction/relocator.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

using ::testing::HasSubstr;

constexpr size_t kWordsPerQuantum = kQuantumBytes / sizeof(uint32_t);
constexpr uint32_t kUnusedSeed = 50;

// Device copies that start late, when told to: a function that sleeps goes
// before each, and one that counts behind it. And a look at what happens when
// copies have been waited for.
class WatchedCopies : public DriverWrapper {
 public:
  // `device` takes the functions, uncounted.
  WatchedCopies(Driver* base, Driver* device)
      : DriverWrapper(base), device_(device) {}

  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    if (slow_) {
      device_->LaunchHostFunc(
          stream, [](void*) { absl::SleepFor(absl::Milliseconds(2)); },
          nullptr);
    }
    const DriverResult result =
        DriverWrapper::MemcpyDtoDAsync(dst, src, bytes, stream);
    if (result == DriverResult::kSuccess) {
      ++queued_;
      if (slow_) {
        device_->LaunchHostFunc(
            stream, [](void* done) { ++*static_cast<std::atomic<int>*>(done); },
            &done_);
      }
    }
    return result;
  }
  DriverResult EventSynchronize(EventHandle event) override {
    const DriverResult result = DriverWrapper::EventSynchronize(event);
    if (after_wait_) after_wait_();
    return result;
  }

  void set_slow(bool slow) { slow_ = slow; }
  void set_after_wait(std::function<void()> function) {
    after_wait_ = std::move(function);
  }
  int queued() const { return queued_; }
  int done() const { return done_; }

 private:
  Driver* const device_;
  bool slow_ = false;
  std::function<void()> after_wait_;
  int queued_ = 0;
  std::atomic<int> done_{0};
};

// Four virtual granules, all live in parts of their own: 0 on granule 0, 1 on
// granule 1, and 2 and 3 both on granule 2, the host.
class Scene {
 public:
  Scene() {
    FIRN_EXPECT_OK(
        memory_.table().Apply({MapTo(0, granule(0)), MapTo(1, granule(1)),
                               MapTo(2, granule(2)), MapTo(3, granule(2))}));
    memory_.Write(2, kUnusedSeed);
    for (uint32_t vg = 0; vg < 4; ++vg) Fill(vg);
    auto created =
        Relocator::Create(&copies_, &memory_.addresses(), &memory_.table());
    EXPECT_TRUE(created.ok()) << created.status();
    relocator_ = *std::move(created);
    faults().Reset();
  }

  MappedMemory& memory() { return memory_; }
  MappingTable& table() { return memory_.table(); }
  FaultingDriver& faults() { return memory_.faults(); }
  WatchedCopies& copies() { return copies_; }
  Relocator& relocator() { return *relocator_; }
  GranuleId granule(uint32_t index) const { return memory_.granule(index); }

  Relocation Move(uint32_t vg, uint32_t to, uint32_t through) const {
    Relocation move;
    move.vg = VgIndex(vg);
    move.to = granule(to);
    move.through = VgIndex(through);
    move.extents = extents_[vg];
    return move;
  }
  // Both sources into the host, through either of its addresses.
  std::vector<Relocation> BothMoves() const {
    return {Move(0, 2, 2), Move(1, 2, 3)};
  }

  // The live bytes of every virtual granule are what was written.
  void ExpectContents() {
    for (uint32_t vg = 0; vg < 4; ++vg) {
      const std::vector<uint32_t> words = memory_.Read(vg);
      const std::vector<uint32_t> expected = memory_.Pattern(vg);
      for (const OffsetInterval& extent : extents_[vg]) {
        for (size_t i = extent.lo * kWordsPerQuantum;
             i < extent.hi * kWordsPerQuantum; ++i) {
          ASSERT_EQ(words[i], expected[i]) << "word " << i << " of " << vg;
        }
      }
    }
  }
  void ExpectNothingMoved() {
    FIRN_EXPECT_OK(table().lost_status());
    FIRN_EXPECT_OK(table().CheckInvariants());
    EXPECT_EQ(table().granule(VgIndex(0)), granule(0));
    EXPECT_EQ(table().granule(VgIndex(1)), granule(1));
    EXPECT_EQ(table().granule(VgIndex(2)), granule(2));
    ExpectContents();
  }
  void ExpectBothMoved() {
    FIRN_EXPECT_OK(table().CheckInvariants());
    for (uint32_t vg = 0; vg < 4; ++vg) {
      EXPECT_EQ(table().granule(VgIndex(vg)), granule(2));
    }
    ExpectContents();
  }

 private:
  // Writes the extents of one virtual granule, and nothing else.
  void Fill(uint32_t vg) {
    const std::vector<uint32_t> words = memory_.Pattern(vg);
    for (const OffsetInterval& extent : extents_[vg]) {
      WriteWords(
          memory_.device(), memory_.AddressOf(vg) + QuantaToBytes(extent.lo),
          {words.begin() +
               static_cast<std::ptrdiff_t>(extent.lo * kWordsPerQuantum),
           words.begin() +
               static_cast<std::ptrdiff_t>(extent.hi * kWordsPerQuantum)});
    }
  }

  MappedMemory memory_{CpuStorage::kReal, /*granule_count=*/4, /*vg_count=*/8};
  const uint32_t end_ =
      static_cast<uint32_t>(memory_.granule_bytes() / kQuantumBytes);
  // Disjoint, interleaved, at both ends of the granule.
  const std::vector<std::vector<OffsetInterval>> extents_ = {
      {Extent(0, 10), Extent(20, 30), Extent(end_ - 1, end_)},
      {Extent(10, 11), Extent(60, 90)},
      {Extent(11, 20), Extent(100, end_ - 1)},
      {Extent(30, 60)},
  };
  WatchedCopies copies_{&memory_.faults(), memory_.device()};
  std::unique_ptr<Relocator> relocator_;
};

TEST(RelocatorTest, NoMovesMakeNoCalls) {
  Scene scene;
  FIRN_EXPECT_OK(scene.relocator().Relocate({}));
  EXPECT_EQ(scene.faults().calls(), 0u);
}

TEST(RelocatorTest, AMoveTakesLiveBytesAlongAndNoOthers) {
  Scene scene;
  FIRN_ASSERT_OK(scene.relocator().Relocate({scene.Move(0, 2, 2)}));
  EXPECT_EQ(scene.table().granule(VgIndex(0)), scene.granule(2));
  EXPECT_EQ(scene.table().granule(VgIndex(1)), scene.granule(1));
  FIRN_EXPECT_OK(scene.table().CheckInvariants());
  scene.ExpectContents();
}

TEST(RelocatorTest, SeveralVirtualGranulesMayMoveOntoOneHost) {
  Scene scene;
  const uint64_t generation = scene.table().generation(VgIndex(0));
  const uint64_t host_generation = scene.table().generation(VgIndex(2));
  FIRN_ASSERT_OK(scene.relocator().Relocate(scene.BothMoves()));
  scene.ExpectBothMoved();
  EXPECT_GT(scene.table().generation(VgIndex(0)), generation);
  EXPECT_EQ(scene.table().generation(VgIndex(2)), host_generation);
  // Bytes that belong to nobody are what they were: nobody's came along.
  EXPECT_EQ(scene.memory().Read(2)[95 * kWordsPerQuantum],
            scene.memory().Pattern(kUnusedSeed)[95 * kWordsPerQuantum]);
}

TEST(RelocatorTest, WritesAfterAMoveReachTheHost) {
  Scene scene;
  FIRN_ASSERT_OK(scene.relocator().Relocate(scene.BothMoves()));
  WriteWords(scene.memory().device(), scene.memory().AddressOf(0), {1, 2, 3});
  EXPECT_EQ(scene.memory().Read(3)[2], 3u);
}

TEST(RelocatorTest, AMoveWithoutLiveBytesIsARemap) {
  Scene scene;
  Relocation move = scene.Move(0, 3, 2);
  move.extents = {};
  FIRN_ASSERT_OK(scene.relocator().Relocate({move}));
  EXPECT_EQ(scene.copies().queued(), 0);
  EXPECT_EQ(scene.table().granule(VgIndex(0)), scene.granule(3));
  FIRN_EXPECT_OK(scene.table().CheckInvariants());
}

TEST(RelocatorTest, RemapsOnlyWhenTheCopiesAreDone) {
  Scene scene;
  scene.copies().set_slow(true);
  FIRN_ASSERT_OK(scene.relocator().Relocate(scene.BothMoves()));
  EXPECT_EQ(scene.copies().queued(), 5);
  EXPECT_EQ(scene.copies().done(), 5);
  scene.ExpectBothMoved();
}

// Work of the default stream, or what waits for it, must not hold up the
// copies. (The remap after them may have to wait for it, if the driver does.)
TEST(RelocatorTest, CopiesDoNotWaitForTheDefaultStream) {
  struct {
    std::atomic<bool> go{false};
    std::atomic<bool> ended{false};
  } held;
  Scene scene;
  ASSERT_EQ(scene.memory().device()->LaunchHostFunc(
                nullptr,
                [](void* data) {
                  auto* const work = static_cast<decltype(held)*>(data);
                  const absl::Time deadline = absl::Now() + absl::Seconds(10);
                  while (!work->go && absl::Now() < deadline) {
                    absl::SleepFor(absl::Milliseconds(1));
                  }
                  work->ended = true;
                },
                &held),
            DriverResult::kSuccess);
  bool ended_before_the_copies = true;
  scene.copies().set_after_wait([&] {
    ended_before_the_copies = held.ended;
    held.go = true;
  });
  FIRN_EXPECT_OK(scene.relocator().Relocate(scene.BothMoves()));
  EXPECT_FALSE(ended_before_the_copies);
  held.go = true;
  ASSERT_EQ(scene.memory().device()->CtxSynchronize(), DriverResult::kSuccess);
  scene.ExpectBothMoved();
}

TEST(RelocatorTest, WhicheverCallFailsNothingMovesAndARetrySucceeds) {
  uint64_t calls = 0;
  {
    Scene scene;
    FIRN_ASSERT_OK(scene.relocator().Relocate(scene.BothMoves()));
    calls = scene.faults().calls();
  }
  // 5 copies, record and wait, 1 run to unmap, 2 to map, 1 to give access; and
  // the access of 2 mappings, where it is verified.
  ASSERT_EQ(calls, MappingTableOptions().verify_access ? 13u : 11u);
  for (uint64_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    Scene scene;
    scene.copies().set_slow(true);
    scene.faults().FailNth(n, DriverResult::kUnknown);
    EXPECT_THAT(
        scene.relocator().Relocate(scene.BothMoves()),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("CUDA_ERROR_UNKNOWN")));
    // The host may be given away now: nothing may still be writing to it.
    EXPECT_EQ(scene.copies().done(), scene.copies().queued());
    scene.copies().set_slow(false);
    scene.ExpectNothingMoved();
    FIRN_ASSERT_OK(scene.relocator().Relocate(scene.BothMoves()));
    scene.ExpectBothMoved();
  }
}

TEST(RelocatorTest, TheStatusNamesTheCallThatFailed) {
  const std::vector<std::pair<DriverCall, const char*>> calls = {
      {DriverCall::kMemcpyDtoDAsync, "cuMemcpyDtoDAsync"},
      {DriverCall::kEventRecord, "cuEventRecord"},
      {DriverCall::kEventSynchronize, "cuEventSynchronize"},
      {DriverCall::kMemUnmap, "cuMemUnmap"},
  };
  for (const auto& [call, name] : calls) {
    Scene scene;
    scene.faults().FailNthOf(call, 0, DriverResult::kUnknown);
    EXPECT_THAT(scene.relocator().Relocate(scene.BothMoves()),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(name)));
  }
}

TEST(RelocatorTest, ADeviceThatIsLostIsReportedAsSuch) {
  Scene scene;
  scene.faults().FailFrom(0, DriverResult::kIllegalAddress);
  EXPECT_THAT(scene.relocator().Relocate(scene.BothMoves()),
              StatusIs(absl::StatusCode::kDataLoss));
  scene.faults().Reset();
}

TEST(RelocatorTest, CreateFailsCleanlyWhenStreamOrEventIsRefused) {
  MappedMemory memory(CpuStorage::kGhost, 1, 1);
  memory.faults().Reset();
  memory.faults().FailNthOf(DriverCall::kStreamCreate, 0,
                            DriverResult::kOutOfMemory);
  EXPECT_THAT(
      Relocator::Create(&memory.faults(), &memory.addresses(), &memory.table()),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("cuStreamCreate")));
  EXPECT_EQ(memory.faults().calls(), 1u);
  memory.faults().Reset();
  memory.faults().FailNthOf(DriverCall::kEventCreate, 0,
                            DriverResult::kOutOfMemory);
  EXPECT_THAT(
      Relocator::Create(&memory.faults(), &memory.addresses(), &memory.table()),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("cuEventCreate")));
  // The stream was destroyed again.
  EXPECT_EQ(memory.faults().calls(), 3u);
}

}  // namespace
}  // namespace firn::testing
