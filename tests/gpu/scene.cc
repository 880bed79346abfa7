// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/scene.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {

AllocationProp Scene::Prop() const { return PropAt(Location()); }

AllocationProp Scene::PropAt(MemLocation location) const {
  AllocationProp prop;
  prop.type = AllocationType::kPinned;
  prop.location = location;
  return prop;
}

DriverResult Scene::Create(PhysicalHandle* handle, uint64_t granules) const {
  const AllocationProp prop = Prop();
  return driver_->MemCreate(handle, Bytes(granules), &prop, 0);
}

DriverResult Scene::SetAccess(DevicePtr address, uint64_t granules,
                              AccessFlags flags) const {
  const AccessDesc desc = Desc(flags);
  return driver_->MemSetAccess(address, Bytes(granules), &desc, 1);
}

uint64_t Scene::FreeGranules() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (driver_->MemGetInfo(&free_bytes, &total_bytes) !=
      DriverResult::kSuccess) {
    return 0;
  }
  return free_bytes / granule_bytes_;
}

absl::StatusOr<uint64_t> Scene::Afford(uint64_t wanted, double share,
                                       uint64_t least) const {
  const uint64_t free_granules = FreeGranules();
  const auto affordable =
      static_cast<uint64_t>(static_cast<double>(free_granules) * share);
  const uint64_t count = std::min(wanted, affordable);
  if (count >= least) return count;
  return absl::UnimplementedError(absl::StrCat(
      "too little free memory: ", free_granules, " granules are free"));
}

absl::StatusOr<std::unique_ptr<GranuleRow>> GranuleRow::Reserve(
    const Scene& scene, uint64_t granules) {
  DevicePtr base = 0;
  FIRN_TRY_CALL("cuMemAddressReserve", scene.Reserve(&base, granules));
  return absl::WrapUnique(new GranuleRow(scene, base, granules));
}

absl::StatusOr<std::unique_ptr<GranuleRow>> GranuleRow::Mapped(
    const Scene& scene, uint64_t granules) {
  FIRN_TRY_ASSIGN(std::unique_ptr<GranuleRow> row, Reserve(scene, granules));
  FIRN_TRY(row->CreateHandles(granules));
  FIRN_TRY(row->MapUpTo(granules));
  FIRN_TRY(row->SetAccess(0, granules));
  return row;
}

GranuleRow::~GranuleRow() {
  // One that was unmapped behind our back leaves its neighbours mapped.
  if (mapped_ > 0 && !UnmapAll().ok()) {
    for (uint64_t i = 0; i < mapped_; ++i) (void)scene_.Unmap(At(i));
  }
  for (PhysicalHandle handle : handles_) {
    (void)scene_.driver().MemRelease(handle);
  }
  (void)scene_.Free(base_, granules_);
}

absl::Status GranuleRow::CreateHandles(uint64_t count) {
  handles_.reserve(handles_.size() + count);
  for (uint64_t i = 0; i < count; ++i) {
    PhysicalHandle handle = 0;
    FIRN_TRY_CALL("cuMemCreate", scene_.Create(&handle));
    handles_.push_back(handle);
  }
  return absl::OkStatus();
}

absl::Status GranuleRow::MapUpTo(uint64_t end) {
  for (; mapped_ < end; ++mapped_) {
    FIRN_TRY_CALL("cuMemMap",
                  scene_.Map(At(mapped_), handles_[mapped_ % handles_.size()]));
  }
  return absl::OkStatus();
}

absl::Status GranuleRow::SetAccess(uint64_t first, uint64_t count) {
  return ToStatus(scene_.SetAccess(At(first), count), "cuMemSetAccess");
}

absl::Status GranuleRow::UnmapAll() {
  if (mapped_ == 0) return absl::OkStatus();
  FIRN_TRY_CALL("cuMemUnmap", scene_.Unmap(base_, mapped_));
  mapped_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OwnStream>> OwnStream::Create(Driver* driver) {
  StreamHandle stream = nullptr;
  FIRN_TRY_CALL("cuStreamCreate",
                driver->StreamCreate(&stream, kStreamNonBlocking));
  return absl::WrapUnique(new OwnStream(driver, stream));
}

absl::Status OwnStream::Synchronize() const {
  return ToStatus(driver_->StreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace firn::gpu_check
