// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// That the property test would notice: pools on drivers that are wrong, and
// what is printed of a sequence that fails.

#include "tests/core/property/sequence.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "firn/vmm/driver_wrapper.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/property/printing.h"
#include "tests/support/filled_blocks.h"

namespace firn::testing::property {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Copies the first half only.
class HalfCopies : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult MemcpyDtoDAsync(DevicePtr dst, DevicePtr src, size_t bytes,
                               StreamHandle stream) override {
    return DriverWrapper::MemcpyDtoDAsync(dst, src, bytes / 2, stream);
  }
};

// Gives nothing back.
class Keeper : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult MemRelease(PhysicalHandle /*handle*/) override {
    return DriverResult::kSuccess;
  }
};

// Fills nothing.
class NoFills : public DriverWrapper {
 public:
  using DriverWrapper::DriverWrapper;
  DriverResult MemsetD8Async(DevicePtr /*dst*/, uint8_t /*value*/,
                             size_t /*bytes*/,
                             StreamHandle /*stream*/) override {
    return DriverResult::kSuccess;
  }
};

// The failure of some sequence on a pool whose driver is `Wrong`.
template <typename Wrong>
std::string FailureWith() {
  SeededChoices choices(7);
  for (int i = 0; i < 30; ++i) {
    const Setting setting =
        DrawSetting(CpuStorage::kReal, CpuSync::kLazy, choices);
    State state(setting,
                [](Driver* base) { return std::make_unique<Wrong>(base); });
    const Outcome outcome = RunSequence(
        &state, DrawOperations(choices, setting, 200), /*check_every=*/1);
    if (!outcome.failure.empty()) return outcome.failure;
  }
  return "";
}

TEST(SequenceTest, BytesThatAreNotCopiedAreNoticed) {
  EXPECT_THAT(FailureWith<HalfCopies>(), HasSubstr("not what was written"));
}

TEST(SequenceTest, MemoryThatIsNotGivenBackIsNoticed) {
  // In the end, unless the device is full before.
  EXPECT_THAT(FailureWith<Keeper>(), AnyOf(HasSubstr("bytes less than before"),
                                           HasSubstr("there is room")));
}

TEST(SequenceTest, MemoryThatIsNotZeroedForOthersIsNoticed) {
  EXPECT_THAT(FailureWith<NoFills>(),
              AnyOf(HasSubstr("shows contents of"), HasSubstr("is not zero")));
}

TEST(SequenceTest, ASettingThatMakesNoPoolFailsAtOnce) {
  Setting setting;
  setting.address_space_factor = 1;
  const Outcome outcome = RunSequence(setting, {Trim{}}, /*check_every=*/1);
  EXPECT_THAT(outcome.failure, HasSubstr("address_space_factor"));
  EXPECT_EQ(outcome.performed, 0u);
}

TEST(SequenceTest, ASingleChangedByteIsDamage) {
  std::vector<char> bytes(1001);
  FilledBlock block;
  block.ptr = bytes.data();
  block.bytes = bytes.size();
  block.seed = 3;
  Fill(block);
  DamageReport damage;
  damage.Check(block);
  EXPECT_EQ(damage.text(), "");
  bytes[1000] ^= 1;
  damage.Check(block);
  EXPECT_THAT(damage.text(), HasSubstr("1 of the 1001 bytes"));
  EXPECT_THAT(damage.text(), HasSubstr("from byte 1000 on"));
}

TEST(SequenceTest, BlocksThatOverlapAreRefused) {
  char memory[64];
  Shadow shadow;
  const auto block = [&](size_t begin, size_t end) {
    LiveBlock result;
    result.content.ptr = memory + begin;
    result.content.bytes = end - begin;
    return result;
  };
  EXPECT_TRUE(shadow.Add(block(16, 32)).ok());
  EXPECT_FALSE(shadow.Add(block(0, 17)).ok());
  EXPECT_FALSE(shadow.Add(block(31, 40)).ok());
  EXPECT_FALSE(shadow.Add(block(20, 21)).ok());
  EXPECT_FALSE(shadow.Add(block(0, 64)).ok());
  EXPECT_TRUE(shadow.Add(block(0, 16)).ok());
  EXPECT_TRUE(shadow.Add(block(32, 64)).ok());
  EXPECT_EQ(shadow.expected().live_bytes, 64u);
  shadow.Remove(0);
  EXPECT_EQ(shadow.Find(memory + 16), nullptr);
  EXPECT_EQ(shadow.Find(memory + 32)->content.bytes, 32u);
  EXPECT_TRUE(shadow.Add(block(16, 32)).ok());
}

TEST(SequenceTest, ShrinkingLeavesWhatAFailureNeeds) {
  SeededChoices choices(1);
  std::vector<Operation> operations =
      DrawOperations(choices, Setting(), /*count=*/300);
  operations[100] = Exhaust{.bytes = 77, .stream = 1, .most = 2};
  operations[200] = Trim{.keep_bytes = 55};
  const std::vector<Operation> shrunk = Shrink(
      operations,
      [](const std::vector<Operation>& tried) {
        bool is_exhausted = false;
        for (const Operation& operation : tried) {
          const std::string code = ToCode(operation);
          if (code ==
              "Exhaust{.bytes = 77, .stream = 1, .most = 2, .domain = 0}") {
            is_exhausted = true;
          } else if (code == "Trim{.keep_bytes = 55}" && is_exhausted) {
            return true;
          }
        }
        return false;
      },
      absl::InfiniteDuration());
  ASSERT_THAT(shrunk, SizeIs(2));
  EXPECT_THAT(
      Describe(Setting(), shrunk, Outcome()),
      HasSubstr("{Exhaust{.bytes = 77, .stream = 1, .most = 2, .domain = 0},\n"
                "       Trim{.keep_bytes = 55}});"));
}

TEST(SequenceTest, EveryOperationPrintsAsCode) {
  EXPECT_EQ(
      ToCode(Operation(FreeWrongly{.mistake = FreeWrongly::Mistake::kInterior,
                                   .block = 7,
                                   .offset_bytes = uint64_t{1} << 40})),
      "FreeWrongly{.mistake = FreeWrongly::Mistake::kInterior, "
      ".block = 7, .offset_bytes = 1099511627776u}");
  EXPECT_EQ(ToCode(Operation(PrintStats{})), "PrintStats{}");
  EXPECT_EQ(ToCode(Operation(FailCall{.calls_before = 2,
                                      .result = DriverResult::kOutOfMemory})),
            "FailCall{.calls_before = 2, .result = "
            "DriverResult::kOutOfMemory}");
  EXPECT_EQ(ToCode(Operation(AddHook{.veto_every = 3,
                                     .meddling = AddHook::Meddling::kFree,
                                     .bytes = 512,
                                     .block = 1})),
            "AddHook{.veto_every = 3, .meddling = AddHook::Meddling::kFree, "
            ".bytes = 512, .block = 1}");
  EXPECT_EQ(ToCode(Operation(GiveUpPin{.pin = 4})), "GiveUpPin{.pin = 4}");
  Allocate allocate;
  allocate.bytes = 1000;
  allocate.domain = 2;
  allocate.memory_class = MemoryClass::kPinned;
  allocate.lifetime = Lifetime::kLong;
  EXPECT_EQ(ToCode(Operation(allocate)),
            "Allocate{.bytes = 1000, .alignment_bytes = 512, .stream = 0, "
            ".tag = 0, .domain = 2, .memory_class = MemoryClass::kPinned, "
            ".lifetime = Lifetime::kLong}");
}

TEST(SequenceTest, TheSameSeedDrawsTheSameSequence) {
  const auto draw = [](uint64_t seed) {
    SeededChoices choices(seed);
    std::string text;
    const Setting setting =
        DrawSetting(CpuStorage::kGhost, CpuSync::kLazy, choices);
    for (const Operation& operation : DrawOperations(choices, setting, 200)) {
      text += ToCode(operation);
    }
    return text;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

}  // namespace
}  // namespace firn::testing::property
