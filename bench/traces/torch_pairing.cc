// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/traces/torch_pairing.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace firn::bench {
namespace {

// Beyond this the memory for the edit script passes 20 MiB.
constexpr size_t kMostDifferences = 2048;

std::vector<uint64_t> SizesOf(const TorchProgram& program) {
  std::vector<uint64_t> sizes;
  sizes.reserve(program.blocks.size());
  for (const TorchBlock& block : program.blocks) sizes.push_back(block.bytes);
  return sizes;
}

// The search for the shortest edit script. A point is (x, y): x allocations of
// `own` and y of `pair` are dealt with; it lies on diagonal x - y.
class EditScript {
 public:
  EditScript(const TorchLengths& lengths, absl::Span<const uint64_t> own,
             absl::Span<const uint64_t> pair)
      : lengths_(lengths),
        own_(own),
        pair_(pair),
        own_count_(static_cast<int64_t>(own.size())),
        pair_count_(static_cast<int64_t>(pair.size())) {}

  // Whether the end is reached with at most `most` differences.
  bool Search(int64_t most) {
    for (int64_t d = 0; d <= most; ++d) {
      std::vector<int64_t> reached;  // x on the diagonals -d, -d + 2 ... d
      reached.reserve(static_cast<size_t>(d) + 1);
      for (int64_t diagonal = -d; diagonal <= d; diagonal += 2) {
        reached.push_back(AlongMatches(Start(d, diagonal), diagonal));
      }
      reached_.push_back(std::move(reached));
      if (End() >= -d && End() <= d && (End() + d) % 2 == 0 &&
          Reached(d, End()) >= own_count_) {
        return true;
      }
    }
    return false;
  }

  // After a successful search.
  std::vector<size_t> Counterparts() const {
    std::vector<size_t> counterparts(own_.size(), kNoCounterpart);
    int64_t diagonal = End();
    int64_t x = own_count_;
    for (int64_t d = static_cast<int64_t>(reached_.size()) - 1; d >= 0; --d) {
      const int64_t start = Start(d, diagonal);
      for (; x > start; --x) {
        counterparts[static_cast<size_t>(x - 1)] =
            static_cast<size_t>(x - 1 - diagonal);
      }
      if (d == 0) break;
      const bool skips_own = SkipsOwn(d, diagonal);
      x = skips_own ? start - 1 : start;
      diagonal += skips_own ? -1 : 1;
    }
    return counterparts;
  }

 private:
  int64_t End() const { return own_count_ - pair_count_; }

  int64_t Reached(int64_t d, int64_t diagonal) const {
    return reached_[static_cast<size_t>(d)]
                   [static_cast<size_t>((diagonal + d) / 2)];
  }

  // Whether the d-th difference on the way to `diagonal` leaves out one of
  // `own` rather than one of `pair`.
  bool SkipsOwn(int64_t d, int64_t diagonal) const {
    if (diagonal == -d) return false;
    return diagonal == d ||
           Reached(d - 1, diagonal - 1) >= Reached(d - 1, diagonal + 1);
  }

  // Where the d-th difference enters `diagonal`.
  int64_t Start(int64_t d, int64_t diagonal) const {
    if (d == 0) return 0;
    return SkipsOwn(d, diagonal) ? Reached(d - 1, diagonal - 1) + 1
                                 : Reached(d - 1, diagonal + 1);
  }

  int64_t AlongMatches(int64_t x, int64_t diagonal) const {
    while (x < own_count_ && x - diagonal < pair_count_ &&
           AreCounterparts(lengths_, own_[static_cast<size_t>(x)],
                           pair_[static_cast<size_t>(x - diagonal)])) {
      ++x;
    }
    return x;
  }

  const TorchLengths lengths_;
  const absl::Span<const uint64_t> own_;
  const absl::Span<const uint64_t> pair_;
  const int64_t own_count_;
  const int64_t pair_count_;
  std::vector<std::vector<int64_t>> reached_;  // by number of differences
};

// Pairs up what gaps of equal length on both sides hold.
void FillEqualGaps(size_t pair_count, std::vector<size_t>* counterparts) {
  size_t own_gap = 0;  // first of `own` after the last match
  size_t pair_gap = 0;
  for (size_t i = 0; i <= counterparts->size(); ++i) {
    const bool at_end = i == counterparts->size();
    if (!at_end && (*counterparts)[i] == kNoCounterpart) continue;
    const size_t match = at_end ? pair_count : (*counterparts)[i];
    if (match - pair_gap == i - own_gap) {
      for (; own_gap < i; ++own_gap) (*counterparts)[own_gap] = pair_gap++;
    }
    own_gap = i + 1;
    pair_gap = match + 1;
  }
}

}  // namespace

absl::StatusOr<std::vector<size_t>> AlignAllocations(
    const TorchLengths& lengths, absl::Span<const uint64_t> own,
    absl::Span<const uint64_t> pair, size_t most_differences) {
  EditScript script(lengths, own, pair);
  if (!script.Search(static_cast<int64_t>(most_differences))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sizes of their ", own.size(), " and ", pair.size(),
                     " allocations, in order, differ in more than ",
                     most_differences, " places"));
  }
  std::vector<size_t> counterparts = script.Counterparts();
  FillEqualGaps(pair.size(), &counterparts);
  return counterparts;
}

absl::StatusOr<std::vector<TorchSizeLaw>> PairPrograms(
    const TorchLengths& lengths, const TorchProgram& own,
    const TorchProgram& pair) {
  const std::vector<uint64_t> own_sizes = SizesOf(own);
  const std::vector<uint64_t> pair_sizes = SizesOf(pair);
  // A block that was replaced is two differences.
  const size_t most_differences = std::min(
      2 + (own_sizes.size() + pair_sizes.size()) / 10, kMostDifferences);
  absl::StatusOr<std::vector<size_t>> counterparts =
      AlignAllocations(lengths, own_sizes, pair_sizes, most_differences);
  if (!counterparts.ok()) return counterparts.status();
  std::vector<TorchSizeLaw> laws;
  laws.reserve(own_sizes.size());
  size_t unexplained = 0;
  for (size_t i = 0; i < own_sizes.size(); ++i) {
    const size_t counterpart = (*counterparts)[i];
    laws.push_back(
        counterpart == kNoCounterpart
            ? TorchSizeLaw(own_sizes[i])
            : TorchSizeLaw(lengths, own_sizes[i], pair_sizes[counterpart]));
    if (laws.back().form() == TorchSizeLaw::Form::kUnexplained) ++unexplained;
  }
  if (unexplained > std::max<size_t>(1, own_sizes.size() / 20)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "of ", own_sizes.size(), " allocations, ", unexplained,
        " have no counterpart whose size grows with the length, at most "
        "quadratically"));
  }
  return laws;
}

}  // namespace firn::bench
