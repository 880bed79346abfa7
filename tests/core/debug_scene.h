// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools with DebugOptions, whose reports are kept.

#ifndef FIRN_TESTS_CORE_DEBUG_SCENE_H_
#define FIRN_TESTS_CORE_DEBUG_SCENE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "firn/core/pool.h"
#include "firn/vmm/mutex.h"
#include "tests/support/pool_on_cpu.h"
#include "tests/support/status_matchers.h"

namespace firn::testing {

// Thread safety: all methods may be called from any thread.
class ReportLog {
 public:
  std::function<void(absl::string_view)> Keeper() {
    return [this](absl::string_view report) {
      MutexLock lock(&mutex_);
      reports_.emplace_back(report);
    };
  }
  // What has come since it was taken last.
  std::vector<std::string> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(reports_, {});
  }

 private:
  Mutex mutex_;
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mutex_);
};

struct DebugSetting {
  CpuSync sync = CpuSync::kLazy;
  bool moves = true;
};

inline std::vector<DebugSetting> DebugSettings() {
  return {{CpuSync::kLazy, true},
          {CpuSync::kDraining, true},
          {CpuSync::kLazy, false},
          {CpuSync::kDraining, false}};
}

inline std::string DebugSettingName(
    const ::testing::TestParamInfo<DebugSetting>& info) {
  return absl::StrCat(info.param.sync == CpuSync::kLazy ? "Lazy" : "Draining",
                      info.param.moves ? "" : "Fixed");
}

// Small granules: many steps on little memory.
inline constexpr uint64_t kDebugGranuleBytes = 64 * kKiB;

inline CpuDriverOptions DebugDriverOptions(const DebugSetting& setting) {
  CpuDriverOptions options;
  options.sync = setting.sync;
  options.virtual_memory = setting.moves;
  options.device_bytes = 256 * kMiB;
  options.granularity_bytes = kDebugGranuleBytes;
  return options;
}

inline PoolOptions DebugPoolOptions(ReportLog* log) {
  PoolOptions options;
  options.capacity_bytes = 64 * kMiB;
  options.debug.enabled = true;
  options.debug.report = log->Keeper();
  return options;
}

}  // namespace firn::testing

#endif  // FIRN_TESTS_CORE_DEBUG_SCENE_H_
