// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of a spill, of a return and of the free of a spilled block
// fails: what was begun is undone, every byte is where it was or where it
// should be, and the budget is kept.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/core/pool.h"
#include "firn/vmm/driver_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/spill_pool_scene.h"
#include "tests/support/sanitizers.h"

namespace firn::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Values;

constexpr uint64_t kGranuleBytes = SpillPool::kGranuleBytes;
constexpr uint64_t kCapacityBytes = SpillPool::kCapacityBytes;
constexpr uint64_t kSpilledGranules = 3;
// A sanitizer's run leaves some calls out.
constexpr uint64_t kStride = kUnderThreadSanitizer ? 5 : 1;

enum class Act {
  kSpill,        // of parts of a large block, and of small ones
  kSpillApart,   // with domains: host memory is zeroed
  kReturn,       // by MarkActive
  kReturnApart,  // with domains
  kReturnInUse,  // with work in flight on what lies on the host
  kFree,         // of all that lies on the host
};
constexpr Act kActs[] = {Act::kSpill,       Act::kSpillApart,  Act::kReturn,
                         Act::kReturnApart, Act::kReturnInUse, Act::kFree};

std::string NameOf(Act act) {
  switch (act) {
    case Act::kSpill:
      return "Spill";
    case Act::kSpillApart:
      return "SpillApart";
    case Act::kReturn:
      return "Return";
    case Act::kReturnApart:
      return "ReturnApart";
    case Act::kReturnInUse:
      return "ReturnInUse";
    default:
      return "Free";
  }
}

class Scene {
 public:
  Scene(Act act, CpuSync sync) : act_(act), scene_(sync) {
    AllocateOptions options;
    if (act == Act::kSpillApart || act == Act::kReturnApart) {
      DomainOptions of_domain;
      of_domain.name = "apart";
      absl::StatusOr<Domain> domain = scene_.pool().CreateDomain(of_domain);
      FIRN_EXPECT_OK(domain.status());
      if (domain.ok()) domain_.emplace(*std::move(domain));
      options.domain = domain_->id();
    }
    // A large block, whose remainder has company.
    EXPECT_TRUE(scene_.Add(kCapacityBytes / 2 + 20 * kKiB, options));
    scene_.FillUp(4 * kKiB, options);
    scene_.AllowAll();
    if (act == Act::kSpill || act == Act::kSpillApart) return;
    EXPECT_TRUE(scene_.Add(kSpilledGranules * kGranuleBytes));
    EXPECT_GT(scene_.CountOnHost(), 0u);
    if (act == Act::kFree) return;
    // Room to come back to.
    scene_.FreeAt(scene_.blocks().size() - 1);
    if (act != Act::kReturnInUse) return;
    EXPECT_EQ(scene_.cpu().StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
    for (FilledBlock& block : scene_.blocks()) {
      if (!scene_.IsOnHost(block)) continue;
      block.seed += 1000;
      EXPECT_EQ(FillOnStream(&scene_.cpu(), block, stream_),
                DriverResult::kSuccess);
      FIRN_EXPECT_OK(scene_.pool().RecordUse(block.ptr, stream_));
    }
  }
  ~Scene() {
    if (stream_ == nullptr) return;
    EXPECT_EQ(scene_.cpu().StreamDestroy(stream_), DriverResult::kSuccess);
  }

  SpillPool& spill() { return scene_; }
  Pool& pool() { return scene_.pool(); }

  bool IsSpill() const {
    return act_ == Act::kSpill || act_ == Act::kSpillApart;
  }

  absl::Status Perform() {
    if (IsSpill()) {
      const absl::StatusOr<void*> ptr =
          pool().Allocate(kSpilledGranules * kGranuleBytes);
      if (!ptr.ok()) return ptr.status();
      FilledBlock block;
      block.ptr = *ptr;
      block.bytes = kSpilledGranules * kGranuleBytes;
      block.seed = 99;
      Fill(block);
      scene_.blocks().push_back(block);
      return absl::OkStatus();
    }
    if (act_ == Act::kFree) {
      absl::Status status;
      for (size_t i = 0; i < scene_.blocks().size() && status.ok();) {
        // The driver that is asked does not fail.
        if (!scene_.IsOnHost(scene_.blocks()[i])) {
          ++i;
          continue;
        }
        status = pool().Free(scene_.blocks()[i].ptr);
        if (status.ok()) {
          scene_.blocks().erase(scene_.blocks().begin() +
                                static_cast<std::ptrdiff_t>(i));
        }
      }
      return status;
    }
    while (const FilledBlock* const spilled = scene_.FindOnHost()) {
      const absl::Status status = pool().MarkActive(spilled->ptr);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Whatever has come of it.
  void ExpectWhole(bool has_lost) {
    EXPECT_EQ(scene_.cpu().CtxSynchronize(), DriverResult::kSuccess);
    for (const FilledBlock& block : scene_.blocks()) {
      if (!IsReachable(block)) {
        EXPECT_TRUE(has_lost) << "a block cannot be reached";
      } else {
        EXPECT_TRUE(IsIntact(block));
      }
    }
    EXPECT_LE(scene_.ledger().peak_bytes(),
              SpillPool::kHostGranules * kGranuleBytes);
    const PoolStats stats = pool().GetStats();
    EXPECT_EQ(stats.host_held_bytes, scene_.ledger().bytes());
    EXPECT_EQ(scene_.cpu().loss(), "");
    if (!has_lost) scene_.ExpectSound();
  }

  bool IsReachable(const FilledBlock& block) {
    const DevicePtr begin = reinterpret_cast<uintptr_t>(block.ptr);
    const MemLocation device = {LocationType::kDevice, 0};
    for (DevicePtr at = begin / kGranuleBytes * kGranuleBytes;
         at < begin + block.bytes; at += kGranuleBytes) {
      AccessFlags flags = AccessFlags::kNone;
      if (scene_.cpu().MemGetAccess(&flags, &device, at) !=
              DriverResult::kSuccess ||
          flags != AccessFlags::kReadWrite) {
        return false;
      }
    }
    return true;
  }

  void ExpectDrained(bool has_lost) {
    scene_.FreeAll();
    EXPECT_EQ(scene_.cpu().CtxSynchronize(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool().Trim().status());
    const PoolStats stats = pool().GetStats();
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_EQ(stats.spilled_bytes, 0u);
    EXPECT_EQ(stats.host_used_bytes, 0u);
    EXPECT_EQ(stats.spillable_blocks, 0u);
    if (has_lost) {
      scene_.ForgetInvariants();
      return;
    }
    EXPECT_EQ(stats.held_bytes, 0u);
    EXPECT_EQ(stats.host_held_bytes, 0u);
    EXPECT_EQ(scene_.ledger().bytes(), 0u);
  }

 private:
  const Act act_;
  SpillPool scene_;
  std::optional<Domain> domain_;
  StreamHandle stream_ = nullptr;
};

using Case = std::tuple<Act, CpuSync, DriverResult, bool>;

class SpillFailureTest : public ::testing::TestWithParam<Case> {
 protected:
  static bool HasLost(Scene* scene, bool lasting) {
    const absl::Status invariants = scene->pool().CheckInvariants();
    if (invariants.ok()) return false;
    EXPECT_TRUE(lasting) << invariants;
    EXPECT_THAT(
        std::string(invariants.message()),
        AnyOf(HasSubstr("could not be restored"), HasSubstr("was given up")));
    return true;
  }
};

TEST_P(SpillFailureTest, EveryCallMayFail) {
  const auto [act, sync, code, lasting] = GetParam();
  uint64_t n = 0;
  uint64_t failed = 0;
  uint64_t losses = 0;
  for (;; n += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", n));
    Scene scene(act, sync);
    FaultingDriver& faults = scene.spill().faults();
    const PoolStats before = scene.pool().GetStats();
    faults.Reset();
    if (lasting) {
      faults.FailFrom(n, code);
    } else {
      faults.FailNth(n, code);
    }
    const absl::Status status = scene.Perform();
    const bool reached = faults.failures() > 0;
    faults.Reset();
    EXPECT_TRUE(status.ok() || reached) << "failed by itself: " << status;
    const bool has_lost = HasLost(&scene, lasting);
    if (!status.ok()) ++failed;
    if (has_lost) ++losses;
    scene.ExpectWhole(has_lost);
    const PoolStats after = scene.pool().GetStats();
    if (scene.IsSpill() && !status.ok() && !has_lost) {
      // All of it or nothing.
      EXPECT_TRUE(after.granules_spilled == 0 ||
                  after.granules_spilled == kSpilledGranules)
          << after.granules_spilled;
      EXPECT_EQ(after.live_bytes, before.live_bytes);
      EXPECT_EQ(after.spillable_blocks, before.spillable_blocks);
    }
    EXPECT_EQ(after.idle_blocks, after.spillable_blocks);
    // What did not succeed does now.
    const absl::Status again = status.ok() ? status : scene.Perform();
    EXPECT_TRUE(again.ok() || has_lost) << again;
    scene.ExpectWhole(has_lost);
    scene.ExpectDrained(has_lost);
    if (HasFailure() || !reached) break;
  }
  EXPECT_GT(n, 3u);
  EXPECT_GT(failed + (act == Act::kFree ? 1 : 0), 0u);
  EXPECT_TRUE(lasting || losses == 0) << losses;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SpillFailureTest,
    Combine(::testing::ValuesIn(kActs),
            Values(CpuSync::kLazy, CpuSync::kDraining),
            Values(DriverResult::kUnknown, DriverResult::kOutOfMemory),
            ::testing::Bool()),
    [](const ::testing::TestParamInfo<Case>& info) {
      return absl::StrCat(
          NameOf(std::get<0>(info.param)),
          std::get<1>(info.param) == CpuSync::kLazy ? "Lazy" : "Draining",
          std::get<2>(info.param) == DriverResult::kUnknown ? "Unknown"
                                                            : "OutOfMemory",
          std::get<3>(info.param) ? "FromThenOn" : "Once");
    });

}  // namespace
}  // namespace firn::testing
