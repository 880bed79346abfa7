// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a sequence of operations acts on: a pool on a CPU driver, work on
// streams, and what must be true of them. The first thing that is not ends the
// sequence.

#ifndef FIRN_TESTS_CORE_PROPERTY_STATE_H_
#define FIRN_TESTS_CORE_PROPERTY_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "firn/core/exported_block.h"
#include "firn/core/launch_scope.h"
#include "firn/core/pool.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/faulting_driver.h"
#include "tests/core/property/account.h"
#include "tests/core/property/device_work.h"
#include "tests/core/property/domain_account.h"
#include "tests/core/property/graph_account.h"
#include "tests/core/property/history_account.h"
#include "tests/core/property/hook_account.h"
#include "tests/core/property/idle_account.h"
#include "tests/core/property/limit_account.h"
#include "tests/core/property/pattern_owners.h"
#include "tests/core/property/pin_account.h"
#include "tests/core/property/setting.h"
#include "tests/core/property/shadow.h"
#include "tests/core/property/step_counts.h"
#include "tests/core/property/tag_account.h"
#include "tests/core/property/use_account.h"
#include "tests/support/ledger_driver.h"

namespace firn::testing::property {

// Thread safety: none.
class State {
 public:
  // Puts a driver between the pool and the CPU driver, for tests of tests.
  using Wrap = std::function<std::unique_ptr<Driver>(Driver* base)>;

  explicit State(const Setting& setting, const Wrap& wrap = nullptr);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // --- For operations ---
  const Setting& setting() const { return setting_; }
  Pool& pool() { return *pool_; }
  Shadow& shadow() { return shadow_; }
  PinAccount& pins() { return pins_; }
  TagAccount& tags() { return tags_; }
  HookAccount& hooks() { return hooks_; }
  DomainAccount& domains() { return domains_; }
  LimitAccount& limits() { return limits_; }
  GraphAccount& graphs() { return graphs_; }
  IdleAccount& idle() { return idle_; }
  DeviceWork& work() { return work_; }
  // The block with this number, by its remainder; nullptr if none lives.
  LiveBlock* block(uint32_t number);
  size_t IndexOf(const LiveBlock& block) const;

  // Something is not as it must be; the first one counts.
  void Fail(absl::string_view what);
  void Expect(bool is_so, absl::string_view what) {
    if (!is_so) Fail(what);
  }
  void Expect(const absl::Status& status) {
    if (!status.ok()) Fail(status.ToString());
  }
  // The statistics are what they were.
  void ExpectUnchanged(absl::string_view what, const PoolStats& before);

  // The `calls_before`-th driver call of the pool fails if the next operation
  // comes so far.
  void FailCall(uint32_t calls_before, DriverResult result);
  // Whether a call was made to fail during this operation.
  bool was_faulted() const { return faults_.failures() > 0; }
  // Whether the gate of the scopes was not closed, and may not, since a call
  // failed: as work may have been launched that nobody knows of, or as a wait
  // for the device that outlived its operation has failed.
  bool IsOfGateInDoubt(const absl::Status& status) const;
  void TrustGate() { is_gate_in_doubt_ = false; }

  // Takes over what Allocate returned, and fills it on the stream.
  void Adopt(void* ptr, uint64_t bytes, const AllocateOptions& options);
  // Queues a check of the block on `stream`, and with `write` another content;
  // orders it after the block's last use. An idle block is active first (else
  // nothing is done), and
  // one that is read-only if it is written.
  // `in_scope`: within a LaunchScope, which some settings ask for always.
  void Use(LiveBlock* block, StreamHandle stream, bool write, bool in_scope);
  // The same behind `microseconds` of other work, but what follows is not
  // ordered behind it, not even the free: the pool is told instead.
  void RecordUse(LiveBlock* block, StreamHandle stream, bool write,
                 bool in_scope, uint32_t microseconds);
  // Declares it idle, or read-only, once its last use is done, which `stream`
  // is ordered behind. Idle, it may be spillable as well.
  void Declare(LiveBlock* block, StreamHandle stream, bool read_only,
               bool spillable = false);
  // Whether it is: what was spilled may have nowhere to come back to.
  bool MarkActive(const LiveBlock& block);
  // Frees it, unless it is pinned: then the pool must refuse. Whoever used it
  // on other streams has been ordered before, or recorded.
  void Free(LiveBlock* block, StreamHandle stream);

  // The same without any other work. Whether it was freed.
  bool FreeAsItIs(LiveBlock* block, StreamHandle stream);
  // Nobody may see again what the block holds from now on.
  void NoteExport(LiveBlock* block);
  // Closes it when another one comes, or in the end.
  void KeepExport(ExportedBlock exported);
  bool has_export() const { return exported_.granule_count() > 0; }
  // Allocates a block and fills it without a scope: what a hook launches is
  // done when it returns.
  void AllocateInHook(uint64_t bytes);

  // Unless it is the default stream, or a scope is open, which may name it.
  // `release_first`: the pool is told.
  void DestroyStream(uint32_t number, bool release_first);
  // Opens a scope for these streams: bits by number; 0 names none.
  void OpenScope(uint32_t streams);
  void CloseScope(uint32_t number);
  bool is_inside() const { return !scopes_.empty(); }
  // No work in flight is outside of scopes.
  void SynchronizeUnscoped();

  // --- For whoever runs them ---
  // After each operation: what is cheap to see, and all the rest if something
  // moved or a call failed, or if `thorough`.
  void AfterOperation(bool thorough);
  // Gives everything back and looks at what is left.
  void Drain();
  const StepCounts& counts() const { return counts_; }
  // Empty while all is well.
  const std::string& failure() const { return failure_; }

 private:
  struct OpenedScope {
    uint32_t streams = 0;
    std::unique_ptr<LaunchScope> scope;
  };

  // Whether an open scope lets work on the stream be waited for.
  bool IsCovered(StreamHandle stream) const;
  // Puts it on record; whether it is all right.
  bool AddToShadow(void* ptr, uint64_t bytes, const AllocateOptions& options);
  void CheckRefusedFree(const LiveBlock& block, const absl::Status& status);
  // What is queued on `stream` from now on waits for the block's recorded uses,
  // all of them or those that wrote.
  void OrderRecorded(const LiveBlock& block, StreamHandle stream, bool all);
  // A scope for work on the stream, unless one covers it, or neither the caller
  // nor the setting wants it.
  std::unique_ptr<LaunchScope> ScopeFor(StreamHandle stream, bool wanted);
  // Use, but for an idle block.
  void UseActive(LiveBlock* block, StreamHandle stream, bool write,
                 bool in_scope);
  void CheckContents();
  // Counts what the sequence has come to.
  void Count(const PoolStats& stats);
  // Nothing has moved unless `may_have_moved`.
  void CheckGenerations(bool may_have_moved);

  const Setting setting_;
  std::string failure_;
  // Outlives the workers of the driver, as they write to it.
  DamageReport damage_;
  PatternOwners patterns_;
  const std::unique_ptr<CpuDriver> cpu_;
  const std::unique_ptr<Driver> wrapped_;
  LedgerDriver ledger_;
  FaultingDriver faults_;
  DeviceWork work_;
  std::unique_ptr<Pool> pool_;
  std::vector<OpenedScope> scopes_;
  Shadow shadow_;
  PinAccount pins_;
  TagAccount tags_;
  UseAccount uses_;
  IdleAccount idle_;
  HookAccount hooks_;
  DomainAccount domains_;
  LimitAccount limits_;
  GraphAccount graphs_;
  HistoryAccount history_;
  const std::vector<Account*> accounts_ = {&pins_,   &tags_,  &graphs_,
                                           &uses_,   &hooks_, &domains_,
                                           &limits_, &idle_,  &history_};
  ExportedBlock exported_;
  bool is_gate_in_doubt_ = false;
  bool has_unscoped_work_ = false;
  bool is_fault_ordered_ = false;
  bool is_fault_new_ = false;
  uint64_t granules_moved_ = 0;
  StepCounts counts_;
};

}  // namespace firn::testing::property

#endif  // FIRN_TESTS_CORE_PROPERTY_STATE_H_
