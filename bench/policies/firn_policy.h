// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// firn's own pool as a policy: on the CPU driver, every driver call counted
// and charged.

#ifndef FIRN_BENCH_POLICIES_FIRN_POLICY_H_
#define FIRN_BENCH_POLICIES_FIRN_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bench/policies/background_trigger.h"
#include "bench/policies/idle_share.h"
#include "bench/policies/policy.h"
#include "bench/policies/policy_options.h"
#include "firn/core/controller.h"
#include "firn/core/pool.h"
#include "firn/vmm/counting_driver.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn::bench {

// Everything runs on the null stream: an event of a trace comes after all that
// was launched before it, so a freed block is idle at once whatever its stream,
// and the replay is the same every time.
class FirnPolicy : public Policy {
 public:
  static absl::StatusOr<std::unique_ptr<Policy>> Create(
      const PolicyOptions& options);

  absl::string_view name() const override { return "firn"; }
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint32_t stream) override;
  absl::Status Free(uint64_t address, uint32_t stream) override;
  // Declares idle or active what an idle share wants; then a compaction pass in
  // the background mode, when one is due.
  absl::Status Tick(int64_t time_us) override;
  absl::StatusOr<bool> TickIdle(int64_t time_us) override;
  // Nothing where live memory, or what is not declared idle, may not move.
  absl::StatusOr<std::optional<FullPassOutcome>> FullPass() override;
  // With PolicyOptions::keeps_history alone.
  std::optional<std::string> Snapshot() override;
  PolicyUsage usage() const override;
  PolicyReport Report() override;

 private:
  struct FilledBlock {
    uint64_t bytes = 0;
    uint64_t seed = 0;
    uint64_t generation = 0;
    bool found_damaged = false;
  };

  FirnPolicy(const PolicyOptions& options, std::unique_ptr<CpuDriver> device,
             std::shared_ptr<CountingDriver> driver,
             std::unique_ptr<Pool> pool);

  absl::Status MakeController();
  absl::Status DeclareIdleShare();
  // Lets the controller look if it is time.
  absl::Status LookAt(int64_t time_us);
  bool IsWasteful() const;
  // The granules recovered by a pass that ends where the trigger says.
  absl::StatusOr<uint64_t> RunPass();
  // What a full pass would do now; nothing is changed.
  absl::StatusOr<CompactionReport> PlanFullPass();

  // Modelled time of all driver calls and copies so far.
  double DriverAndCopyUs() const;
  // Takes note of the pool's usage after a call that began at `start_us`, and,
  // if the call moved memory, of the pause it made.
  absl::Status NoteUsage(double start_us);

  absl::Status FillNewBlock(void* block, uint64_t bytes);
  void CheckBlock(const void* block, FilledBlock* filled);
  // Checks the blocks beneath which memory changed since they were looked at.
  absl::Status CheckMovedBlocks();

  const uint64_t granule_bytes_;
  const CompactionMode compaction_;
  const bool verify_;
  const bool keeps_history_;
  // Destroyed in reverse: the pool first, the device last.
  std::unique_ptr<CpuDriver> device_;
  std::shared_ptr<CountingDriver> driver_;
  std::unique_ptr<Pool> pool_;

  PoolUsage usage_;  // after the last event
  BackgroundTrigger trigger_;
  std::optional<IdleShare> idle_share_;
  // kController: by the trace's clock, on which its passes take their modelled
  // time.
  std::unique_ptr<Controller> controller_;
  double clock_us_ = 0;
  double look_start_us_ = 0;  // DriverAndCopyUs then
  absl::Time next_look_ = absl::InfinitePast();
  std::vector<double> pause_us_;

  absl::flat_hash_map<uint64_t, FilledBlock> filled_;  // by address
  uint64_t next_seed_ = 0;
  uint64_t content_errors_ = 0;
};

}  // namespace firn::bench

#endif  // FIRN_BENCH_POLICIES_FIRN_POLICY_H_
