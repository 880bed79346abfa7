// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_program.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kNone = TorchOperation::kNoBlock;

// Entries a microsecond apart.
class Recording {
 public:
  Recording& Alloc(uint64_t address, uint64_t bytes) {
    return Add(true, address, bytes);
  }
  Recording& Free(uint64_t address, uint64_t bytes) {
    return Add(false, address, bytes);
  }
  TorchProgram Compile() const { return CompileTorchProgram(entries_); }

 private:
  Recording& Add(bool allocates, uint64_t address, uint64_t bytes) {
    const auto number = static_cast<uint32_t>(entries_.size());
    entries_.push_back({allocates, number, address, bytes, 0, number});
    return *this;
  }
  std::vector<TorchTraceEntry> entries_;
};

// The blocks that the unknown frees take, in order.
std::vector<uint32_t> Taken(const TorchProgram& program) {
  std::vector<uint32_t> taken;
  for (const TorchOperation& operation : program.operations) {
    if (operation.kind == TraceEventKind::kUnknownFree) {
      taken.push_back(operation.block);
    }
  }
  return taken;
}

TEST(TorchProgramTest, UnknownFreesTakeTheLastBlocksOfTheirSizeInOrder) {
  const TorchProgram program = Recording()
                                   .Free(101, 8)
                                   .Alloc(1, 8)
                                   .Alloc(2, 16)
                                   .Alloc(3, 8)
                                   .Free(102, 8)
                                   .Alloc(4, 8)
                                   .Compile();
  // Left alive: 0, 2 and 3 of 8 bytes, 1 of 16.
  EXPECT_THAT(program.left_alive, ElementsAre(0u, 1u, 2u, 3u));
  EXPECT_THAT(Taken(program), ElementsAre(2u, 3u));
  EXPECT_THAT(program.left_over, ElementsAre(0u, 1u));
}

TEST(TorchProgramTest, UnknownFreesBeyondWhatIsLeftAliveTakeNothing) {
  const TorchProgram program =
      Recording().Free(101, 8).Free(102, 8).Free(103, 24).Alloc(1, 8).Compile();
  EXPECT_THAT(Taken(program), ElementsAre(0u, kNone, kNone));
  EXPECT_THAT(program.left_over, IsEmpty());
}

TEST(TorchProgramTest, AnAllocationAtALiveAddressFreesFirst) {
  const TorchProgram program =
      Recording().Alloc(1, 8).Alloc(1, 16).Free(1, 16).Compile();
  ASSERT_EQ(program.operations.size(), 4u);
  EXPECT_EQ(program.operations[1].kind, TraceEventKind::kFree);
  EXPECT_EQ(program.operations[1].block, 0u);
  EXPECT_EQ(program.operations[1].offset_us, 1);
  EXPECT_EQ(program.operations[2].block, 1u);
  EXPECT_EQ(program.blocks[0].freed_by, 1u);
  EXPECT_EQ(program.blocks[1].freed_by, 3u);
  EXPECT_THAT(program.left_alive, IsEmpty());
}

TEST(TorchProgramTest, TheForwardPartEndsWhereMostPassingBytesAreLive) {
  // 500 is left alive, so it does not count; 8 + 4 + 2 is the most.
  const TorchProgram program = Recording()
                                   .Alloc(1, 8)
                                   .Alloc(2, 4)
                                   .Alloc(3, 2)
                                   .Free(3, 2)
                                   .Free(2, 4)
                                   .Alloc(4, 500)
                                   .Alloc(5, 6)
                                   .Free(5, 6)
                                   .Free(1, 8)
                                   .Compile();
  EXPECT_EQ(program.forward_operations, 3u);
  EXPECT_EQ(program.duration_us(), 8);
}

TEST(TorchProgramTest, WithoutPassingBlocksThereIsNoForwardPart) {
  EXPECT_EQ(Recording().Alloc(1, 8).Free(2, 8).Compile().forward_operations,
            0u);
}

}  // namespace
}  // namespace firn::bench
