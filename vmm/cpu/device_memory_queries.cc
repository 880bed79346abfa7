// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of DeviceMemory that answers questions and changes nothing.

#include <algorithm>
#include <cstring>
#include <limits>

#include "firn/vmm/cpu/argument_rules.h"
#include "firn/vmm/cpu/device_memory.h"

namespace firn::cpu {
namespace {

// CU_MEMORYTYPE_HOST and _DEVICE.
constexpr uint32_t kHostMemory = 1;
constexpr uint32_t kDeviceMemory = 2;
// CU_DEVICE_CPU.
constexpr int32_t kNoOrdinal = -1;

constexpr const char* kReservedRule = "the address must be in a reservation";

bool Includes(AccessFlags have, AccessFlags need) {
  const auto needed = static_cast<int32_t>(need);
  return (static_cast<int32_t>(have) & needed) == needed;
}

// A bool of the driver's interface is one byte.
template <typename T>
Verdict Answer(void* data, T value) {
  std::memcpy(data, &value, sizeof(value));
  return Allow();
}
static_assert(sizeof(bool) == 1, "as in the driver's interface");

}  // namespace

Verdict DeviceMemory::GetAccess(AccessFlags* flags, const MemLocation* location,
                                DevicePtr address) {
  if (flags == nullptr) {
    return RefuseValue("there must be a place for the access");
  }
  if (location == nullptr) return RefuseValue("a location must be given");
  int number = 0;
  const Verdict located =
      CheckAccessLocation(*location, options_.device_count, &number);
  if (!located.ok()) return located;
  MutexLock lock(&mutex_);
  const Slot& slot = addresses_.Find(address);
  if (!slot.mapped()) return RefuseValue(kMappedRule);
  *flags = slot.access().of(number);
  return Allow();
}

Verdict DeviceMemory::GetAddressRange(DevicePtr* base, size_t* bytes,
                                      DevicePtr address) {
  MutexLock lock(&mutex_);
  SlotRange mapping;
  const Verdict found = FindMapping(address, &mapping);
  if (!found.ok()) return found;
  if (base != nullptr) *base = addresses_.AddressOf(mapping, mapping.first);
  if (bytes != nullptr) *bytes = addresses_.ToBytes(mapping.count);
  return Allow();
}

Verdict DeviceMemory::GetPointerAttribute(int device, void* data,
                                          PointerAttribute attribute,
                                          DevicePtr address) {
  if (data == nullptr) {
    return RefuseValue("there must be a place for the attribute");
  }
  MutexLock lock(&mutex_);
  const ReservedRange* const reservation = addresses_.ReservationOf(address);
  if (reservation == nullptr) return RefuseValue(kReservedRule);
  switch (attribute) {
    case PointerAttribute::kRangeStart:
      return Answer<DevicePtr>(data, reservation->base());
    case PointerAttribute::kRangeBytes:
      return Answer<size_t>(data, reservation->bytes());
    case PointerAttribute::kMapped:
      return Answer<bool>(data, addresses_.Find(address).mapped());
    default:
      return GetMappingAttribute(device, data, attribute, address);
  }
}

Verdict DeviceMemory::GetMappingAttribute(int device, void* data,
                                          PointerAttribute attribute,
                                          DevicePtr address) {
  SlotRange mapping;
  const Verdict found = FindMapping(address, &mapping);
  if (!found.ok()) return found;
  const Slot& slot = addresses_.Find(address);
  const AllocationProp& prop = MemoryOf(slot).info.prop;
  const bool on_device = prop.location.type == LocationType::kDevice;
  switch (attribute) {
    case PointerAttribute::kMemoryType:
      return Answer<uint32_t>(data, on_device ? kDeviceMemory : kHostMemory);
    case PointerAttribute::kDeviceOrdinal:
      return Answer<int32_t>(data, on_device ? prop.location.id : kNoOrdinal);
    case PointerAttribute::kIsLegacyIpcCapable:
      return Answer<bool>(data, false);
    case PointerAttribute::kAllowedHandleTypes:
      return Answer<uint64_t>(
          data, static_cast<uint64_t>(prop.requested_handle_types));
    case PointerAttribute::kIsRdmaCapable:
      return Answer<bool>(data, prop.alloc_flags.gpu_direct_rdma_capable != 0);
    case PointerAttribute::kAccessFlags:
      return Answer<int32_t>(data,
                             static_cast<int32_t>(slot.access().of(device)));
    case PointerAttribute::kMappingStart:
      return Answer<DevicePtr>(data,
                               addresses_.AddressOf(mapping, mapping.first));
    case PointerAttribute::kMappingBytes:
      return Answer<size_t>(data, addresses_.ToBytes(mapping.count));
    default:
      return RefuseValue("the attribute must be a known one");
  }
}

Verdict DeviceMemory::GetInfo(int device, size_t* free_bytes,
                              size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) {
    return RefuseValue("there must be places for both numbers");
  }
  MutexLock lock(&mutex_);
  *free_bytes = memories_.FreeGranules(device) * granularity_bytes_;
  *total_bytes = options_.device_granules * granularity_bytes_;
  NoteFreedMemory();
  return Allow();
}

Verdict DeviceMemory::CheckAccess(int device,
                                  absl::Span<const AccessRange> ranges,
                                  uint64_t since_epoch,
                                  std::vector<PhysicalRange>* physical) {
  if (has(CpuDefect::kAccessCheckDropped)) return Allow();
  const size_t known = physical == nullptr ? 0 : physical->size();
  MutexLock lock(&mutex_);
  for (const AccessRange& range : ranges) {
    const Verdict checked = CheckRange(device, range, since_epoch, physical);
    if (checked.ok()) continue;
    if (physical != nullptr) physical->resize(known);
    return checked;
  }
  return Allow();
}

Verdict DeviceMemory::CheckRange(int device, const AccessRange& range,
                                 uint64_t since_epoch,
                                 std::vector<PhysicalRange>* physical) {
  if (range.bytes > std::numeric_limits<DevicePtr>::max() - range.address) {
    return RefuseValue("the range must not wrap around");
  }
  const AccessFlags needed =
      range.writes ? AccessFlags::kReadWrite : AccessFlags::kRead;
  const DevicePtr end = range.address + range.bytes;
  for (DevicePtr address = range.address; address < end;) {
    const ReservedRange* const reservation = addresses_.ReservationOf(address);
    if (reservation == nullptr) return RefuseValue(kReservedRule);
    const uint64_t granule = addresses_.GranuleOf(*reservation, address);
    if (granule >= reservation->granules()) return RefuseValue(kMappedRule);
    const Slot& slot = reservation->Get(granule);
    if (!slot.mapped()) return RefuseValue(kMappedRule);
    if (std::max(slot.unmap_epoch(), reservation->first_unmap_epoch()) >
        since_epoch) {
      return RefuseValue(
          "the address must not have been unmapped since the work was queued, "
          "whatever is mapped there now");
    }
    if (!Includes(slot.access().of(device), needed)) {
      return RefuseValue(
          range.writes ? "the device must be allowed to write at the address"
                       : "the device must be allowed to read at the address");
    }
    const DevicePtr granule_end =
        reservation->base() + addresses_.ToBytes(granule + 1);
    const DevicePtr part_end = std::min(end, granule_end);
    if (physical != nullptr) {
      AppendPhysical(slot, address, part_end, range.writes, physical);
    }
    address = part_end;
  }
  return Allow();
}

void DeviceMemory::AppendPhysical(const Slot& slot, DevicePtr address,
                                  DevicePtr end, bool writes,
                                  std::vector<PhysicalRange>* physical) const {
  PhysicalRange range;
  range.memory_id = handles_.handle(slot.handle_index()).target.memory_id;
  range.offset_bytes = addresses_.ToBytes(slot.position()) +
                       (address & (granularity_bytes_ - 1));
  range.bytes = end - address;
  range.address = address;
  range.writes = writes;
  if (!physical->empty()) {
    PhysicalRange& last = physical->back();
    if (last.memory_id == range.memory_id && last.writes == writes &&
        last.offset_bytes + last.bytes == range.offset_bytes &&
        last.address + last.bytes == address) {
      last.bytes += range.bytes;
      return;
    }
  }
  physical->push_back(range);
}

Verdict DeviceMemory::FindMapping(DevicePtr address, SlotRange* mapping) {
  if (!addresses_.Find(address).mapped()) return RefuseValue(kMappedRule);
  ReservedRange* const reservation = addresses_.ReservationOf(address);
  uint64_t first = addresses_.GranuleOf(*reservation, address);
  uint64_t end = first + 1;
  while (!reservation->Get(first).begins()) --first;
  while (end < reservation->granules() && reservation->Get(end).continues()) {
    ++end;
  }
  *mapping = SlotRange{reservation, first, end - first};
  return Allow();
}

}  // namespace firn::cpu
