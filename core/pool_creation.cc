// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// How a pool is made: its options, completed by what the environment and the
// device say, become its parts.

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "firn/core/debug_impl.h"
#include "firn/core/driver_choice.h"
#include "firn/core/event_recorder.h"
#include "firn/core/fixed_impl.h"
#include "firn/core/host_memory_choice.h"
#include "firn/core/moving_choice.h"
#include "firn/core/pool_impl.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/capabilities.h"
#include "firn/vmm/driver_status.h"

namespace firn {

struct Pool::Impl::Parts {
  std::string driver_reason;
  std::string never_moves;
  std::vector<Driver*> devices;
  std::unique_ptr<AddressSpace> address_space;
  GranuleStoreOptions store;
  MappingTableOptions mappings;
  std::unique_ptr<StreamTracker> tracker;
  std::unique_ptr<EventRecorder> recorder;
  std::string why_no_spill;
};

namespace {

// How long a pool that goes waits for what was launched in scopes.
constexpr absl::Duration kLongestWaitAtEnd = absl::Seconds(10);
// What the pool takes by default of what is free.
constexpr uint64_t kDefaultCpuCapacityBytes = uint64_t{8} << 30;

bool IsExportableWanted(const PoolOptions& options) {
  return options.export_type != ShareableHandleType::kNone ||
         options.rdma_capable;
}

// Of the options that want it.
absl::string_view NamesOfExportable(const PoolOptions& options) {
  if (options.export_type == ShareableHandleType::kNone) return "rdma_capable";
  return options.rdma_capable ? "export_type and rdma_capable" : "export_type";
}

// The properties of exportable memory, of no type where there is to be none;
// or why the device cannot have it.
absl::StatusOr<AllocationProp> ChooseExportable(const PoolOptions& options,
                                                Driver* driver) {
  if (!IsExportableWanted(options)) return AllocationProp();
  const Capability found =
      ProbeExportable(driver, options.export_type, options.rdma_capable);
  if (found.available) {
    return ExportableProp(driver->identity().device_ordinal,
                          options.export_type, options.rdma_capable);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(NamesOfExportable(options),
                   ": the device has no such memory: ", found.reason));
}

// The granule size, or what is wrong with the one that was asked for.
absl::StatusOr<uint64_t> ChooseGranuleBytes(const PoolOptions& options,
                                            Driver* driver,
                                            const GranuleStoreOptions& store) {
  size_t minimum = 0;
  for (const AllocationProp* prop : {&store.movable, &store.exportable}) {
    if (prop->type == AllocationType::kInvalid) continue;
    size_t bytes = 0;
    const DriverResult result = driver->MemGetAllocationGranularity(
        &bytes, prop, GranularityKind::kMinimum);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuMemGetAllocationGranularity");
    }
    minimum = std::max(minimum, bytes);
  }
  if (options.granule_bytes == 0) {
    PoolOptions as_granule;
    as_granule.granule_bytes = minimum;
    if (!as_granule.Validate().ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the device's granularity of ", minimum,
                       " bytes makes no granule; give granule_bytes"));
    }
    return uint64_t{minimum};
  }
  if (options.granule_bytes % minimum != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "granule_bytes: ", options.granule_bytes,
        " is not a multiple of the device's granularity of ", minimum));
  }
  return options.granule_bytes;
}

absl::StatusOr<uint64_t> ChooseCapacityBytes(const PoolOptions& options,
                                             Driver* driver) {
  if (options.capacity_bytes > 0) return options.capacity_bytes;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const DriverResult result = driver->MemGetInfo(&free_bytes, &total_bytes);
  if (result != DriverResult::kSuccess) {
    return ToStatus(result, "cuMemGetInfo");
  }
  if (driver->identity().backend == "cpu") {
    return std::min<uint64_t>(free_bytes / 2, kDefaultCpuCapacityBytes);
  }
  return free_bytes - free_bytes / 10;
}

// Most blocks of each size class that a thread's cache keeps for a stream: an
// eighth of a granule, but enough to be worth while.
std::vector<uint8_t> CacheHeights(const SizeClasses& classes,
                                  uint32_t quanta_per_granule) {
  constexpr uint32_t kLeastHeight = 8;
  constexpr uint32_t kMostHeight = BlockCaches::kMostHeight;
  std::vector<uint8_t> heights;
  for (const uint32_t slot_quanta : classes.all_slot_quanta()) {
    const uint32_t height = quanta_per_granule / 8 / slot_quanta;
    heights.push_back(static_cast<uint8_t>(
        std::min(std::max(height, kLeastHeight), kMostHeight)));
  }
  return heights;
}

// Opens the drivers that the options do not name; returns why this one.
absl::StatusOr<std::string> CompleteDrivers(PoolOptions* options) {
  if (options->driver != nullptr) return "given in PoolOptions::driver";
  absl::StatusOr<DriverChoice> choice = ChooseDriver(options->device_ordinal);
  if (!choice.ok()) return choice.status();
  options->driver = std::move(choice->driver);
  for (const int ordinal : options->peer_ordinals) {
    absl::StatusOr<DriverChoice> peer = ChooseDriver(ordinal);
    if (!peer.ok()) return peer.status();
    if (options->driver->identity().backend != "cuda" ||
        peer->driver->identity().backend != "cuda") {
      return absl::InvalidArgumentError(
          absl::StrCat("peer_ordinals: device ", ordinal,
                       ": peers need CUDA devices: ", peer->reason));
    }
    options->peers.push_back(std::move(peer->driver));
  }
  return std::move(choice->reason);
}

// Access of the own device and of the peers to every mapping.
absl::StatusOr<std::vector<AccessDesc>> ChooseAccess(
    const PoolOptions& options) {
  std::vector<AccessDesc> access;
  const auto add = [&access](int ordinal) {
    AccessDesc desc;
    desc.location.type = LocationType::kDevice;
    desc.location.id = ordinal;
    desc.flags = AccessFlags::kReadWrite;
    access.push_back(desc);
  };
  const int own = options.driver->identity().device_ordinal;
  add(own);
  for (const std::shared_ptr<Driver>& peer : options.peers) {
    const int ordinal = peer->identity().device_ordinal;
    for (const AccessDesc& desc : access) {
      if (desc.location.id == ordinal) {
        return absl::InvalidArgumentError(
            absl::StrCat("peers: device ", ordinal,
                         " twice; each once, and not the pool's own"));
      }
    }
    int32_t can_access = 0;
    const DriverResult result = peer->DeviceCanAccessPeer(&can_access, own);
    if (result != DriverResult::kSuccess) {
      return ToStatus(result, "cuDeviceCanAccessPeer");
    }
    if (can_access == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "peers: device ", ordinal, " cannot access memory of device ", own));
    }
    add(ordinal);
  }
  return access;
}

absl::StatusOr<GranuleStoreOptions> ChooseStore(const PoolOptions& options,
                                                Driver* driver) {
  GranuleStoreOptions store;
  store.movable = MovableProp(driver->identity().device_ordinal);
  const absl::StatusOr<AllocationProp> exportable =
      ChooseExportable(options, driver);
  if (!exportable.ok()) return exportable.status();
  store.exportable = *exportable;
  const absl::StatusOr<uint64_t> granule_bytes =
      ChooseGranuleBytes(options, driver, store);
  if (!granule_bytes.ok()) return granule_bytes.status();
  store.granule_bytes = *granule_bytes;
  const absl::Status tiers = options.tiers.Validate(*granule_bytes);
  if (!tiers.ok()) return tiers;
  const uint64_t granules = options.capacity_bytes / *granule_bytes;
  if (granules == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity_bytes: ", options.capacity_bytes,
        " is less than one granule of ", *granule_bytes, " bytes"));
  }
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  store.budget_granules = static_cast<uint32_t>(std::min(granules, kMost));
  // Rounded up, as anything less would not be what was asked for.
  const auto granules_for = [&](uint64_t bytes) {
    return static_cast<uint32_t>(std::min<uint64_t>(
        (bytes + *granule_bytes - 1) / *granule_bytes, store.budget_granules));
  };
  store.low_water_granules = granules_for(options.prepared_bytes);
  if (options.max_cached_bytes != 0) {
    store.high_water_granules = granules_for(options.max_cached_bytes);
  }
  store.max_idle = options.max_cached_time;
  store.shared_budget = options.shared_budget;
  return store;
}

LaunchGateOptions GateOptions(const PoolOptions& options) {
  LaunchGateOptions gate;
  gate.report_unscoped_work = options.report_unscoped_work;
  return gate;
}

// Records what the mapping table does. Owns neither argument.
std::function<void(VgIndex, GranuleId, GranuleId)> RecordMappings(
    EventRecorder* recorder, const AddressSpace& address_space) {
  return [recorder, &address_space](VgIndex vg, GranuleId from, GranuleId to) {
    EventRecord record;
    record.kind = from.is_none() ? HistoryKind::kMap
                  : to.is_none() ? HistoryKind::kUnmap
                                 : HistoryKind::kMove;
    record.address = address_space.AddressOf(vg);
    record.bytes = address_space.granule_bytes();
    if (!from.is_none()) record.from_granule = from.value();
    if (!to.is_none()) record.to_granule = to.value();
    recorder->Record(record);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(PoolOptions options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  const absl::StatusOr<bool> is_turned_off = IsMovingTurnedOff();
  if (!is_turned_off.ok()) return is_turned_off.status();
  absl::StatusOr<std::string> driver_reason = CompleteDrivers(&options);
  if (!driver_reason.ok()) return driver_reason.status();
  absl::StatusOr<MovingChoice> moving =
      ChooseMoving(options.driver.get(), *is_turned_off);
  if (!moving.ok()) return moving.status();
  if (!moving->is_on) options.move_on_failure = false;
  const absl::StatusOr<uint64_t> capacity_bytes =
      ChooseCapacityBytes(options, options.driver.get());
  if (!capacity_bytes.ok()) return capacity_bytes.status();
  options.capacity_bytes = *capacity_bytes;

  std::string never_moves = moving->is_on ? "" : moving->reason;
  const DebugOptions debug = options.debug;
  const std::shared_ptr<Driver> driver = options.driver;
  const bool move_on_failure = options.move_on_failure;
  absl::StatusOr<std::unique_ptr<AnyImpl>> impl;
  if (moving->has_virtual_memory) {
    impl = Impl::Create(std::move(options), *std::move(driver_reason),
                        std::move(never_moves));
  } else if (options.shared_budget != nullptr) {
    impl = absl::FailedPreconditionError(
        absl::StrCat("shared_budget: pools share the budget of granules only: ",
                     never_moves));
  } else if (IsExportableWanted(options)) {
    impl = absl::FailedPreconditionError(absl::StrCat(
        NamesOfExportable(options),
        ": others can be given virtual memory only: ", never_moves));
  } else if (options.peers.empty()) {
    impl = FixedImpl::Create(std::move(options), *std::move(driver_reason),
                             std::move(never_moves));
  } else {
    impl = absl::FailedPreconditionError(absl::StrCat(
        "peers: other devices have access to virtual memory only: ",
        never_moves));
  }
  if (impl.ok() && debug.enabled) {
    impl = DebugImpl::Create(*std::move(impl), driver, debug, move_on_failure);
  }
  if (!impl.ok()) return impl.status();
  return absl::WrapUnique(
      new Pool(*std::move(impl), moving->is_on, std::move(moving->reason)));
}

absl::StatusOr<std::unique_ptr<Pool::Impl>> Pool::Impl::Create(
    PoolOptions options, std::string driver_reason, std::string never_moves) {
  Parts parts;
  parts.driver_reason = std::move(driver_reason);
  parts.never_moves = std::move(never_moves);
  Driver* const driver = options.driver.get();
  absl::StatusOr<std::vector<AccessDesc>> access = ChooseAccess(options);
  if (!access.ok()) return access.status();
  parts.mappings.access = *std::move(access);
  parts.devices.push_back(driver);
  for (const std::shared_ptr<Driver>& peer : options.peers) {
    parts.devices.push_back(peer.get());
  }

  absl::StatusOr<GranuleStoreOptions> store = ChooseStore(options, driver);
  if (!store.ok()) return store.status();
  const absl::Status host = ChooseHostMemory(options, driver, parts.never_moves,
                                             &*store, &parts.why_no_spill);
  if (!host.ok()) return host;
  parts.store = *store;
  const uint64_t granules = store->budget_granules;
  if (options.max_mapped_vgs != 0) {
    if (options.max_mapped_vgs < granules) {
      return absl::InvalidArgumentError(absl::StrCat(
          "max_mapped_vgs: ", options.max_mapped_vgs,
          "; must be 0 or at least the capacity, ", granules, " granules"));
    }
    parts.mappings.max_mapped_vgs = options.max_mapped_vgs;
  }
  // Indexes of virtual granules have 31 bits to spare for sums.
  const uint64_t vgs = granules * options.address_space_factor;
  if (vgs > (uint64_t{1} << 31)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity_bytes: ", granules * store->granule_bytes,
        " times address_space_factor ", options.address_space_factor,
        " exceeds 2^31 granules of ", store->granule_bytes, " bytes"));
  }
  absl::StatusOr<std::unique_ptr<AddressSpace>> address_space =
      AddressSpace::Reserve(driver, store->granule_bytes,
                            static_cast<uint32_t>(vgs),
                            static_cast<uint32_t>(2 * granules));
  if (!address_space.ok()) return address_space.status();
  parts.address_space = *std::move(address_space);
  absl::StatusOr<std::unique_ptr<StreamTracker>> tracker =
      StreamTracker::Create(parts.devices, StreamTrackerOptions());
  if (!tracker.ok()) return tracker.status();
  parts.tracker = *std::move(tracker);
  // Late: it may replace a file.
  absl::StatusOr<std::unique_ptr<EventRecorder>> recorder =
      EventRecorder::Create(options);
  if (!recorder.ok()) return recorder.status();
  parts.recorder = *std::move(recorder);
  if (parts.recorder != nullptr) {
    parts.mappings.on_change =
        RecordMappings(parts.recorder.get(), *parts.address_space);
  }

  auto impl = absl::WrapUnique(new Impl(std::move(options), std::move(parts)));
  absl::Status created = impl->CreateRelocator();
  if (created.ok()) created = impl->SetLimit(impl->options_.limit);
  if (created.ok()) created = impl->StartKeeper();
  if (!created.ok()) return created;
  return impl;
}

Pool::Impl::Impl(PoolOptions options, Parts parts)
    : AnyImpl(std::move(parts.recorder)),
      options_(std::move(options)),
      driver_reason_(std::move(parts.driver_reason)),
      never_moves_(std::move(parts.never_moves)),
      identity_(options_.driver->identity()),
      devices_(std::move(parts.devices)),
      driver_(options_.driver.get()),
      granule_bytes_(parts.store.granule_bytes),
      quanta_per_granule_(
          static_cast<uint32_t>(granule_bytes_ / kQuantumBytes)),
      granule_shift_(absl::bit_width(granule_bytes_) - 1),
      base_address_(parts.address_space->base()),
      address_bytes_(parts.address_space->vg_count() * granule_bytes_),
      size_classes_(quanta_per_granule_),
      cached_limit_quanta_(options_.placement == PlacementKind::kFirn
                               ? size_classes_.limit_quanta()
                               : 0),
      tracker_(std::move(parts.tracker)),
      gate_(devices_, tracker_.get(), GateOptions(options_)),
      store_(driver_, parts.store),
      caches_(CacheHeights(size_classes_, quanta_per_granule_), recorder()),
      streams_(driver_, tracker_.get(), [this] { return WaitForFreed(); }),
      slots_(parts.address_space->vg_count(), size_classes_.all_slot_quanta()),
      address_space_(std::move(parts.address_space)),
      mappings_(driver_, address_space_.get(), &store_,
                std::move(parts.mappings)),
      table_(address_space_->vg_count()),
      free_queue_(tracker_.get(), recorder()),
      declared_(tracker_.get()),
      spill_(parts.store.host_budget_granules, std::move(parts.why_no_spill)) {}

absl::Status Pool::Impl::CreateRelocator() {
  MutexLock lock(&mutex_);
  absl::StatusOr<std::unique_ptr<Relocator>> relocator =
      Relocator::Create(driver_, address_space_.get(), &mappings_);
  if (!relocator.ok()) return relocator.status();
  relocator_ = std::move(*relocator);
  hook_caller_ = MakeHookCaller();
  arenas_.push_back(MakeArena(0, ArenaKey()));
  limit_.hard = limit_.soft = store_.most_budget_granules();
  store_.SetReleaseIdle([this](uint32_t wanted_granules) {
    return ReleaseIdle(wanted_granules);
  });
  return absl::OkStatus();
}

absl::Status Pool::Impl::StartKeeper() {
  if (options_.prepared_bytes == 0 && options_.max_cached_bytes == 0 &&
      options_.max_cached_time == absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<StoreKeeper>> keeper =
      StoreKeeper::Start(driver_, &store_, StoreKeeperOptions());
  if (!keeper.ok()) return keeper.status();
  keeper_ = *std::move(keeper);
  return absl::OkStatus();
}

uint32_t Pool::Impl::ReleaseIdle(uint32_t wanted_granules) {
  // Its own work goes first: who asks holds a lock of another pool.
  if (!mutex_.TryLock()) return 0;
  uint32_t released = 0;
  // A capture would be broken by it.
  if (!graph_pools_.any_open()) {
    may_wait_ = !LaunchGate::ThisThreadIsInsideAny();
    ReleasePending(false).IgnoreError();
    ReleaseParked(/*is_idle=*/false);
    if (may_wait_ && has_parked_blocks()) ReleaseFreed().IgnoreError();
    const uint32_t before = MappedGranules();
    if (!UnmapEmpty(wanted_granules).ok()) IsolateLost();
    released = before - MappedGranules();
  }
  mutex_.Unlock();
  return released;
}

Pool::Impl::~Impl() {
  store_.SetReleaseIdle(nullptr);
  // Unmapping what work in flight still uses would be fatal to the context. A
  // lost device has none. Scopes may have named streams that waiting for the
  // devices does not cover.
  if (gate_.was_used()) gate_.Close(kLongestWaitAtEnd).IgnoreError();
  WaitForDevices().IgnoreError();
}

absl::Status Pool::Impl::WaitForDevices() const {
  absl::Status first;
  for (Driver* const device : devices_) {
    first.Update(
        ToStatus(device->CtxSynchronize(), "cuCtxSynchronize", device->loss()));
  }
  return first;
}

}  // namespace firn
