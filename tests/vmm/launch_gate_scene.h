// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests of the launch gate have in common: a gate over the devices of the
// test's way, and granules that all of them can reach.

#ifndef FIRN_TESTS_VMM_LAUNCH_GATE_SCENE_H_
#define FIRN_TESTS_VMM_LAUNCH_GATE_SCENE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "firn/vmm/address_space.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/cpu/cpu_driver.h"
#include "firn/vmm/driver_wrapper.h"
#include "firn/vmm/faulting_driver.h"
#include "firn/vmm/granule_store.h"
#include "firn/vmm/launch_gate.h"
#include "firn/vmm/mapping_table.h"
#include "firn/vmm/stream_tracker.h"
#include "firn/vmm/thread_ordinal.h"
#include "firn/vmm/units.h"
#include "gtest/gtest.h"
#include "tests/support/ledger_driver.h"
#include "tests/support/test_device.h"
#include "tests/support/way.h"

namespace firn::testing {

// Long enough for a wait that is to end, short enough for one that is not.
inline constexpr absl::Duration kPatience = absl::Seconds(30);
inline constexpr absl::Duration kMoment = absl::Milliseconds(30);

// Whether `condition` holds soon.
inline bool HoldsSoon(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Microseconds(50));
  }
  return true;
}

// Calls a function before each call on the device that a certain thread makes.
class WatchedDriver : public DriverWrapper {
 public:
  explicit WatchedDriver(Driver* base) : DriverWrapper(base) {}
  // From now on before each call of this thread, which is the one to stop that.
  void WatchThisThread(std::function<void()> before_each_call) {
    before_each_call_ = std::move(before_each_call);
    watched_thread_ = ThisThreadOrdinal();
  }
  void StopWatching() { watched_thread_ = 0; }

 protected:
  DriverResult Around(const DriverCallArgs& /*args*/,
                      absl::FunctionRef<DriverResult()> call) override {
    if (watched_thread_ == ThisThreadOrdinal()) before_each_call_();
    return call();
  }

 private:
  std::atomic<uint64_t> watched_thread_{0};
  std::function<void()> before_each_call_;  // the watched thread's
};

struct GateSceneOptions {
  StreamTrackerOptions tracker;
  LaunchGateOptions gate;
  // Of the devices there are, how many the gate knows of.
  size_t most_gated_devices = 2;
};

// One granule mapped at each of kVgs addresses, to which every device has
// access, one more that is not mapped, a tracker and a gate.
class LaunchGateScene {
 public:
  static constexpr uint32_t kVgs = 4;

  explicit LaunchGateScene(GateSceneOptions options = GateSceneOptions())
      : devices_(TestDevices()) {
    for (const std::unique_ptr<Driver>& driver : devices_->drivers) {
      ledgers_.push_back(std::make_unique<LedgerDriver>(driver.get()));
    }
    for (size_t i = 0; i < ledgers_.size(); ++i) {
      watched_.push_back(std::make_unique<WatchedDriver>(ledgers_[i].get()));
      faults_.push_back(std::make_unique<FaultingDriver>(watched_[i].get()));
    }
    MakeMemory();
    for (size_t i = 0; i < faults_.size() && i < options.most_gated_devices;
         ++i) {
      gated_.push_back(faults_[i].get());
    }
    auto tracker = StreamTracker::Create(gated_, options.tracker);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    tracker_ = *std::move(tracker);
    gate_ = std::make_unique<LaunchGate>(gated_, tracker_.get(),
                                         std::move(options.gate));
  }
  ~LaunchGateScene() {
    gate_.reset();
    tracker_.reset();
    table_.reset();
    store_.reset();
    addresses_.reset();
    for (const auto& ledger : ledgers_) (void)ledger->CleanUp();
  }
  LaunchGateScene(const LaunchGateScene&) = delete;
  LaunchGateScene& operator=(const LaunchGateScene&) = delete;

  DeviceSet& devices() { return *devices_; }
  size_t device_count() const { return ledgers_.size(); }
  // A device, past what is watched or made to fail.
  Driver* device(size_t ordinal = 0) { return ledgers_[ordinal].get(); }
  WatchedDriver& watched(size_t ordinal = 0) { return *watched_[ordinal]; }
  FaultingDriver& faults(size_t ordinal = 0) { return *faults_[ordinal]; }
  uint64_t granule_bytes() const { return devices_->granule_bytes; }
  MappingTable& table() { return *table_; }
  StreamTracker& tracker() { return *tracker_; }
  LaunchGate& gate() { return *gate_; }

  DevicePtr AddressOf(uint32_t vg) const {
    return addresses_->AddressOf(VgIndex(vg));
  }
  GranuleId spare() const { return granules_[kVgs]; }
  // Every word is the same where Touch or a fill wrote.
  std::vector<uint32_t> Filled(uint8_t value) const {
    return std::vector<uint32_t>(granule_bytes() / sizeof(uint32_t),
                                 value * 0x01010101u);
  }
  std::vector<uint32_t> Read(uint32_t vg) {
    return ReadWords(device(), AddressOf(vg), granule_bytes());
  }
  void Fill(uint32_t vg, uint8_t value) {
    ASSERT_EQ(
        device()->MemsetD8Async(AddressOf(vg), value, granule_bytes(), nullptr),
        DriverResult::kSuccess);
    ASSERT_EQ(device()->StreamSynchronize(nullptr), DriverResult::kSuccess);
  }
  // Exchanges what two virtual granules are mapped to.
  absl::Status Exchange(uint32_t a, uint32_t b) {
    const MappingChange changes[] = {{VgIndex(a), table_->granule(VgIndex(b))},
                                     {VgIndex(b), table_->granule(VgIndex(a))}};
    return table_->Apply(changes);
  }

  // Another context of the first device, where the driver can make one.
  std::unique_ptr<Driver> SecondContext() {
    auto* const cpu = dynamic_cast<CpuDriver*>(devices_->drivers[0].get());
    if (cpu == nullptr) return nullptr;
    auto context = cpu->CreateContext();
    EXPECT_TRUE(context.ok()) << context.status();
    return context.ok() ? *std::move(context) : nullptr;
  }

  // Waits until a thread waits for the gate: it is closed, or about to be.
  bool SomebodyIsKeptOut() {
    return HoldsSoon([this] { return gate_->stats().blocked_scopes > 0; });
  }

 private:
  void MakeMemory() {
    const uint64_t bytes = granule_bytes();
    auto reserved = AddressSpace::Reserve(faults_[0].get(), bytes, kVgs, kVgs);
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    addresses_ = *std::move(reserved);
    GranuleStoreOptions store_options;
    store_options.granule_bytes = bytes;
    store_options.budget_granules = kVgs + 1;
    store_options.movable = MovableProp(0);
    store_ = std::make_unique<GranuleStore>(faults_[0].get(), store_options);
    Acquisition acquisition;
    EXPECT_TRUE(store_->AcquireAtMost(kVgs + 1, &acquisition).ok());
    granules_ = acquisition.granules;
    EXPECT_EQ(granules_.size(), kVgs + 1);
    MappingTableOptions table_options;
    for (size_t i = 0; i < faults_.size(); ++i) {
      table_options.access.push_back(ReadWriteAccess(static_cast<int32_t>(i)));
    }
    table_ = std::make_unique<MappingTable>(faults_[0].get(), addresses_.get(),
                                            store_.get(), table_options);
    std::vector<MappingChange> changes;
    for (uint32_t vg = 0; vg < kVgs; ++vg) {
      changes.push_back({VgIndex(vg), granules_[vg]});
    }
    const absl::Status mapped = table_->Apply(changes);
    EXPECT_TRUE(mapped.ok()) << mapped;
  }

  const std::unique_ptr<DeviceSet> devices_;
  std::vector<std::unique_ptr<LedgerDriver>> ledgers_;
  std::vector<std::unique_ptr<WatchedDriver>> watched_;
  std::vector<std::unique_ptr<FaultingDriver>> faults_;
  std::vector<Driver*> gated_;
  std::unique_ptr<AddressSpace> addresses_;
  std::unique_ptr<GranuleStore> store_;
  std::vector<GranuleId> granules_;
  std::unique_ptr<MappingTable> table_;
  std::unique_ptr<StreamTracker> tracker_;
  std::unique_ptr<LaunchGate> gate_;
};

}  // namespace firn::testing

#endif  // FIRN_TESTS_VMM_LAUNCH_GATE_SCENE_H_
