// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/way.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "firn/vmm/allocation_props.h"
#include "firn/vmm/cpu/libcuda/firn_cpu_driver.h"
#include "firn/vmm/cuda/cuda_driver.h"
#include "firn/vmm/mutex.h"

#ifndef FIRN_CPU_LIBCUDA
#define FIRN_CPU_LIBCUDA ""
#endif

namespace firn::testing {
namespace {

// Of devices without a GPU: the smallest one that firn supports.
constexpr uint64_t kGranuleBytes = uint64_t{64} << 10;
constexpr int kMaxDevices = 2;

void CallBody(void* body) { (*static_cast<std::function<void()>*>(body))(); }

template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  *function = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

// Makes a device's primary context current, as a launch of a kernel needs it
// and as CudaDriver does for its own calls alone.
class CurrentContext {
 public:
  bool Find(void* library) {
    return FindFunction(library, "cuDevicePrimaryCtxRetain", &retain_) &&
           FindFunction(library, "cuDevicePrimaryCtxRelease_v2", &release_) &&
           FindFunction(library, "cuCtxPushCurrent_v2", &push_) &&
           FindFunction(library, "cuCtxPopCurrent_v2", &pop_);
  }
  DriverResult Around(int device, const std::function<int()>& call) const {
    void* context = nullptr;
    int result = retain_(&context, device);
    if (result != 0) return static_cast<DriverResult>(result);
    result = push_(context);
    if (result == 0) {
      result = call();
      void* popped = nullptr;
      (void)pop_(&popped);
    }
    (void)release_(device);
    return static_cast<DriverResult>(result);
  }

 private:
  int (*retain_)(void** context, int device) = nullptr;
  int (*release_)(int device) = nullptr;
  int (*push_)(void* context) = nullptr;
  int (*pop_)(void** context) = nullptr;
};

absl::StatusOr<std::unique_ptr<DeviceSet>> OpenCpu(
    CpuSync sync, const DeviceSetOptions& wanted) {
  CpuDriverOptions options;
  options.device_count = wanted.device_count;
  options.granularity_bytes = kGranuleBytes;
  options.device_bytes = wanted.device_bytes;
  options.max_handles = wanted.max_handles;
  options.max_mappings = wanted.max_mappings;
  options.sync = sync;
  options.defect = wanted.defect;
  // Refusals and losses are what many tests provoke: say nothing.
  options.report = [](absl::string_view) {};
  auto drivers = CpuDriver::CreateDevices(options);
  if (!drivers.ok()) return drivers.status();

  auto set = std::make_unique<DeviceSet>();
  std::vector<CpuDriver*> cpu_drivers;
  for (std::unique_ptr<CpuDriver>& driver : *drivers) {
    cpu_drivers.push_back(driver.get());
    set->drivers.push_back(std::move(driver));
  }
  set->launch_kernel = [cpu_drivers](size_t ordinal, StreamHandle stream,
                                     const std::vector<KernelRange>& ranges,
                                     std::function<void()>* body) {
    return cpu_drivers[ordinal]->LaunchKernel(stream, ranges,
                                              [body] { (*body)(); });
  };
  set->last_report = [cpu_drivers](size_t ordinal) {
    return cpu_drivers[ordinal]->last_report();
  };
  return set;
}

absl::StatusOr<std::unique_ptr<DeviceSet>> OpenCuda(const std::string& library,
                                                    int device_count) {
  auto set = std::make_unique<DeviceSet>();
  CudaDriverOptions options;
  options.library = library;
  auto first = OpenCudaDriver(options);
  if (!first.ok()) return first.status();
  set->drivers.push_back(*std::move(first));
  int32_t present = 0;
  if (device_count > 1 &&
      set->drivers[0]->DeviceGetCount(&present) == DriverResult::kSuccess &&
      present > 1) {
    options.device_ordinal = 1;
    auto second = OpenCudaDriver(options);
    if (!second.ok()) return second.status();
    set->drivers.push_back(*std::move(second));
  }
  return set;
}

// The library reads its settings at the first cuInit of a process and never
// again.
absl::Status SettleLibrary(const DeviceSetOptions& wanted) {
  static Mutex mutex;
  static auto* const settled = new std::string;
  if (wanted.defect != CpuDefect::kNone) {
    return absl::InvalidArgumentError("the library has no defects on order");
  }
  const std::string settings =
      absl::StrCat("devices=", kMaxDevices, ",granularity=", kGranuleBytes,
                   ",device_bytes=", wanted.device_bytes,
                   ",errors=quiet,max_handles=", wanted.max_handles,
                   ",max_mappings=", wanted.max_mappings);
  MutexLock lock(&mutex);
  if (settled->empty()) {
    *settled = settings;
    setenv("FIRN_CPU_DRIVER", settings.c_str(), /*overwrite=*/1);
  } else if (*settled != settings) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this process has the library as ", *settled, ", not as ", settings));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceSet>> OpenLibrary(
    const DeviceSetOptions& wanted) {
  const std::string path = FIRN_CPU_LIBCUDA;
  if (path.empty()) {
    return absl::UnavailableError("the CPU driver's library was not built");
  }
  const absl::Status settled = SettleLibrary(wanted);
  if (!settled.ok()) return settled;
  auto set = OpenCuda(path, wanted.device_count);
  if (!set.ok()) return set;
  // Already open: this only finds it. It stays open, as the driver has it.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  firnCpuLaunchHostKernelFunction launch = nullptr;
  firnCpuLastReportFunction last_report = nullptr;
  CurrentContext context;
  if (!FindFunction(library, "firnCpuLaunchHostKernel", &launch) ||
      !FindFunction(library, "firnCpuLastReport", &last_report) ||
      !context.Find(library)) {
    return absl::UnavailableError(
        absl::StrCat(path, " lacks functions that it should have"));
  }
  (*set)->launch_kernel = [launch, context](
                              size_t ordinal, StreamHandle stream,
                              const std::vector<KernelRange>& ranges,
                              std::function<void()>* body) {
    std::vector<firnCpuRange> declared;
    for (const KernelRange& range : ranges) {
      declared.push_back({range.address, range.bytes, range.writes ? 1 : 0});
    }
    return context.Around(static_cast<int>(ordinal), [&] {
      return launch(stream, &CallBody, body, declared.data(), declared.size());
    });
  };
  (*set)->last_report = [last_report](size_t /*ordinal*/) {
    char report[1024] = "";
    (void)last_report(report, sizeof(report));
    return std::string(report);
  };
  return set;
}

absl::StatusOr<std::unique_ptr<DeviceSet>> Open(
    Way way, const DeviceSetOptions& options) {
  switch (way) {
    case Way::kCpuLazy:
      return OpenCpu(CpuSync::kLazy, options);
    case Way::kCpuDraining:
      return OpenCpu(CpuSync::kDraining, options);
    case Way::kLibcuda:
      return OpenLibrary(options);
    case Way::kGpu: {
      const char* const library = std::getenv("FIRN_TEST_LIBRARY");
      return OpenCuda(library == nullptr ? "" : library, options.device_count);
    }
  }
  return absl::InternalError("unknown way");
}

}  // namespace

absl::string_view WayName(Way way) {
  switch (way) {
    case Way::kCpuLazy:
      return "cpu_lazy";
    case Way::kCpuDraining:
      return "cpu_draining";
    case Way::kLibcuda:
      return "libcuda";
    case Way::kGpu:
      return "gpu";
  }
  return "unknown";
}

absl::StatusOr<Way> ParseWay(absl::string_view name) {
  for (const Way way :
       {Way::kCpuLazy, Way::kCpuDraining, Way::kLibcuda, Way::kGpu}) {
    if (WayName(way) == name) return way;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown way '", name, "'; known: cpu_lazy cpu_draining libcuda gpu"));
}

bool OpensAfresh(Way way) {
  return way == Way::kCpuLazy || way == Way::kCpuDraining;
}

absl::StatusOr<std::unique_ptr<DeviceSet>> OpenDevices(
    Way way, const DeviceSetOptions& options) {
  if (options.device_count < 1 || options.device_count > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("1 or 2 devices, not ", options.device_count));
  }
  auto set = Open(way, options);
  if (!set.ok()) return set;
  (*set)->way = way;
  const AllocationProp prop = MovableProp(0);
  size_t granule_bytes = 0;
  const DriverResult result = (*set)->drivers[0]->MemGetAllocationGranularity(
      &granule_bytes, &prop, GranularityKind::kMinimum);
  if (result != DriverResult::kSuccess) {
    return absl::InternalError(absl::StrCat(
        "cuMemGetAllocationGranularity returned ", static_cast<int>(result)));
  }
  (*set)->granule_bytes = granule_bytes;
  return set;
}

Way TestWay() {
  const char* const name = std::getenv("FIRN_TEST_WAY");
  if (name == nullptr) return Way::kCpuLazy;
  const absl::StatusOr<Way> way = ParseWay(name);
  if (!way.ok()) {
    std::fprintf(stderr, "FIRN_TEST_WAY: %s\n",
                 std::string(way.status().message()).c_str());
    std::abort();
  }
  return *way;
}

absl::StatusOr<std::unique_ptr<DeviceSet>> OpenTestDevices() {
  return OpenDevices(TestWay(), DeviceSetOptions());
}

}  // namespace firn::testing
