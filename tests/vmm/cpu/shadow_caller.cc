// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/vmm/cpu/shadow_caller.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace firn::cpu_testing {
namespace {

constexpr size_t kMaxReservations = 5;
constexpr size_t kMaxHandles = 12;
constexpr uint32_t kMaxGranulesPerHandle = 3;
// For a place that is as a call needs it.
constexpr int kTries = 4;
// Work queued before a thread waits for it: queues must not grow for ever.
constexpr uint64_t kMaxQueued = 64;

uint32_t* Words(DevicePtr address) {
  return reinterpret_cast<uint32_t*>(static_cast<uintptr_t>(address));
}

}  // namespace

ShadowCaller::ShadowCaller(CpuDriver* driver, uint64_t granule_bytes,
                           uint64_t seed, bool syncs_before_unmap,
                           ShadowMailbox* mailbox)
    : driver_(driver),
      granule_bytes_(granule_bytes),
      syncs_before_unmap_(syncs_before_unmap),
      mailbox_(mailbox),
      random_(seed) {}

void ShadowCaller::Run(uint64_t calls) {
  using Action = void (ShadowCaller::*)();
  // As often as they stand here.
  static constexpr Action kActions[] = {
      &ShadowCaller::Reserve,       &ShadowCaller::FreeReservation,
      &ShadowCaller::Create,        &ShadowCaller::Create,
      &ShadowCaller::Release,       &ShadowCaller::Release,
      &ShadowCaller::Map,           &ShadowCaller::Map,
      &ShadowCaller::Map,           &ShadowCaller::Map,
      &ShadowCaller::SetAccess,     &ShadowCaller::SetAccess,
      &ShadowCaller::SetAccess,     &ShadowCaller::SetAccess,
      &ShadowCaller::GetAccess,     &ShadowCaller::Unmap,
      &ShadowCaller::Unmap,         &ShadowCaller::Unmap,
      &ShadowCaller::Retain,        &ShadowCaller::Export,
      &ShadowCaller::Import,        &ShadowCaller::WriteByKernel,
      &ShadowCaller::WriteByKernel, &ShadowCaller::LookByKernel,
      &ShadowCaller::LookByKernel,  &ShadowCaller::LookByKernel,
      &ShadowCaller::Fill,          &ShadowCaller::Copy,
      &ShadowCaller::Copy,          &ShadowCaller::AskForAddressRange,
      &ShadowCaller::Synchronize,   &ShadowCaller::ReleaseDeadHandle};
  const uint64_t end = calls_ + calls;
  if (stream_ == nullptr) {
    Expect(driver_->StreamCreate(&stream_, kStreamNonBlocking),
           DriverResult::kSuccess, "StreamCreate");
  }
  while (calls_ < end && *failure() == '\0') {
    (this->*kActions[Below(std::size(kActions))])();
  }
  Synchronize();
}

void ShadowCaller::Finish() {
  Synchronize();
  for (const Reservation& reservation : reservations_) {
    // Mapping by mapping: holes are no part of any range.
    for (uint64_t i = 0; i < reservation->slots.size();) {
      ShadowSlot& slot = reservation->slots[i];
      if (!slot.mapped()) {
        ++i;
        continue;
      }
      const uint64_t granules = slot.handle->memory->granules();
      --slot.handle->mappings;
      Expect(driver_->MemUnmap(AddressOf(*reservation, i),
                               granules * granule_bytes_),
             DriverResult::kSuccess, "MemUnmap at the end");
      i += granules;
    }
    Expect(driver_->MemAddressFree(reservation->base,
                                   reservation->slots.size() * granule_bytes_),
           DriverResult::kSuccess, "MemAddressFree at the end");
  }
  reservations_.clear();
  for (const Handle& handle : handles_) {
    for (; handle->references > 0; --handle->references) {
      Expect(driver_->MemRelease(handle->value), DriverResult::kSuccess,
             "MemRelease at the end");
    }
  }
  handles_.clear();
  Expect(driver_->StreamDestroy(stream_), DriverResult::kSuccess,
         "StreamDestroy at the end");
}

bool ShadowCaller::Expect(DriverResult answer, DriverResult expected,
                          const char* what) {
  ++calls_;
  if (answer != DriverResult::kSuccess) ++refusals_;
  if (answer == expected) return true;
  if (failure_ == nullptr) failure_ = what;
  return false;
}

void ShadowCaller::Reserve() {
  if (reservations_.size() >= kMaxReservations) return;
  auto reservation = std::make_unique<ShadowReservation>();
  reservation->slots.resize(4 + Below(12));
  if (Expect(driver_->MemAddressReserve(
                 &reservation->base, reservation->slots.size() * granule_bytes_,
                 /*alignment_bytes=*/0, /*hint=*/0, /*flags=*/0),
             DriverResult::kSuccess, "MemAddressReserve")) {
    reservations_.push_back(std::move(reservation));
  }
}

void ShadowCaller::FreeReservation() {
  if (reservations_.empty()) return;
  const size_t index = Below(reservations_.size());
  const ShadowReservation& reservation = *reservations_[index];
  if (reservation.HasMapping() && !random_.OneIn(4)) return;
  const uint64_t granules = reservation.slots.size();
  // Sometimes not what was reserved.
  const uint64_t asked = random_.OneIn(8) ? granules - 1 : granules;
  const bool right = asked == granules && !reservation.HasMapping();
  if (ExpectIf(
          right,
          driver_->MemAddressFree(reservation.base, asked * granule_bytes_),
          "MemAddressFree") &&
      right) {
    reservations_.erase(reservations_.begin() + static_cast<long>(index));
  }
}

void ShadowCaller::Create() {
  if (handles_.size() >= kMaxHandles) return;
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location.type = LocationType::kDevice;
  auto handle = std::make_shared<ShadowHandle>();
  handle->memory = std::make_shared<ShadowMemory>();
  handle->memory->words.assign(1 + Below(kMaxGranulesPerHandle),
                               kCpuPoisonWord);
  handle->memory->exportable = random_.OneIn(4);
  if (handle->memory->exportable) {
    prop.requested_handle_types = ShareableHandleType::kPosixFileDescriptor;
  }
  if (Expect(driver_->MemCreate(&handle->value,
                                handle->memory->granules() * granule_bytes_,
                                &prop, 0),
             DriverResult::kSuccess, "MemCreate")) {
    handle->references = 1;
    handles_.push_back(std::move(handle));
  }
}

void ShadowCaller::Release() {
  const Handle handle = AnyLiveHandle();
  if (handle == nullptr) return;
  if (Expect(driver_->MemRelease(handle->value), DriverResult::kSuccess,
             "MemRelease")) {
    --handle->references;
    ForgetUnused();
  }
}

void ShadowCaller::ReleaseDeadHandle() {
  for (const Handle& handle : handles_) {
    if (handle->alive()) continue;
    ExpectIf(false, driver_->MemRelease(handle->value),
             "MemRelease of a handle without a reference");
    return;
  }
}

void ShadowCaller::Map() {
  ShadowReservation* const reservation = AnyReservation();
  if (reservation == nullptr || handles_.empty()) return;
  // A dead one at times.
  const Handle handle = handles_[Below(handles_.size())];
  const uint64_t whole = handle->memory->granules();
  const uint64_t granules = random_.OneIn(10) ? 1 + Below(3) : whole;
  // What follows a reservation may be another one.
  uint64_t first = Below(reservation->slots.size());
  for (int i = 0; i < kTries && !reservation->IsFree(first, granules); ++i) {
    first = Below(reservation->slots.size());
  }
  const bool right = handle->alive() && granules == whole &&
                     reservation->IsFree(first, granules);
  if (!ExpectIf(right,
                driver_->MemMap(AddressOf(*reservation, first),
                                granules * granule_bytes_, 0, handle->value, 0),
                "MemMap") ||
      !right) {
    return;
  }
  ++handle->mappings;
  for (uint64_t i = 0; i < granules; ++i) {
    reservation->slots[first + i] = ShadowSlot{handle, i, AccessFlags::kNone};
  }
}

void ShadowCaller::SetAccess() {
  const Place place = AnyPlace();
  if (place.reservation == nullptr) return;
  static constexpr AccessFlags kFlags[] = {
      AccessFlags::kReadWrite, AccessFlags::kReadWrite, AccessFlags::kReadWrite,
      AccessFlags::kRead, AccessFlags::kNone};
  AccessDesc desc;
  desc.location.type = LocationType::kDevice;
  desc.flags = kFlags[Below(std::size(kFlags))];
  SyncIfNeeded();
  const bool right = place.reservation->IsWhole(place.first, place.count);
  if (!ExpectIf(right,
                driver_->MemSetAccess(place.address,
                                      place.count * granule_bytes_, &desc, 1),
                "MemSetAccess") ||
      !right) {
    return;
  }
  for (uint64_t i = 0; i < place.count; ++i) {
    place.reservation->slots[place.first + i].access = desc.flags;
  }
}

void ShadowCaller::GetAccess() {
  ShadowReservation* const reservation = AnyReservation();
  if (reservation == nullptr) return;
  const uint64_t granule = Below(reservation->slots.size());
  const ShadowSlot& slot = reservation->slots[granule];
  const MemLocation location{LocationType::kDevice, 0};
  AccessFlags access = AccessFlags::kNone;
  ExpectIf(slot.mapped(),
           driver_->MemGetAccess(&access, &location,
                                 AddressOf(*reservation, granule)),
           "MemGetAccess");
  if (slot.mapped() && access != slot.access && failure_ == nullptr) {
    failure_ = "MemGetAccess tells another access";
  }
}

void ShadowCaller::Unmap() {
  const Place place = AnyPlace();
  if (place.reservation == nullptr) return;
  SyncIfNeeded();
  const bool right = place.reservation->IsWhole(place.first, place.count);
  if (!ExpectIf(right,
                driver_->MemUnmap(place.address, place.count * granule_bytes_),
                "MemUnmap") ||
      !right) {
    return;
  }
  for (uint64_t i = 0; i < place.count; ++i) {
    ShadowSlot& slot = place.reservation->slots[place.first + i];
    if (slot.granule == 0) --slot.handle->mappings;
    slot = ShadowSlot();
  }
  ForgetUnused();
}

void ShadowCaller::Retain() {
  ShadowReservation* const reservation = AnyReservation();
  if (reservation == nullptr) return;
  const uint64_t granule = Below(reservation->slots.size());
  const ShadowSlot& slot = reservation->slots[granule];
  if (!slot.mapped() && !random_.OneIn(4)) return;
  PhysicalHandle value = 0;
  if (!ExpectIf(slot.mapped(),
                driver_->MemRetainAllocationHandle(
                    &value, AddressOf(*reservation, granule)),
                "MemRetainAllocationHandle") ||
      !slot.mapped()) {
    return;
  }
  ++slot.handle->references;
  if (value != slot.handle->value && failure_ == nullptr) {
    failure_ = "MemRetainAllocationHandle returns another handle";
  }
}

void ShadowCaller::Export() {
  const Handle handle = AnyLiveHandle();
  if (handle == nullptr) return;
  ShadowMemory& memory = *handle->memory;
  // Whoever imports it must see all that was written.
  if (memory.exportable) Synchronize();
  ShadowExport exported;
  exported.memory = handle->memory;
  if (!ExpectIf(memory.exportable,
                driver_->MemExportToShareableHandle(
                    &exported.descriptor, handle->value,
                    ShareableHandleType::kPosixFileDescriptor, 0),
                "MemExportToShareableHandle") ||
      !memory.exportable) {
    return;
  }
  // Once: others that hold it by now read this.
  if (!memory.frozen) memory.frozen = true;
  if (!mailbox_->Put(exported)) close(exported.descriptor);
}

void ShadowCaller::Import() {
  if (handles_.size() >= kMaxHandles) return;
  const ShadowExport exported = mailbox_->Take();
  if (exported.descriptor < 0) return;
  auto handle = std::make_shared<ShadowHandle>();
  handle->memory = exported.memory;
  const uintptr_t os_handle = static_cast<uintptr_t>(exported.descriptor);
  if (Expect(driver_->MemImportFromShareableHandle(
                 &handle->value, reinterpret_cast<void*>(os_handle),
                 ShareableHandleType::kPosixFileDescriptor),
             DriverResult::kSuccess, "MemImportFromShareableHandle")) {
    handle->references = 1;
    handles_.push_back(std::move(handle));
  }
  close(exported.descriptor);
}

void ShadowCaller::WriteByKernel() {
  const Place place = AnyMapped();
  if (place.reservation == nullptr) return;
  const ShadowSlot& slot = place.reservation->slots[place.first];
  if (slot.access != AccessFlags::kReadWrite || slot.handle->memory->frozen) {
    return;
  }
  const uint32_t word = random_.Below(1u << 31);
  slot.word() = word;
  const uint64_t bytes = granule_bytes_;
  const DevicePtr address = place.address;
  Expect(
      driver_->LaunchKernel(
          stream_, {KernelRange{address, bytes, /*writes=*/true}},
          [=] { std::fill_n(Words(address), bytes / sizeof(uint32_t), word); }),
      DriverResult::kSuccess, "LaunchKernel");
  ++queued_;
}

void ShadowCaller::LookByKernel() {
  const Place place = AnyMapped();
  if (place.reservation == nullptr) return;
  const ShadowSlot& slot = place.reservation->slots[place.first];
  if (slot.access == AccessFlags::kNone) return;
  const uint32_t word = slot.word();
  const uint64_t bytes = granule_bytes_;
  const DevicePtr address = place.address;
  Expect(driver_->LaunchKernel(
             stream_, {KernelRange{address, bytes, /*writes=*/false}},
             [=, this] {
               const uint32_t* const words = Words(address);
               const uint64_t count = bytes / sizeof(uint32_t);
               if (std::any_of(words, words + count, [word](uint32_t found) {
                     return found != word;
                   })) {
                 wrong_contents_.store(true);
               }
             }),
         DriverResult::kSuccess, "LaunchKernel");
  ++looks_;
  if (++queued_ >= kMaxQueued) Synchronize();
}

void ShadowCaller::Fill() {
  const Place place = AnyMapped();
  if (place.reservation == nullptr) return;
  const ShadowSlot& slot = place.reservation->slots[place.first];
  if (slot.handle->memory->frozen) return;
  const bool right = slot.access == AccessFlags::kReadWrite;
  const uint32_t byte = random_.Below(256);
  if (ExpectIf(right,
               driver_->MemsetD8Async(place.address, static_cast<uint8_t>(byte),
                                      granule_bytes_, stream_),
               "MemsetD8Async") &&
      right) {
    slot.word() = byte * 0x01010101u;
    ++queued_;
  }
}

void ShadowCaller::Copy() {
  const Place from = AnyMapped();
  const Place to = AnyMapped();
  if (from.reservation == nullptr || to.reservation == nullptr) return;
  const ShadowSlot& source = from.reservation->slots[from.first];
  const ShadowSlot& target = to.reservation->slots[to.first];
  // Not the same bytes by two addresses: a copy is not ordered with itself.
  if (target.handle->memory->frozen ||
      source.handle->memory == target.handle->memory) {
    return;
  }
  const bool right = source.access != AccessFlags::kNone &&
                     target.access == AccessFlags::kReadWrite;
  if (ExpectIf(right,
               driver_->MemcpyDtoDAsync(to.address, from.address,
                                        granule_bytes_, stream_),
               "MemcpyDtoDAsync") &&
      right) {
    target.word() = source.word();
    ++queued_;
  }
}

void ShadowCaller::AskForAddressRange() {
  const Place place = AnyMapped();
  if (place.reservation == nullptr) return;
  const ShadowSlot& slot = place.reservation->slots[place.first];
  DevicePtr base = 0;
  size_t bytes = 0;
  Expect(driver_->MemGetAddressRange(&base, &bytes, place.address + 17),
         DriverResult::kSuccess, "MemGetAddressRange");
  const bool right = base == place.address - slot.granule * granule_bytes_ &&
                     bytes == slot.handle->memory->granules() * granule_bytes_;
  if (!right && failure_ == nullptr) {
    failure_ = "MemGetAddressRange tells another mapping";
  }
}

void ShadowCaller::Synchronize() {
  Expect(driver_->StreamSynchronize(stream_), DriverResult::kSuccess,
         "StreamSynchronize");
  queued_ = 0;
}

ShadowReservation* ShadowCaller::AnyReservation() {
  return reservations_.empty()
             ? nullptr
             : reservations_[Below(reservations_.size())].get();
}

ShadowCaller::Place ShadowCaller::AnyPlace() {
  Place place;
  place.reservation = AnyReservation();
  if (place.reservation == nullptr) return place;
  const std::vector<ShadowSlot>& slots = place.reservation->slots;
  place.first = Below(slots.size());
  for (int i = 0; i < kTries && !slots[place.first].mapped(); ++i) {
    place.first = Below(slots.size());
  }
  place.count = 1 + Below(4);
  // Mostly one whole mapping.
  if (const ShadowSlot& slot = slots[place.first];
      slot.mapped() && !random_.OneIn(6)) {
    place.first -= slot.granule;
    place.count = slot.handle->memory->granules();
  }
  place.address = AddressOf(*place.reservation, place.first);
  return place;
}

ShadowCaller::Place ShadowCaller::AnyMapped() {
  for (int i = 0; i < kTries; ++i) {
    Place place;
    place.reservation = AnyReservation();
    if (place.reservation == nullptr) break;
    place.first = Below(place.reservation->slots.size());
    place.count = 1;
    if (!place.reservation->slots[place.first].mapped()) continue;
    place.address = AddressOf(*place.reservation, place.first);
    return place;
  }
  return Place();
}

ShadowCaller::Handle ShadowCaller::AnyLiveHandle() {
  if (handles_.empty()) return nullptr;
  const Handle& handle = handles_[Below(handles_.size())];
  return handle->alive() ? handle : nullptr;
}

void ShadowCaller::ForgetUnused() {
  const auto unused = [](const Handle& handle) {
    return !handle->alive() && handle->mappings == 0;
  };
  handles_.erase(std::remove_if(handles_.begin(), handles_.end(), unused),
                 handles_.end());
}

void ShadowCaller::SyncIfNeeded() {
  if (syncs_before_unmap_ && queued_ > 0) Synchronize();
}

}  // namespace firn::cpu_testing
