// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host that is mapped at device addresses: what creating and
// mapping it takes, and copies between it and the device.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/measurement.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr char kTable[] = "host";
constexpr int kMostRounds = 40;

struct Place {
  std::string name;
  MemLocation location;
};

class HostBlock {
 public:
  HostBlock(MeasureContext& context, const Place& place, uint64_t bytes,
            DevicePtr device_side, const OwnStream& stream)
      : context_(context),
        scene_(context.scene),
        place_(place),
        bytes_(bytes),
        device_side_(device_side),
        stream_(stream) {}

  // Creates, maps, copies there and back, unmaps, releases: each timed.
  absl::Status Live() {
    Driver& driver = scene_.driver();
    DevicePtr address = 0;
    FIRN_TRY_CALL("cuMemAddressReserve",
                  driver.MemAddressReserve(&address, bytes_, bytes_, 0, 0));
    const AllocationProp prop = scene_.PropAt(place_.location);
    PhysicalHandle handle = 0;
    FIRN_TRY(Time(&create_, "cuMemCreate",
                  [&] { return driver.MemCreate(&handle, bytes_, &prop, 0); }));
    FIRN_TRY(Time(&map_, "cuMemMap", [&] {
      return driver.MemMap(address, bytes_, 0, handle, 0);
    }));
    const AccessDesc desc = scene_.Desc();
    FIRN_TRY(Time(&set_access_, "cuMemSetAccess", [&] {
      return driver.MemSetAccess(address, bytes_, &desc, 1);
    }));
    FIRN_TRY(Time(&to_host_, "a copy to the host",
                  [&] { return Copy(address, device_side_); }));
    FIRN_TRY(Time(&to_device_, "a copy from the host",
                  [&] { return Copy(device_side_, address); }));
    FIRN_TRY(Time(&unmap_, "cuMemUnmap",
                  [&] { return driver.MemUnmap(address, bytes_); }));
    FIRN_TRY(Time(&release_, "cuMemRelease",
                  [&] { return driver.MemRelease(handle); }));
    return ToStatus(driver.MemAddressFree(address, bytes_), "cuMemAddressFree");
  }

  void AddRows() {
    AddRow("cuMemCreate", create_, 0);
    AddRow("cuMemMap", map_, 0);
    AddRow("cuMemSetAccess", set_access_, 0);
    AddRow("copy from the device", to_host_, bytes_);
    AddRow("copy to the device", to_device_, bytes_);
    AddRow("cuMemUnmap", unmap_, 0);
    AddRow("cuMemRelease", release_, 0);
  }

 private:
  template <typename Function>
  absl::Status Time(SampleSet* samples, const char* name, Function function) {
    DriverResult result = DriverResult::kSuccess;
    samples->Add(TimeUs([&] { result = function(); }));
    return ToStatus(result, name, place_.name);
  }
  DriverResult Copy(DevicePtr to, DevicePtr from) {
    const DriverResult result =
        scene_.driver().MemcpyDtoDAsync(to, from, bytes_, stream_.get());
    if (result != DriverResult::kSuccess) return result;
    return scene_.driver().StreamSynchronize(stream_.get());
  }
  void AddRow(const char* what, const SampleSet& samples,
              uint64_t copied_bytes) {
    Row row = WithFigures(
        {TextCell(place_.name), NumberCell(bytes_), TextCell(what)}, samples);
    row.push_back(copied_bytes == 0
                      ? TextCell("")
                      : NumberCell(static_cast<double>(copied_bytes) /
                                   samples.median() / 1e3));
    context_.report.AddRow(kTable, row);
  }

  MeasureContext& context_;
  const Scene& scene_;
  const Place place_;
  const uint64_t bytes_;
  const DevicePtr device_side_;
  const OwnStream& stream_;
  SampleSet create_, map_, set_access_, to_host_, to_device_, unmap_, release_;
};

// Of the host's granularity and the device's, the larger: both are powers of
// two.
absl::StatusOr<uint64_t> BlockBytes(const Scene& scene, const Place& place) {
  const AllocationProp prop = scene.PropAt(place.location);
  size_t granularity_bytes = 0;
  const DriverResult result = scene.driver().MemGetAllocationGranularity(
      &granularity_bytes, &prop, GranularityKind::kMinimum);
  if (result != DriverResult::kSuccess) {
    return absl::UnimplementedError(std::string(
        ToStatus(result, "cuMemGetAllocationGranularity", place.name)
            .message()));
  }
  return std::max<uint64_t>(granularity_bytes, scene.granule_bytes());
}

// Unimplemented where the device has no such memory.
absl::Status MeasurePlace(MeasureContext& context, const Place& place,
                          DeviceAttribute attribute, const Deadline& share) {
  int32_t supported = 0;
  const DriverResult asked =
      context.driver().DeviceGetAttribute(&supported, attribute);
  if (asked != DriverResult::kSuccess || supported == 0) {
    return absl::UnimplementedError(
        absl::StrCat("the device maps no memory of the ", place.name));
  }
  FIRN_TRY_ASSIGN(const uint64_t bytes, BlockBytes(context.scene, place));
  const uint64_t granules = bytes / context.scene.granule_bytes();
  FIRN_TRY_ASSIGN(const std::unique_ptr<GranuleRow> device_side,
                  GranuleRow::Mapped(context.scene, granules));
  FIRN_TRY_ASSIGN(const std::unique_ptr<OwnStream> stream,
                  OwnStream::Create(&context.driver()));
  HostBlock block(context, place, bytes, device_side->base(), *stream);
  for (int round = 0; round < kMostRounds; ++round) {
    if (round > 0 && share.Passed()) break;
    FIRN_TRY(block.Live());
  }
  block.AddRows();
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureHost(MeasureContext& context) {
  std::vector<std::string> columns =
      WithFigures({"place", "bytes", "call"}, "us");
  columns.push_back("median_gb_s");  // of copies only
  context.report.BeginTable(
      {kTable,
       "memory of the host at device addresses, microseconds a call",
       columns,
       {}});
  int32_t node = 0;
  if (context.driver().DeviceGetAttribute(
          &node, DeviceAttribute::kHostNumaId) != DriverResult::kSuccess ||
      node < 0) {
    node = 0;
  }
  const absl::Status host =
      MeasurePlace(context, {"host", {LocationType::kHost, 0}},
                   DeviceAttribute::kHostVirtualMemoryManagement,
                   context.deadline.Share(0.5));
  const absl::Status numa = MeasurePlace(
      context,
      {absl::StrCat("host NUMA node ", node), {LocationType::kHostNuma, node}},
      DeviceAttribute::kHostNumaVirtualMemoryManagement, context.deadline);
  for (const absl::Status& status : {host, numa}) {
    if (!status.ok() && !IsNotPossible(status)) return status;
  }
  if (!host.ok() && !numa.ok()) return host;
  for (const absl::Status& status : {host, numa}) {
    if (!status.ok())
      context.report.Note(absl::StrCat("host: ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace firn::gpu_check
