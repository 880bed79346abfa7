// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_size_law.h"

#include <limits>

#include "gtest/gtest.h"

namespace firn::bench {
namespace {

using Form = TorchSizeLaw::Form;

constexpr TorchLengths kLengths = {1024, 512};

TEST(TorchSizeLawTest, EqualSizesAreState) {
  const TorchSizeLaw law(kLengths, 4096, 4096);
  EXPECT_EQ(law.form(), Form::kState);
  EXPECT_EQ(law.BytesAt(kLengths, 1), 4096u);
  EXPECT_EQ(law.BytesAt(kLengths, 100'000), 4096u);
}

TEST(TorchSizeLawTest, TwiceTheSizeAtTwiceTheLengthIsLinear) {
  const TorchSizeLaw law(kLengths, 8192, 4096);
  EXPECT_EQ(law.form(), Form::kLinear);
  EXPECT_EQ(law.BytesAt(kLengths, 256), 2048u);
  EXPECT_EQ(law.BytesAt(kLengths, 512), 4096u);
  EXPECT_EQ(law.BytesAt(kLengths, 640), 5120u);
  EXPECT_EQ(law.BytesAt(kLengths, 1024), 8192u);
  EXPECT_EQ(law.BytesAt(kLengths, 2048), 16384u);
}

TEST(TorchSizeLawTest, FourTimesTheSizeAtTwiceTheLengthIsQuadratic) {
  const TorchSizeLaw law(kLengths, 16384, 4096);
  EXPECT_EQ(law.form(), Form::kQuadratic);
  EXPECT_EQ(law.BytesAt(kLengths, 256), 1024u);
  EXPECT_EQ(law.BytesAt(kLengths, 512), 4096u);
  EXPECT_EQ(law.BytesAt(kLengths, 768), 9216u);
  EXPECT_EQ(law.BytesAt(kLengths, 2048), 65536u);
}

TEST(TorchSizeLawTest, SizesBetweenTwoFormsAreSumsOfThem) {
  // 1000 + 2 L.
  const TorchSizeLaw affine(kLengths, 3048, 2024);
  EXPECT_EQ(affine.form(), Form::kLinear);
  EXPECT_EQ(affine.BytesAt(kLengths, 256), 1512u);
  EXPECT_EQ(affine.BytesAt(kLengths, 2000), 5000u);
  // 3 L + L^2.
  const TorchSizeLaw mixed(kLengths, 3 * 1024 + 1024 * 1024,
                           3 * 512 + 512 * 512);
  EXPECT_EQ(mixed.form(), Form::kQuadratic);
  EXPECT_EQ(mixed.BytesAt(kLengths, 100), 10'300u);
  EXPECT_EQ(mixed.BytesAt(kLengths, 2000), 4'006'000u);
}

TEST(TorchSizeLawTest, SizesThatFallOrGrowFasterStayAsRecorded) {
  for (const uint64_t pair_bytes : {1u, 1000u, 4097u}) {
    const TorchSizeLaw law(kLengths, 4096, pair_bytes);
    EXPECT_EQ(law.form(),
              pair_bytes == 1000 ? Form::kQuadratic : Form::kUnexplained)
        << pair_bytes;
  }
  const TorchSizeLaw law(kLengths, 72191, 1);
  EXPECT_EQ(law.BytesAt(kLengths, 256), 72191u);
}

TEST(TorchSizeLawTest, RoundsToTheNearestByteAndNeverToNothing) {
  // 3 bytes at 1024 and 2 at 512: 1 + L / 512.
  const TorchSizeLaw law(kLengths, 3, 2);
  EXPECT_EQ(law.BytesAt(kLengths, 255), 1u);
  EXPECT_EQ(law.BytesAt(kLengths, 256), 2u);
  EXPECT_EQ(TorchSizeLaw(kLengths, 2, 1).BytesAt(kLengths, 1), 1u);
}

TEST(TorchSizeLawTest, TheOrderOfTheRecordingsDoesNotMatter) {
  const TorchLengths reversed = {512, 1024};
  for (const uint64_t length : {1u, 100u, 700u, 4096u}) {
    EXPECT_EQ(TorchSizeLaw(kLengths, 9000, 4000).BytesAt(kLengths, length),
              TorchSizeLaw(reversed, 4000, 9000).BytesAt(reversed, length));
  }
}

TEST(TorchSizeLawTest, HugeSizesAndLengthsEndAtTheGreatestNumber) {
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  const TorchLengths lengths = {1, 2};
  EXPECT_EQ(TorchSizeLaw(lengths, kHuge / 2, kHuge * 2)
                .BytesAt(lengths, TorchLengths::kMost),
            std::numeric_limits<uint64_t>::max());
}

TEST(TorchSizeLawTest, CounterpartsAreNearStateLinearOrQuadratic) {
  EXPECT_TRUE(AreCounterparts(kLengths, 4096, 4096));
  EXPECT_TRUE(AreCounterparts(kLengths, 8192, 4096));
  EXPECT_TRUE(AreCounterparts(kLengths, 16384, 4096));
  // A step from state to linear is 4096, from linear to quadratic 8192.
  EXPECT_TRUE(AreCounterparts(kLengths, 4096 + 409, 4096));
  EXPECT_FALSE(AreCounterparts(kLengths, 4096 + 410, 4096));
  EXPECT_TRUE(AreCounterparts(kLengths, 16384 - 819, 4096));
  EXPECT_FALSE(AreCounterparts(kLengths, 16384 - 820, 4096));
  EXPECT_FALSE(AreCounterparts(kLengths, 12000, 4096));
  EXPECT_FALSE(AreCounterparts(kLengths, 4096, 8192));
}

}  // namespace
}  // namespace firn::bench
