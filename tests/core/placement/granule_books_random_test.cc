// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Random work on granule books, compared after every step with a model that
// keeps each virtual granule by itself and looks at every quantum.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "firn/core/placement/granule_books.h"
#include "firn/vmm/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unit_values.h"

namespace firn::testing {
namespace {

constexpr uint32_t kQuanta = 128;
constexpr uint32_t kGranules = 6;
constexpr uint32_t kMaxMappings = 5;
constexpr uint32_t kVgs = 40;

struct ModelVg {
  uint32_t granule = 0;
  VgRole role = VgRole::kSpare;
  OffsetInterval window;
  uint32_t owner = 0;
  std::vector<OffsetInterval> live;
};

using Bits = std::vector<bool>;

bool AnyIn(const Bits& bits, OffsetInterval interval) {
  const auto last = bits.begin() + interval.hi;
  return std::find(bits.begin() + interval.lo, last, true) != last;
}

// The truth about all virtual granules.
class State {
 public:
  std::map<uint32_t, ModelVg> vgs;  // those that are mapped

  // Virtual granules of `granule` with one of these roles.
  uint32_t Count(uint32_t granule, std::set<VgRole> roles) const {
    return static_cast<uint32_t>(
        std::count_if(vgs.begin(), vgs.end(), [&](const auto& entry) {
          return entry.second.granule == granule &&
                 roles.count(entry.second.role) > 0;
        }));
  }
  uint32_t Mappings(uint32_t granule) const {
    return Count(granule, {VgRole::kSpare, VgRole::kEmptyRun, VgRole::kWindow,
                           VgRole::kRemainder, VgRole::kInterior});
  }
  uint32_t Spares(uint32_t granule) const {
    return Count(granule, {VgRole::kSpare});
  }
  bool HasInterior(uint32_t granule) const {
    return Count(granule, {VgRole::kInterior}) > 0;
  }
  bool HasEmptyRun(uint32_t granule) const {
    return Count(granule, {VgRole::kEmptyRun}) > 0;
  }
  bool IsEmpty(uint32_t granule) const {
    return Mappings(granule) > 0 && Mappings(granule) == Spares(granule);
  }
  bool IsPartial(uint32_t granule) const {
    return LiveQuanta(granule) > 0 && !HasInterior(granule);
  }
  bool CanMap(uint32_t granule) const {
    return Mappings(granule) < kMaxMappings;
  }
  Bits Live(uint32_t granule) const {
    Bits bits(kQuanta, false);
    for (const auto& [index, vg] : vgs) {
      if (vg.granule != granule) continue;
      for (const OffsetInterval& extent : vg.live) Set(extent, &bits);
    }
    return bits;
  }
  Bits Reserved(uint32_t granule) const {
    Bits bits(kQuanta, false);
    for (const auto& [index, vg] : vgs) {
      if (vg.granule == granule) Set(vg.window, &bits);
    }
    return bits;
  }
  uint32_t LiveQuanta(uint32_t granule) const {
    const Bits live = Live(granule);
    return static_cast<uint32_t>(std::count(live.begin(), live.end(), true));
  }
  uint32_t LargestGap(uint32_t granule) const {
    if (!IsPartial(granule)) return 0;
    uint32_t largest = 0;
    uint32_t run = 0;
    for (const bool reserved : Reserved(granule)) {
      run = reserved ? 0 : run + 1;
      largest = std::max(largest, run);
    }
    return largest;
  }
  // Whether `bits` has a clear interval at a multiple of the alignment.
  static bool HasRoom(const Bits& bits, uint32_t quanta, uint32_t alignment) {
    for (uint32_t lo = 0; lo + quanta <= kQuanta; lo += alignment) {
      if (!AnyIn(bits, Extent(lo, lo + quanta))) return true;
    }
    return false;
  }

 private:
  static void Set(OffsetInterval interval, Bits* bits) {
    std::fill(bits->begin() + interval.lo, bits->begin() + interval.hi, true);
  }
};

class Harness {
 public:
  explicit Harness(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Below(12)) {
      case 0:
        AttachSomewhere();
        break;
      case 1:
      case 2:
      case 3:
        PlaceWindow();
        break;
      case 4:
      case 5:
        AddLive();
        break;
      case 6:
      case 7:
        RemoveLive();
        break;
      case 8:
        MoveWindow();
        break;
      case 9:
        ToggleInterior();
        break;
      case 10:
        ToggleEmptyRun();
        break;
      case 11:
        Detach();
        break;
    }
  }

  void Check() {
    FIRN_ASSERT_OK(books_.CheckInvariants());
    CheckVgs();
    CheckGranules();
    CheckSearches();
  }

 private:
  // Some virtual granule with one of these roles; none if there is none.
  VgIndex Pick(std::set<VgRole> roles) {
    std::vector<uint32_t> candidates;
    for (const auto& [index, vg] : state_.vgs) {
      if (roles.count(vg.role) > 0) candidates.push_back(index);
    }
    if (candidates.empty()) return VgIndex();
    return VgIndex(
        candidates[random_.Below(static_cast<uint32_t>(candidates.size()))]);
  }
  ModelVg& At(VgIndex vg) { return state_.vgs.at(vg.value()); }

  VgIndex Attach(uint32_t granule) {
    uint32_t index = random_.Below(kVgs);
    while (state_.vgs.count(index) > 0) index = (index + 1) % kVgs;
    state_.vgs[index].granule = granule;
    books_.Attach(VgIndex(index), GranuleId(granule), false);
    return VgIndex(index);
  }
  void AttachSomewhere() {
    const uint32_t granule = random_.Below(kGranules);
    if (state_.CanMap(granule) && !state_.HasInterior(granule) &&
        !state_.HasEmptyRun(granule)) {
      Attach(granule);
    }
  }

  OffsetInterval Within(OffsetInterval outer) {
    const uint32_t lo = random_.Between(outer.lo, outer.hi - 1);
    return Extent(lo, random_.Between(lo + 1, outer.hi));
  }
  void MakeLive(VgIndex vg, OffsetInterval extent) {
    At(vg).live.push_back(extent);
    books_.AddLive(GranuleId(At(vg).granule), extent);
  }

  // In the best gap, else on an empty granule.
  void PlaceWindow() {
    const uint32_t quanta = random_.Between(1, 40);
    const uint32_t alignment = 1u << random_.Below(6);
    const Gap gap = books_.FindGap(quanta, alignment);
    VgIndex vg;
    OffsetInterval window = gap.interval;
    if (!gap.granule.is_none()) {
      vg = books_.SpareOf(gap.granule);
      if (vg.is_none()) vg = Attach(gap.granule.value());
    } else if (!books_.empty_granules().empty()) {
      vg = books_.SpareOf(books_.empty_granules().back());
      window = Within(Extent(0, kQuanta));
    } else {
      return;
    }
    ModelVg& model = At(vg);
    ASSERT_EQ(model.role, VgRole::kSpare);
    model.role = random_.OneIn(3) ? VgRole::kRemainder : VgRole::kWindow;
    model.window = window;
    model.owner = random_.Below(1000);
    books_.Activate(vg, model.role, window, model.owner);
    MakeLive(vg, Within(window));
  }
  void AddLive() {
    const VgIndex vg = Pick({VgRole::kWindow, VgRole::kRemainder});
    if (vg.is_none()) return;
    const OffsetInterval extent = Within(At(vg).window);
    if (!AnyIn(state_.Live(At(vg).granule), extent)) MakeLive(vg, extent);
  }
  void RemoveLive() {
    const VgIndex vg = Pick({VgRole::kWindow, VgRole::kRemainder});
    if (vg.is_none()) return;
    ModelVg& model = At(vg);
    books_.RemoveLive(GranuleId(model.granule), model.live.back());
    model.live.pop_back();
    if (!model.live.empty()) return;
    books_.Deactivate(vg);
    BecomeSpare(&model);
  }
  void MoveWindow() {
    const VgIndex vg = Pick({VgRole::kWindow, VgRole::kRemainder});
    if (vg.is_none()) return;
    ModelVg& model = At(vg);
    const uint32_t to = random_.Below(kGranules);
    if (to == model.granule || !state_.IsPartial(to) || !state_.CanMap(to)) {
      return;
    }
    const Bits live = state_.Live(to);
    for (const OffsetInterval& extent : model.live) {
      if (AnyIn(live, extent)) return;
    }
    model.granule = to;
    books_.Move(vg, GranuleId(to), model.live.data(), model.live.size());
  }
  void ToggleInterior() {
    VgIndex vg = Pick({VgRole::kInterior});
    if (!vg.is_none() && random_.OneIn(2)) {
      books_.EmptyInterior(vg);
      books_.Deactivate(vg);
      BecomeSpare(&At(vg));
      return;
    }
    vg = Pick({VgRole::kSpare});
    if (vg.is_none() || state_.Mappings(At(vg).granule) != 1) return;
    ModelVg& model = At(vg);
    model.role = VgRole::kInterior;
    model.window = Extent(0, kQuanta);
    model.live = {model.window};
    books_.Activate(vg, VgRole::kInterior, model.window, 0);
    books_.FillInterior(vg);
  }
  void ToggleEmptyRun() {
    const VgIndex vg = Pick({VgRole::kSpare, VgRole::kEmptyRun});
    if (vg.is_none() || state_.Mappings(At(vg).granule) != 1) return;
    ModelVg& model = At(vg);
    const bool join = model.role == VgRole::kSpare;
    model.role = join ? VgRole::kEmptyRun : VgRole::kSpare;
    books_.SetEmptyRun(vg, join);
  }
  void Detach() {
    const VgIndex vg = Pick({VgRole::kSpare, VgRole::kEmptyRun});
    if (vg.is_none()) return;
    books_.Detach(vg);
    state_.vgs.erase(vg.value());
  }
  static void BecomeSpare(ModelVg* model) {
    model->role = VgRole::kSpare;
    model->window = OffsetInterval();
    model->owner = 0;
    model->live.clear();
  }

  void CheckVgs() const {
    uint32_t live_vgs = 0;
    for (uint32_t i = 0; i < kVgs; ++i) {
      const VgRecord& record = books_.vg(VgIndex(i));
      const auto it = state_.vgs.find(i);
      if (it == state_.vgs.end()) {
        ASSERT_EQ(record.role, VgRole::kUnmapped);
        continue;
      }
      const ModelVg& model = it->second;
      ASSERT_EQ(record.role, model.role);
      ASSERT_EQ(record.granule, GranuleId(model.granule));
      ASSERT_EQ(record.window, model.window);
      ASSERT_EQ(record.owner, model.owner);
      if (!model.live.empty()) ++live_vgs;
    }
    ASSERT_EQ(books_.live_vgs(), live_vgs);
  }
  void CheckGranules() const {
    uint32_t used = 0;
    uint32_t full = 0;
    uint64_t free_beside_live = 0;
    std::vector<uint32_t> empty;
    for (uint32_t g = 0; g < books_.granule_limit(); ++g) {
      const GranuleRecord& record = books_.granule(GranuleId(g));
      ASSERT_EQ(record.mappings, state_.Mappings(g));
      ASSERT_EQ(record.spares, state_.Spares(g));
      ASSERT_EQ(record.live_quanta, state_.LiveQuanta(g));
      ASSERT_EQ(record.largest_gap_quanta, state_.LargestGap(g));
      const Bits live = state_.Live(g);
      for (uint32_t i = 0; state_.IsPartial(g) && i < kQuanta; ++i) {
        ASSERT_EQ(record.occupancy.AnyIn(Extent(i, i + 1)), live[i]);
      }
      CheckList(record);
      if (record.live_quanta > 0) {
        ++used;
        free_beside_live += kQuanta - record.live_quanta;
      }
      if (state_.HasInterior(g)) ++full;
      if (state_.IsEmpty(g)) empty.push_back(g);
    }
    ASSERT_EQ(books_.used_granules(), used);
    ASSERT_EQ(books_.full_granules(), full);
    ASSERT_EQ(books_.free_quanta_beside_live(), free_beside_live);
    ASSERT_EQ(books_.partial_granules(), used - full);
    std::vector<uint32_t> listed;
    for (const GranuleId granule : books_.empty_granules()) {
      listed.push_back(granule.value());
    }
    ASSERT_THAT(listed, ::testing::UnorderedElementsAreArray(empty));
  }
  // Linked both ways, spares first.
  void CheckList(const GranuleRecord& record) const {
    VgIndex previous;
    uint32_t position = 0;
    for (VgIndex at = record.first; !at.is_none(); at = books_.vg(at).next) {
      ASSERT_EQ(books_.vg(at).previous, previous);
      ASSERT_EQ(books_.vg(at).role == VgRole::kSpare, position < record.spares);
      previous = at;
      ++position;
    }
  }

  // Whether some granule satisfies `wanted`.
  template <typename Predicate>
  static bool AnyGranule(Predicate wanted) {
    for (uint32_t g = 0; g < kGranules; ++g) {
      if (wanted(g)) return true;
    }
    return false;
  }
  void CheckSearches() {
    const uint32_t quanta = random_.Between(1, 60);
    const uint32_t alignment = 1u << random_.Below(6);
    CheckGap(quanta, alignment);
    CheckHole(quanta, alignment);
    CheckEdges(quanta, random_.OneIn(2));
    const uint32_t granule = random_.Below(kGranules);
    if (granule >= books_.granule_limit()) return;
    const OffsetInterval interval = Within(Extent(0, kQuanta));
    ASSERT_EQ(books_.IsUnreserved(GranuleId(granule), interval),
              !AnyIn(state_.Reserved(granule), interval));
  }
  void CheckGap(uint32_t quanta, uint32_t alignment) const {
    const Gap gap = books_.FindGap(quanta, alignment);
    const auto has_room = [&](uint32_t g) {
      return state_.IsPartial(g) &&
             State::HasRoom(state_.Reserved(g), quanta, alignment);
    };
    const bool with_spare = AnyGranule(
        [&](uint32_t g) { return has_room(g) && state_.Spares(g) > 0; });
    const bool with_mapping =
        AnyGranule([&](uint32_t g) { return has_room(g) && state_.CanMap(g); });
    ASSERT_EQ(!gap.granule.is_none(), with_spare || with_mapping);
    if (gap.granule.is_none()) return;
    const uint32_t g = gap.granule.value();
    ASSERT_TRUE(state_.IsPartial(g));
    ASSERT_TRUE(with_spare ? state_.Spares(g) > 0 : state_.CanMap(g));
    ASSERT_EQ(gap.interval.quanta(), quanta);
    ASSERT_EQ(gap.interval.lo % alignment, 0u);
    ASSERT_LE(gap.interval.hi, kQuanta);
    ASSERT_FALSE(AnyIn(state_.Reserved(g), gap.interval));
  }
  void CheckHole(uint32_t quanta, uint32_t alignment) {
    const Gap hole = books_.FindHole(quanta, alignment);
    const auto usable = [this](uint32_t g) {
      return state_.IsPartial(g) && (state_.Spares(g) > 0 || state_.CanMap(g));
    };
    ASSERT_EQ(!hole.granule.is_none(), AnyGranule([&](uint32_t g) {
      return usable(g) && State::HasRoom(state_.Live(g), quanta, alignment);
    }));
    if (hole.granule.is_none()) return;
    ASSERT_TRUE(usable(hole.granule.value()));
    ASSERT_EQ(hole.interval.quanta(), quanta);
    ASSERT_EQ(hole.interval.lo % alignment, 0u);
    ASSERT_LE(hole.interval.hi, kQuanta);
    ASSERT_FALSE(AnyIn(state_.Live(hole.granule.value()), hole.interval));
  }
  void CheckEdges(uint32_t quanta, bool bottom_only) {
    const OffsetInterval bottom = Extent(0, quanta);
    const OffsetInterval top = Extent(kQuanta - quanta, kQuanta);
    const auto check = [&](const Gap& gap, auto taken) {
      ASSERT_EQ(!gap.granule.is_none(), AnyGranule([&](uint32_t g) {
        return state_.IsPartial(g) && state_.CanMap(g) &&
               (!AnyIn(taken(g), bottom) ||
                (!bottom_only && !AnyIn(taken(g), top)));
      }));
      if (gap.granule.is_none()) return;
      const uint32_t g = gap.granule.value();
      ASSERT_TRUE(state_.IsPartial(g) && state_.CanMap(g));
      ASSERT_TRUE(gap.interval == bottom ||
                  (!bottom_only && gap.interval == top));
      ASSERT_FALSE(AnyIn(taken(g), gap.interval));
    };
    check(books_.FindEdgeGap(quanta, bottom_only),
          [this](uint32_t g) { return state_.Reserved(g); });
    check(books_.FindEdgeHole(quanta, bottom_only),
          [this](uint32_t g) { return state_.Live(g); });
  }

  SmallRandom random_;
  State state_;
  GranuleTable table_{1 << 16};
  GranuleBooks books_{kQuanta, kMaxMappings, &table_, /*arena=*/0};
};

TEST(GranuleBooksRandomTest, BooksAgreeWithTheModelAfterEveryStep) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Harness harness(seed);
    for (int step = 0; step < 250; ++step) {
      SCOPED_TRACE(::testing::Message()
                   << "seed " << seed << ", step " << step);
      harness.Step();
      harness.Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace firn::testing
