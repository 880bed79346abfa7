// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/cpu/cpu_driver_spec.h"

#include <cstdio>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "firn/vmm/driver_status.h"

namespace firn {
namespace {

constexpr int kLastResult = static_cast<int>(DriverResult::kUnknown);

// The readers of single values: false, and nothing changed, for a bad one.

template <typename Enum>
struct Word {
  absl::string_view text;
  Enum value;
};

template <typename Enum, size_t kWords>
bool ParseWord(absl::string_view text, const Word<Enum> (&words)[kWords],
               Enum* value) {
  for (const Word<Enum>& word : words) {
    if (text != word.text) continue;
    *value = word.value;
    return true;
  }
  return false;
}

bool ParseOnOff(absl::string_view text, bool* value) {
  return ParseWord<bool>(text, {{"on", true}, {"off", false}}, value);
}

bool ParseCount(absl::string_view text, uint64_t* value) {
  uint64_t number = 0;
  // SimpleAtoi takes signs and blanks as well.
  if (text.empty() ||
      !absl::ascii_isdigit(static_cast<unsigned char>(text.front()))) {
    return false;
  }
  if (!absl::SimpleAtoi(text, &number)) return false;
  *value = number;
  return true;
}

bool ParseBytes(absl::string_view text, uint64_t* value) {
  int shift = 0;
  if (absl::ConsumeSuffix(&text, "KiB")) {
    shift = 10;
  } else if (absl::ConsumeSuffix(&text, "MiB")) {
    shift = 20;
  } else if (absl::ConsumeSuffix(&text, "GiB")) {
    shift = 30;
  } else if (absl::ConsumeSuffix(&text, "TiB")) {
    shift = 40;
  }
  uint64_t number = 0;
  if (!ParseCount(text, &number)) return false;
  if (number > std::numeric_limits<uint64_t>::max() >> shift) return false;
  *value = number << shift;
  return true;
}

bool ReadDuration(absl::string_view text, absl::Duration* value) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      duration < absl::ZeroDuration()) {
    return false;
  }
  *value = duration;
  return true;
}

// A number, or a name with or without "CUDA_ERROR_".
bool ParseFailureResult(absl::string_view text, DriverResult* value) {
  uint64_t number = 0;
  if (ParseCount(text, &number)) {
    if (number == 0 || number > kLastResult) return false;
    *value = static_cast<DriverResult>(number);
    return true;
  }
  absl::ConsumePrefix(&text, "CUDA_ERROR_");
  const std::string name = absl::StrCat("CUDA_ERROR_", text);
  for (int i = 1; i <= kLastResult; ++i) {
    const auto result = static_cast<DriverResult>(i);
    if (DriverResultName(result) != name) continue;
    *value = result;
    return true;
  }
  return false;
}

// "3", "3+" or "0.5%".
bool ParseWhen(absl::string_view text, CpuDriverFailure* failure) {
  if (absl::ConsumeSuffix(&text, "%")) {
    double percent = 0;
    if (!absl::SimpleAtod(text, &percent)) return false;
    if (!(percent >= 0 && percent <= 100)) return false;
    failure->when = CpuDriverFailure::When::kProbability;
    failure->probability = percent / 100;
    return true;
  }
  failure->when = absl::ConsumeSuffix(&text, "+")
                      ? CpuDriverFailure::When::kFromNth
                      : CpuDriverFailure::When::kNth;
  return ParseCount(text, &failure->nth) && failure->nth >= 1;
}

bool ParseFailure(absl::string_view text, CpuDriverFailure* failure) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 3) return false;
  failure->any_call = parts[0] == "*";
  if (!failure->any_call) {
    const absl::StatusOr<DriverCall> call = ParseDriverCall(parts[0]);
    if (!call.ok()) return false;
    failure->call = *call;
  }
  if (!ParseWhen(parts[1], failure)) return false;
  if (failure->when == CpuDriverFailure::When::kFromNth && !failure->any_call) {
    return false;
  }
  return ParseFailureResult(parts[2], &failure->result);
}

bool ParseDefect(absl::string_view text, CpuDefect* defect) {
  static constexpr Word<CpuDefect> kDefects[] = {
      {"none", CpuDefect::kNone},
      {"access_check_dropped", CpuDefect::kAccessCheckDropped},
      {"sub_range_unmap_allowed", CpuDefect::kSubRangeUnmapAllowed},
      {"map_over_mapped_allowed", CpuDefect::kMapOverMappedAllowed},
      {"partial_map_allowed", CpuDefect::kPartialMapAllowed},
      {"hole_in_set_access_allowed", CpuDefect::kHoleInSetAccessAllowed},
      {"access_survives_remap", CpuDefect::kAccessSurvivesRemap},
      {"peer_forgotten", CpuDefect::kPeerForgotten},
      {"free_while_mapped_allowed", CpuDefect::kFreeWhileMappedAllowed},
      {"release_frees_while_mapped", CpuDefect::kReleaseFreesWhileMapped},
      {"retain_adds_no_reference", CpuDefect::kRetainAddsNoReference},
      {"export_of_private_allowed", CpuDefect::kExportOfPrivateAllowed},
      {"import_survives_nothing", CpuDefect::kImportSurvivesNothing},
      {"poison_skipped", CpuDefect::kPoisonSkipped},
      {"unmap_waits_in_lazy", CpuDefect::kUnmapWaitsInLazy},
      {"drain_skipped", CpuDefect::kDrainSkipped},
      {"sticky_error_forgotten", CpuDefect::kStickyErrorForgotten},
      {"coherence_check_off", CpuDefect::kCoherenceCheckOff},
      {"stream_id_reused", CpuDefect::kStreamIdReused},
      {"calls_in_host_function_allowed",
       CpuDefect::kCallsInHostFunctionAllowed},
      {"capture_ignores_forbidden_calls",
       CpuDefect::kCaptureIgnoresForbiddenCalls},
  };
  return ParseWord(text, kDefects, defect);
}

// Whether refused calls and losses of a device are printed.
bool ReadErrors(absl::string_view value, CpuDriverSpec* spec) {
  if (value == "losses") {
    spec->options.report = nullptr;
  } else if (value == "stderr") {
    spec->options.report = [](absl::string_view line) {
      // In one call, so that lines of several threads stay whole.
      std::fputs(absl::StrCat(line, "\n").c_str(), stderr);
    };
  } else if (value == "quiet") {
    spec->options.report = [](absl::string_view) {};
  } else {
    return false;
  }
  return true;
}

// One key: reads a value into a spec; and what is right for it.
struct Key {
  absl::string_view name;
  bool (*read)(absl::string_view value, CpuDriverSpec* spec);
  absl::string_view expected;
};

static_assert(kMaxCpuDevices == 8, "what is expected for devices says so");
constexpr absl::string_view kOnOff = "on or off";
constexpr absl::string_view kBytes =
    "a number of bytes such as 4GiB, 2MiB or 65536";
constexpr absl::string_view kCount = "a whole number";
constexpr absl::string_view kDuration = "a time such as 500ms or 10s";

constexpr Key kKeys[] = {
    {"storage",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseWord<CpuStorage>(
           value, {{"real", CpuStorage::kReal}, {"ghost", CpuStorage::kGhost}},
           &spec->options.storage);
     },
     "real or ghost"},
    {"devices",
     [](absl::string_view value, CpuDriverSpec* spec) {
       uint64_t count = 0;
       if (!ParseCount(value, &count) || count < 1 || count > kMaxCpuDevices) {
         return false;
       }
       spec->options.device_count = static_cast<int>(count);
       return true;
     },
     "a number from 1 to 8"},
    {"peer_access",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseOnOff(value, &spec->options.peer_access);
     },
     kOnOff},
    {"virtual_memory",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseOnOff(value, &spec->options.virtual_memory);
     },
     kOnOff},
    {"device_bytes",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseBytes(value, &spec->options.device_bytes);
     },
     kBytes},
    {"granularity",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseBytes(value, &spec->options.granularity_bytes);
     },
     kBytes},
    {"poison",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseOnOff(value, &spec->options.poison);
     },
     kOnOff},
    {"max_handles",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseCount(value, &spec->options.max_handles);
     },
     kCount},
    {"max_mappings",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseCount(value, &spec->options.max_mappings);
     },
     kCount},
    {"sync",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseWord<CpuSync>(
           value, {{"lazy", CpuSync::kLazy}, {"draining", CpuSync::kDraining}},
           &spec->options.sync);
     },
     "lazy or draining"},
    {"parked_timeout",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ReadDuration(value, &spec->options.parked_timeout);
     },
     kDuration},
    {"deadlock_timeout",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ReadDuration(value, &spec->options.deadlock_timeout);
     },
     kDuration},
    {"check_coherence",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseOnOff(value, &spec->options.check_coherence);
     },
     kOnOff},
    {"unsafe_vmm_in_capture",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseOnOff(value, &spec->options.unsafe_vmm_in_capture);
     },
     kOnOff},
    {"device_name",
     [](absl::string_view value, CpuDriverSpec* spec) {
       spec->options.device_name = std::string(value);
       return !value.empty();
     },
     "a name"},
    {"defect",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseDefect(value, &spec->options.defect);
     },
     "none or a defect of vmm/cpu/cpu_defect.h such as "
     "sub_range_unmap_allowed"},
    {"errors", &ReadErrors, "losses, stderr or quiet"},
    {"cost",
     [](absl::string_view value, CpuDriverSpec* spec) {
       const absl::StatusOr<CostProfile> profile = ParseCostProfile(value);
       if (!profile.ok()) return false;
       spec->cost = *profile;
       return true;
     },
     "none, fast or a100"},
    {"fail",
     [](absl::string_view value, CpuDriverSpec* spec) {
       CpuDriverFailure failure;
       if (!ParseFailure(value, &failure)) return false;
       spec->failures.push_back(failure);
       return true;
     },
     "CALL:WHEN:RESULT: a call such as cuMemMap, or *; 3 for the third one, 1% "
     "for one in a hundred, or (with * only) 3+ for the third and all after "
     "it; a result such as 2 or OUT_OF_MEMORY"},
    {"fail_seed",
     [](absl::string_view value, CpuDriverSpec* spec) {
       return ParseCount(value, &spec->failure_seed);
     },
     kCount},
    {"log",
     [](absl::string_view value, CpuDriverSpec* spec) {
       spec->log_path = std::string(value);
       return !value.empty();
     },
     "the path of a file"},
};

std::string KeyNames() {
  return absl::StrJoin(kKeys, ", ", [](std::string* out, const Key& key) {
    absl::StrAppend(out, key.name);
  });
}

absl::Status ParseEntry(absl::string_view entry, CpuDriverSpec* spec) {
  const size_t equals = entry.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", entry, "': expected KEY=VALUE"));
  }
  const absl::string_view name = entry.substr(0, equals);
  const absl::string_view value = entry.substr(equals + 1);
  for (const Key& key : kKeys) {
    if (key.name != name) continue;
    if (key.read(value, spec)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", value, ": expected ", key.expected));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(entry, ": unknown key; expected one of ", KeyNames()));
}

}  // namespace

absl::StatusOr<CpuDriverSpec> ParseCpuDriverSpec(absl::string_view text) {
  CpuDriverSpec spec;
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const absl::Status status = ParseEntry(entry, &spec);
    if (!status.ok()) return status;
  }
  return spec;
}

}  // namespace firn
