// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory passes from one domain to another while one driver call fails, or all
// from one on: whatever failed, nobody sees what others have left there, no
// granule is shared, contents stay, and all is given back in the end.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_call.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr uint64_t kGranule = 64 << 10;
constexpr uint64_t kCapacity = 12 * kGranule;

struct Fault {
  DriverResult result = DriverResult::kUnknown;
  bool lasting = false;
};

// Notes which calls fail while memory is being zeroed: a memset, what confirms
// it, and what waits for it after that has failed.
class ZeroingWatch final : public DriverWrapper {
 public:
  explicit ZeroingWatch(FaultingDriver* faults)
      : DriverWrapper(faults), faults_(*faults) {}

  const std::set<DriverCall>& failed() const { return failed_; }

 protected:
  DriverResult Around(const DriverCallArgs& args,
                      absl::FunctionRef<DriverResult()> call) override {
    const uint64_t failures = faults_.failures();
    const DriverResult result = call();
    is_zeroing_ =
        args.call == DriverCall::kMemsetD8Async ||
        (is_zeroing_ && (args.call == DriverCall::kEventRecord ||
                         args.call == DriverCall::kEventSynchronize ||
                         args.call == DriverCall::kStreamSynchronize));
    if (is_zeroing_ && faults_.failures() > failures) failed_.insert(args.call);
    return result;
  }

 private:
  const FaultingDriver& faults_;
  bool is_zeroing_ = false;
  std::set<DriverCall> failed_;
};

// A domain's part of the scenario. Every word that it writes has its mark in
// the uppermost byte.
struct Tenant {
  uint8_t mark = 0;
  Domain domain;  // none: in no domain
  bool has_freed = false;
};

struct MarkedBlock {
  const Tenant* tenant = nullptr;
  void* ptr = nullptr;
  uint64_t bytes = 0;
  uint64_t seed = 0;

  uint64_t words() const { return bytes / sizeof(uint64_t); }
  uint64_t Word(uint64_t i) const {
    constexpr int kMarkShift = 56;
    const uint64_t mixed = (seed * 0x9E3779B97F4A7C15 + i) * 0xBF58476D1CE4E5B9;
    return uint64_t{tenant->mark} << kMarkShift | mixed >> (64 - kMarkShift);
  }
  uint64_t Read(uint64_t i) const {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(ptr) + i * sizeof(word),
                sizeof(word));
    return word;
  }
  void Fill() const {
    for (uint64_t i = 0; i < words(); ++i) {
      const uint64_t word = Word(i);
      std::memcpy(static_cast<char*>(ptr) + i * sizeof(word), &word,
                  sizeof(word));
    }
  }
  bool IsIntact() const {
    for (uint64_t i = 0; i < words(); ++i) {
      if (Read(i) != Word(i)) return false;
    }
    return true;
  }
};

// All zero; or the domain's own, where there may be any that is not live: what
// it has freed, or what a pass has copied.
::testing::AssertionResult ShowsNothingOfOthers(const MarkedBlock& block,
                                                bool has_copies) {
  const bool may_be_own = block.tenant->has_freed || has_copies;
  for (uint64_t i = 0; i < block.words(); ++i) {
    const uint64_t word = block.Read(i);
    if (word == 0) continue;
    if (may_be_own && word >> 56 == block.tenant->mark) continue;
    return ::testing::AssertionFailure()
           << "word " << i << " of a new block of " << block.bytes
           << " bytes of tenant " << int{block.tenant->mark} << " is 0x"
           << absl::StrCat(absl::Hex(word));
  }
  return ::testing::AssertionSuccess();
}

// The whole scenario on a pool of its own.
class Scene {
 public:
  explicit Scene(CpuSync sync) {
    CpuDriverOptions driver_options;
    driver_options.sync = sync;
    driver_options.device_bytes = 2 * kCapacity;
    driver_options.granularity_bytes = kGranule;
    absl::StatusOr<std::unique_ptr<CpuDriver>> cpu =
        CpuDriver::Create(driver_options);
    FIRN_EXPECT_OK(cpu.status());
    cpu_ = *std::move(cpu);
    ledger_ = std::make_unique<LedgerDriver>(cpu_.get());
    faults_ = std::make_unique<FaultingDriver>(ledger_.get());
    watch_ = std::make_unique<ZeroingWatch>(faults_.get());
    PoolOptions options;
    options.driver = std::shared_ptr<Driver>(watch_.get(), [](Driver*) {});
    options.capacity_bytes = kCapacity;
    options.move_on_failure = true;
    absl::StatusOr<std::unique_ptr<Pool>> pool = Pool::Create(options);
    FIRN_EXPECT_OK(pool.status());
    pool_ = *std::move(pool);
    none_.mark = 1;
    Open("a", 2, &a_);
    Open("b", 3, &b_);
    EXPECT_EQ(cpu_->StreamCreate(&stream_, kStreamNonBlocking),
              DriverResult::kSuccess);
    faults_->Reset();
  }

  ~Scene() {
    pool_.reset();
    cpu_->StreamDestroy(stream_);
  }

  // Returns the calls that were made to fail.
  uint64_t Play(uint64_t call, const Fault& fault) {
    if (fault.lasting) {
      faults_->FailFrom(call, fault.result);
    } else {
      faults_->FailNth(call, fault.result);
    }
    Grow(&none_, kCapacity * 3 / 4);
    Shrink(&none_, kCapacity / 6);
    Grow(&a_, kCapacity / 2);
    Check("Trim", pool_->Trim(8 * kGranule).status());
    Grow(&b_, kCapacity / 6);
    Check("Compact", pool_->Compact().status());
    PassThroughOneArena();
    Shrink(&a_, kCapacity / 8);
    LowerTheLimit(7 * kGranule);
    Grow(&b_, kCapacity / 3);
    {
      const LaunchScope scope(*pool_, stream_);
      Allocate(&b_, 3000);
      Allocate(&a_, 3000);
    }
    CompactInScopes();
    Grow(&b_, kCapacity / 2);
    Grow(&none_, kCapacity / 3);
    const uint64_t failures = faults_->failures();
    faults_->Reset();
    return failures;
  }

  // What must hold after Play. Returns whether addresses were lost.
  bool CheckWhatIsLeft() {
    const absl::Status invariants = pool_->CheckInvariants();
    const bool has_lost = !invariants.ok();
    if (has_lost) {
      EXPECT_THAT(
          std::string(invariants.message()),
          AnyOf(HasSubstr("could not be restored"), HasSubstr("was given up")));
    }
    ExpectIntactAndApart(has_lost);
    // It goes on working, on what it has, and b's last growth comes.
    FIRN_EXPECT_OK(pool_->Compact().status());
    Shrink(&none_, 0);
    Shrink(&a_, kGranule);
    while (Allocate(&b_, kGranule / 2)) {
    }
    EXPECT_TRUE(has_lost || LiveBytesOf(b_) > kCapacity / 2);
    ExpectIntactAndApart(has_lost);
    // From b to both others.
    Shrink(&b_, 0);
    Grow(&none_, kCapacity / 4);
    Grow(&a_, kCapacity / 4);
    EXPECT_TRUE(has_lost || LiveBytesOf(a_) > kGranule);
    ExpectIntactAndApart(has_lost);
    return has_lost;
  }

  // Frees all, and expects that nothing is left.
  void Finish(bool has_lost) {
    for (Tenant* const tenant : {&none_, &a_, &b_, &c_, &d_}) Shrink(tenant, 0);
    EXPECT_TRUE(blocks_.empty());
    b_.domain.Close();
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    FIRN_EXPECT_OK(pool_->Trim().status());
    const PoolStats stats = pool_->GetStats();
    EXPECT_EQ(stats.live_bytes, 0u);
    EXPECT_EQ(stats.pending_free_bytes, 0u);
    EXPECT_EQ(stats.used_bytes, 0u);
    EXPECT_TRUE(has_lost || stats.held_bytes == 0) << stats.held_bytes;
    for (const DomainStats& domain : pool_->GetDomainStats()) {
      EXPECT_EQ(domain.live_bytes, 0u) << domain.name;
      EXPECT_EQ(domain.live_allocations, 0u) << domain.name;
      EXPECT_TRUE(has_lost || domain.mapped_bytes == 0) << domain.name;
    }
    pool_.reset();
    EXPECT_TRUE(ledger_->empty()) << ledger_->Describe();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cpu_->MemGetInfo(&free_bytes, &total_bytes),
              DriverResult::kSuccess);
    EXPECT_EQ(free_bytes, total_bytes);
    EXPECT_EQ(cpu_->loss(), "");
  }

  const std::set<DriverCall>& failed_while_zeroing() const {
    return watch_->failed();
  }

 private:
  void Open(const std::string& name, uint8_t mark, Tenant* tenant) {
    DomainOptions options;
    options.name = name;
    absl::StatusOr<Domain> domain = pool_->CreateDomain(options);
    FIRN_EXPECT_OK(domain.status());
    tenant->mark = mark;
    if (domain.ok()) tenant->domain = *std::move(domain);
  }

  // Only what the fault has caused may fail.
  void Check(const char* what, const absl::Status& status) {
    EXPECT_TRUE(status.ok() || faults_->failures() > 0)
        << what << " failed by itself: " << status;
  }

  bool Allocate(const Tenant* tenant, uint64_t bytes) {
    AllocateOptions options;
    options.stream = stream_;
    options.domain = tenant->domain.id();
    const absl::StatusOr<void*> ptr = pool_->Allocate(bytes, options);
    if (!ptr.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(ptr.status()) ||
                  faults_->failures() > 0)
          << ptr.status();
      return false;
    }
    MarkedBlock block;
    block.tenant = tenant;
    block.ptr = *ptr;
    block.bytes = bytes;
    block.seed = ++last_seed_;
    EXPECT_TRUE(
        ShowsNothingOfOthers(block, pool_->GetUsage().compaction_passes > 0));
    KernelRange range;
    range.address = reinterpret_cast<uintptr_t>(block.ptr);
    range.bytes = block.bytes;
    range.writes = true;
    EXPECT_EQ(cpu_->LaunchKernel(stream_, {range}, [block] { block.Fill(); }),
              DriverResult::kSuccess);
    // What follows may rely on all work being in scopes.
    EXPECT_EQ(cpu_->StreamSynchronize(stream_), DriverResult::kSuccess);
    blocks_.push_back(block);
    return true;
  }

  uint64_t LiveBytesOf(const Tenant& tenant) const {
    uint64_t live_bytes = 0;
    for (const MarkedBlock& block : blocks_) {
      if (block.tenant == &tenant) live_bytes += block.bytes;
    }
    return live_bytes;
  }

  void Grow(const Tenant* tenant, uint64_t live_bytes) {
    constexpr uint64_t kBytes[] = {512,   3000,  10240, 30720,
                                   65536, 70000, 150000};
    for (int tries = 0; tries < 25; ++tries) {
      if (LiveBytesOf(*tenant) >= live_bytes) return;
      Allocate(tenant, kBytes[random_() % std::size(kBytes)]);
    }
  }

  void Shrink(Tenant* tenant, uint64_t live_bytes) {
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (LiveBytesOf(*tenant) <= live_bytes) return;
      if (blocks_[i].tenant != tenant) continue;
      const absl::Status status = pool_->Free(blocks_[i].ptr, stream_);
      Check("Free", status);
      if (!status.ok()) continue;
      tenant->has_freed = true;
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // Two domains, one after the other: the second may have the arena of the
  // first. Where a free fails, the block outlives its domain.
  void PassThroughOneArena() {
    uint8_t mark = 4;
    for (Tenant* const tenant : {&c_, &d_}) {
      Open(absl::StrCat("domain ", mark), mark, tenant);
      ++mark;
      for (const uint64_t bytes : {uint64_t{5000}, kGranule + 8}) {
        Allocate(tenant, bytes);
      }
      Shrink(tenant, 0);
      tenant->domain.Close();
    }
  }

  void LowerTheLimit(uint64_t soft_bytes) {
    MemoryLimit limit;
    limit.soft_bytes = soft_bytes;
    Check("SetLimit", pool_->SetLimit(limit));
    Grow(&b_, kCapacity / 4);
    Check("SetLimit", pool_->SetLimit(MemoryLimit()));
  }

  void CompactInScopes() {
    CompactOptions options;
    options.level = CompactionLevel::kLaunchScopes;
    // Work outside of scopes would be nobody's to wait for.
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    Check("Compact in scopes", pool_->Compact(options).status());
  }

  // The handles beneath a block; none of those that cannot be reached.
  std::vector<PhysicalHandle> HandlesOf(const MarkedBlock& block,
                                        bool* is_reachable) const {
    MemLocation device;
    device.type = LocationType::kDevice;
    std::vector<PhysicalHandle> handles;
    const DevicePtr begin = reinterpret_cast<uintptr_t>(block.ptr);
    DevicePtr at = begin / kGranule * kGranule;
    for (; at < begin + block.bytes; at += kGranule) {
      PhysicalHandle handle = 0;
      AccessFlags flags = AccessFlags::kNone;
      if (cpu_->MemGetAccess(&flags, &device, at) != DriverResult::kSuccess ||
          flags != AccessFlags::kReadWrite ||
          cpu_->MemRetainAllocationHandle(&handle, at) !=
              DriverResult::kSuccess) {
        *is_reachable = false;
        continue;
      }
      handles.push_back(handle);
      EXPECT_EQ(cpu_->MemRelease(handle), DriverResult::kSuccess);
    }
    return handles;
  }

  void ExpectIntactAndApart(bool has_lost) const {
    EXPECT_EQ(cpu_->CtxSynchronize(), DriverResult::kSuccess);
    std::map<PhysicalHandle, const Tenant*> owners;
    for (const MarkedBlock& block : blocks_) {
      bool is_reachable = true;
      for (const PhysicalHandle handle : HandlesOf(block, &is_reachable)) {
        EXPECT_EQ(owners.emplace(handle, block.tenant).first->second,
                  block.tenant)
            << "a granule has blocks of two domains";
      }
      if (is_reachable) {
        EXPECT_TRUE(block.IsIntact()) << block.bytes << " bytes";
      } else {
        EXPECT_TRUE(has_lost)
            << "a block of " << block.bytes << " bytes cannot be reached";
      }
    }
  }

  std::unique_ptr<CpuDriver> cpu_;
  std::unique_ptr<LedgerDriver> ledger_;
  std::unique_ptr<FaultingDriver> faults_;
  std::unique_ptr<ZeroingWatch> watch_;
  std::unique_ptr<Pool> pool_;
  StreamHandle stream_ = nullptr;
  Tenant none_;
  Tenant a_;
  Tenant b_;
  Tenant c_;
  Tenant d_;
  std::vector<MarkedBlock> blocks_;
  uint64_t last_seed_ = 0;
  std::mt19937_64 random_{7};
};

// Every so many-th call fails, from one on: the sweep in parts.
constexpr uint64_t kParts = 4;
constexpr uint64_t kStride = kUnderThreadSanitizer ? 7 * kParts : kParts;

using Case = std::tuple<CpuSync, DriverResult, bool, uint64_t>;

class DomainFailureTest : public ::testing::TestWithParam<Case> {};

TEST_P(DomainFailureTest, NobodySeesWhatOthersLeftWhicheverCallFails) {
  const CpuSync sync = std::get<0>(GetParam());
  Fault fault;
  fault.result = std::get<1>(GetParam());
  fault.lasting = std::get<2>(GetParam());
  uint64_t tries = 0;
  uint64_t losses = 0;
  std::set<DriverCall> failed;
  for (uint64_t call = std::get<3>(GetParam());; call += kStride) {
    SCOPED_TRACE(absl::StrCat("call ", call));
    Scene scene(sync);
    const uint64_t failures = scene.Play(call, fault);
    const bool has_lost = scene.CheckWhatIsLeft();
    scene.Finish(has_lost);
    if (has_lost) ++losses;
    failed.insert(scene.failed_while_zeroing().begin(),
                  scene.failed_while_zeroing().end());
    if (HasFailure() || failures == 0) break;
    ++tries;
  }
  EXPECT_GT(tries * kStride, 300u);
  // The zeroing of memory is among the calls. The last one is made where one of
  // the others has failed.
  std::set<DriverCall> expected = {DriverCall::kMemsetD8Async,
                                   DriverCall::kEventRecord,
                                   DriverCall::kEventSynchronize};
  if (fault.lasting) expected.insert(DriverCall::kStreamSynchronize);
  if (!kUnderThreadSanitizer) {
    EXPECT_THAT(failed, IsSupersetOf(expected));
  }
  // A single failure can always be undone.
  EXPECT_TRUE(fault.lasting || losses == 0) << losses;
  EXPECT_LT(losses, tries / 2);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return absl::StrCat(
      std::get<0>(info.param) == CpuSync::kLazy ? "Lazy" : "Draining",
      std::get<1>(info.param) == DriverResult::kOutOfMemory ? "OutOfMemory"
                                                            : "Unknown",
      std::get<2>(info.param) ? "FromThenOn" : "Once", "Part",
      std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, DomainFailureTest,
    ::testing::Combine(::testing::Values(CpuSync::kLazy, CpuSync::kDraining),
                       ::testing::Values(DriverResult::kOutOfMemory,
                                         DriverResult::kUnknown),
                       ::testing::Bool(),
                       ::testing::Range<uint64_t>(0, kParts)),
    CaseName);

}  // namespace
}  // namespace firn::testing
