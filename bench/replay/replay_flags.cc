// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/replay/replay_flags.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "bench/policies/background_trigger.h"
#include "bench/policies/make_policy.h"
#include "bench/replay/usage_series.h"
#include "bench/traces/byte_count.h"
#include "bench/traces/decimal_number.h"
#include "bench/traces/whole_number.h"
#include "firn/core/placement_kind.h"
#include "firn/vmm/cost_model.h"
#include "firn/vmm/cpu/cpu_driver.h"

namespace firn::bench {
namespace {

// Of the devices that a replay runs on.
constexpr uint64_t kDeviceGranularityBytes = uint64_t{2} << 20;
constexpr uint64_t kLargestGranuleBytes = uint64_t{64} << 20;

constexpr uint64_t kMostFullPasses = 1000;

// A value that is no member of a flag's list of values.
absl::Status NotOneOf(const std::vector<absl::string_view>& values) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected one of ", absl::StrJoin(values, ", ")));
}

absl::Status SetTrace(absl::string_view value, ReplayFlags* flags) {
  if (value.empty()) {
    return absl::InvalidArgumentError(
        "expected a file, a folder or gen:NAME, with ,key=value after it");
  }
  flags->trace = std::string(value);
  return absl::OkStatus();
}

absl::Status SetPolicy(absl::string_view value, ReplayFlags* flags) {
  const std::vector<absl::string_view> names = PolicyNames();
  if (std::find(names.begin(), names.end(), value) == names.end()) {
    return NotOneOf(names);
  }
  flags->policy.policy = std::string(value);
  return absl::OkStatus();
}

absl::Status SetCompaction(absl::string_view value, ReplayFlags* flags) {
  if (value == "off") {
    flags->policy.compaction = CompactionMode::kOff;
  } else if (value == "on_demand") {
    flags->policy.compaction = CompactionMode::kOnDemand;
  } else if (value == "background") {
    flags->policy.compaction = CompactionMode::kBackground;
  } else if (value == "controller") {
    flags->policy.compaction = CompactionMode::kController;
  } else {
    return NotOneOf({"off", "on_demand", "background", "controller"});
  }
  return absl::OkStatus();
}

std::vector<absl::string_view> PlacementNames() {
  std::vector<absl::string_view> names;
  for (int i = 0; i <= static_cast<int>(PlacementKind::kTiered); ++i) {
    names.push_back(PlacementKindName(static_cast<PlacementKind>(i)));
  }
  return names;
}

absl::Status SetPlacement(absl::string_view value, ReplayFlags* flags) {
  const std::optional<PlacementKind> kind = PlacementKindFromName(value);
  if (!kind.has_value()) return NotOneOf(PlacementNames());
  flags->policy.placement = *kind;
  return absl::OkStatus();
}

absl::Status SetCapacity(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<Capacity> capacity = ParseCapacity(value);
  if (!capacity.ok()) return capacity.status();
  flags->capacity = *capacity;
  return absl::OkStatus();
}

absl::Status SetGranule(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<uint64_t> bytes = ParseByteCount(value);
  if (!bytes.ok() || *bytes % kDeviceGranularityBytes != 0 ||
      (*bytes & (*bytes - 1)) != 0 || *bytes == 0 ||
      *bytes > kLargestGranuleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a power of two that is a multiple of the device's "
        "granularity of ",
        FormatByteCount(kDeviceGranularityBytes), ", up to ",
        FormatByteCount(kLargestGranuleBytes)));
  }
  flags->policy.granule_bytes = *bytes;
  return absl::OkStatus();
}

absl::Status SetStorage(absl::string_view value, ReplayFlags* flags) {
  if (value == "ghost") {
    flags->policy.storage = CpuStorage::kGhost;
  } else if (value == "real") {
    flags->policy.storage = CpuStorage::kReal;
  } else {
    return NotOneOf({"ghost", "real"});
  }
  return absl::OkStatus();
}

absl::Status SetCost(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<CostProfile> cost = ParseCostProfile(value);
  if (!cost.ok()) return NotOneOf({"a100", "fast", "none"});
  flags->policy.cost = *cost;
  return absl::OkStatus();
}

absl::Status SetIdleShare(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<double> share = ParseDecimal(value, /*most=*/1);
  if (!share.ok()) {
    return absl::InvalidArgumentError(
        "expected a number from 0 to 1 such as 0.05");
  }
  flags->policy.idle_share = *share;
  return absl::OkStatus();
}

absl::Status SetToleratedWaste(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<double> percent = ParseDecimal(value, /*most=*/100);
  if (!percent.ok()) {
    return absl::InvalidArgumentError(
        "expected a percentage, a number from 0 to 100 such as 3.5");
  }
  flags->policy.tolerated_waste_percent = *percent;
  return absl::OkStatus();
}

absl::Status SetFullPasses(absl::string_view value, ReplayFlags* flags) {
  absl::StatusOr<uint64_t> passes = ParseWholeNumber(value);
  if (!passes.ok() || *passes > kMostFullPasses) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a whole number from 0 to ", kMostFullPasses, " such as 20"));
  }
  flags->full_passes = *passes;
  return absl::OkStatus();
}

absl::Status SetExportRmm(absl::string_view value, ReplayFlags* flags) {
  if (value.empty()) return absl::InvalidArgumentError("expected a file");
  flags->export_rmm = std::string(value);
  return absl::OkStatus();
}

absl::Status SetUsageSeries(absl::string_view value, ReplayFlags* flags) {
  if (value.empty()) return absl::InvalidArgumentError("expected a file");
  flags->usage_series = std::string(value);
  return absl::OkStatus();
}

absl::Status SetExportSnapshot(absl::string_view value, ReplayFlags* flags) {
  if (value.empty()) return absl::InvalidArgumentError("expected a file");
  flags->export_snapshot = std::string(value);
  flags->policy.keeps_history = true;
  return absl::OkStatus();
}

struct ValueFlag {
  absl::string_view name;
  absl::Status (*set)(absl::string_view value, ReplayFlags* flags);
};

constexpr ValueFlag kValueFlags[] = {
    {"trace", &SetTrace},
    {"policy", &SetPolicy},
    {"compaction", &SetCompaction},
    {"placement", &SetPlacement},
    {"capacity", &SetCapacity},
    {"granule", &SetGranule},
    {"storage", &SetStorage},
    {"cost", &SetCost},
    {"export_rmm", &SetExportRmm},
    {"export_snapshot", &SetExportSnapshot},
    {"idle_share", &SetIdleShare},
    {"tolerated_waste", &SetToleratedWaste},
    {"full_passes", &SetFullPasses},
    {"usage_series", &SetUsageSeries},
};

struct Switch {
  absl::string_view name;
  void (*set)(ReplayFlags* flags);
};

constexpr Switch kSwitches[] = {
    {"verify", [](ReplayFlags* flags) { flags->policy.verify = true; }},
    {"json", [](ReplayFlags* flags) { flags->json = true; }},
    {"help", [](ReplayFlags* flags) { flags->help = true; }},
};

absl::Status ApplyArgument(absl::string_view arg, absl::string_view name,
                           ReplayFlags* flags) {
  const size_t equals = arg.find('=');
  const bool has_value = equals != absl::string_view::npos;
  for (const Switch& option : kSwitches) {
    if (option.name != name) continue;
    if (has_value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " takes no value"));
    }
    option.set(flags);
    return absl::OkStatus();
  }
  for (const ValueFlag& flag : kValueFlags) {
    if (flag.name != name) continue;
    if (!has_value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": expected --", name, "=VALUE"));
    }
    const absl::string_view value = arg.substr(equals + 1);
    absl::Status set = flag.set(value, flags);
    if (set.ok()) return set;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": ", Quoted(value), ": ", std::string(set.message())));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag ", Quoted(arg), "; --help lists those there are"));
}

// What no flag can be told to be wrong by itself.
absl::Status CheckTogether(const ReplayFlags& flags) {
  const PolicyOptions& policy = flags.policy;
  const bool is_real = policy.storage == CpuStorage::kReal;
  if (flags.trace.empty()) {
    return absl::InvalidArgumentError(
        "--trace is missing: --trace=FILE, --trace=DIR or --trace=gen:NAME");
  }
  if (policy.policy != "firn" && is_real) {
    return absl::InvalidArgumentError(
        absl::StrCat("--storage: 'real': policy ", policy.policy,
                     " keeps books only; only firn has contents"));
  }
  if (policy.policy != "firn" && policy.placement != PlacementKind::kFirn) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--placement: '", PlacementKindName(policy.placement), "': policy ",
        policy.policy, " places blocks in its own way; only firn has others"));
  }
  if (policy.verify && !is_real) {
    return absl::InvalidArgumentError(
        "--verify: ghost storage has no contents to check; add "
        "--storage=real");
  }
  if (policy.compaction == CompactionMode::kController &&
      policy.policy != "firn") {
    return absl::InvalidArgumentError(
        absl::StrCat("--compaction: 'controller': policy ", policy.policy,
                     " has none; only firn has"));
  }
  if (policy.idle_share.has_value() &&
      (policy.policy != "firn" ||
       policy.compaction != CompactionMode::kBackground)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--idle_share: '", *policy.idle_share,
        "': only firn with --compaction=background moves what is idle"));
  }
  if (policy.tolerated_waste_percent.has_value() &&
      !CompactsInBackground(policy)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tolerated_waste: '", *policy.tolerated_waste_percent,
        "': only firn and paged_migrating with --compaction=background move "
        "memory because of waste"));
  }
  if (!flags.export_snapshot.empty() && policy.policy != "firn") {
    return absl::InvalidArgumentError(
        absl::StrCat("--export_snapshot: policy ", policy.policy,
                     " has no snapshots; only firn has"));
  }
  for (const auto& [name, file] :
       {std::pair("--usage_series", &flags.usage_series),
        std::pair("--export_snapshot", &flags.export_snapshot)}) {
    if (!file->empty() && flags.capacity.kind == Capacity::Kind::kMinimum) {
      return absl::InvalidArgumentError(
          absl::StrCat(name,
                       ": with --capacity=min there are several replays; give "
                       "a size or Nx"));
    }
  }
  if (flags.full_passes > 0 &&
      (policy.policy != "firn" || policy.compaction == CompactionMode::kOff ||
       policy.idle_share.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--full_passes: '", flags.full_passes,
        "': only firn with --compaction=on_demand, background or controller, "
        "and without --idle_share, moves all of its live memory"));
  }
  if (flags.capacity.kind == Capacity::Kind::kBytes &&
      flags.capacity.bytes < policy.granule_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--capacity: '", FormatByteCount(flags.capacity.bytes),
                     "': expected at least one granule of ",
                     FormatByteCount(policy.granule_bytes)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayFlags> ParseReplayFlags(
    absl::Span<const absl::string_view> args) {
  ReplayFlags flags;
  std::set<absl::string_view> seen;
  for (const absl::string_view arg : args) {
    absl::string_view name = arg;
    if (!absl::ConsumePrefix(&name, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(arg), ": expected a flag, --name=value"));
    }
    name = name.substr(0, name.find('='));
    if (absl::Status applied = ApplyArgument(arg, name, &flags);
        !applied.ok()) {
      return applied;
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is given twice"));
    }
  }
  if (flags.help) return flags;
  if (absl::Status status = CheckTogether(flags); !status.ok()) return status;
  return flags;
}

std::string ReplayHelp() {
  return absl::StrCat(
      R"(usage: firn_replay --trace=SPEC [flags]

Replays a trace of allocations and frees on a model of one GPU's memory and
prints how well a policy used it.

  --trace=SPEC         FILE, DIR or gen:NAME, with ,key=value after it: an RMM
                       log (CSV), a PyTorch memory snapshot (pickle), LLM
                       requests (CSV of Azure or BurstGPT, JSON lines of
                       Mooncake, a ServeGen folder)
  --policy=NAME        )",
      absl::StrJoin(PolicyNames(), ", "), R"(
                       (default firn)
  --compaction=MODE    when firn and paged_migrating move live memory: off,
                       on_demand (when an allocation would fail), background
                       (also meanwhile) or, firn alone, controller (meanwhile,
                       when its own controller says so); others never do
                       (default on_demand)
  --idle_share=SHARE   this share of the live blocks, from 0 to 1, is declared
                       idle, those allocated longest ago, and firn moves nothing
                       else (with --compaction=background)
  --tolerated_waste=PERCENT
                       how much may be wasted, in percent of the live bytes,
                       before live memory moves (with --compaction=background;
                       default )",
      BackgroundTrigger::kToleratedWastePercent, R"()
  --full_passes=N      N times, from 0 to )",
      kMostFullPasses, R"(, spread evenly over the events,
                       firn makes a pass without limits, and what it then uses
                       is compared with the least that any plan could end with
                       (with --compaction=on_demand, background or controller
                       and without --idle_share; default 0)
  --placement=NAME     how firn places blocks: )",
      absl::StrJoin(PlacementNames(), ", "), R"(
                       (default firn)
  --capacity=SIZE      most memory the policy may hold: a size (80GiB), a
                       multiple of the trace's peak (1.02x), or min: the least
                       in which no allocation fails (default 80GiB)
  --granule=SIZE       what one physical handle holds (default 2MiB)
  --storage=KIND       ghost: books only; real: memory with contents, firn
                       alone (default ghost)
  --cost=PROFILE       what driver calls are charged: a100, fast or none
                       (default a100)
  --verify             fill blocks with a pattern and check it after every move
                       and before every free (with --storage=real)
  --export_rmm=FILE    also write the trace to FILE as an RMM log
  --export_snapshot=FILE
                       also write what lies where when most is live, and the
                       last events until then, for PyTorch's memory viewer (with
                       firn; not with --capacity=min)
  --usage_series=FILE  also write the mean live, used and held bytes of each of
                       )",
      UsageSeries::kIntervals, R"( parts of the trace's time to FILE, as CSV
                       (not with --capacity=min)
  --json               print one JSON object instead of a table
  --help               print this

Exit status: 0 every event was replayed, failed allocations included; 1 a block
lost its contents, or an event cannot be replayed; 2 a bad trace or flag.
)");
}

}  // namespace firn::bench
