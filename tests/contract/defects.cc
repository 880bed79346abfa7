// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/contract/defects.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace firn::contract {

const std::vector<DefectCase>& DefectCases() {
  using Defect = CpuDefect;
  constexpr Way kLazy = Way::kCpuLazy;
  constexpr Way kDraining = Way::kCpuDraining;
  static const auto* const cases = new std::vector<DefectCase>{
      {Defect::kAccessCheckDropped, "AccessCheckDropped",
       "fault.kernel_on_memory_without_access_loses_the_device", kLazy},
      {Defect::kSubRangeUnmapAllowed, "SubRangeUnmapAllowed",
       "unmap.refuses_part_of_a_mapping", kLazy},
      {Defect::kMapOverMappedAllowed, "MapOverMappedAllowed",
       "map.refuses_what_is_mapped", kLazy},
      {Defect::kPartialMapAllowed, "PartialMapAllowed",
       "map.refuses_part_of_an_allocation", kLazy},
      {Defect::kHoleInSetAccessAllowed, "HoleInSetAccessAllowed",
       "set_access.refuses_a_hole", kLazy},
      {Defect::kAccessSurvivesRemap, "AccessSurvivesRemap",
       "set_access.is_needed_again_after_a_remap", kLazy},
      {Defect::kPeerForgotten, "PeerForgotten",
       "set_access.serves_several_locations_in_one_call", kLazy},
      {Defect::kFreeWhileMappedAllowed, "FreeWhileMappedAllowed",
       "address_free.refuses_while_mapped", kLazy},
      {Defect::kReleaseFreesWhileMapped, "ReleaseFreesWhileMapped",
       "release.while_mapped_keeps_contents", kLazy},
      {Defect::kRetainAddsNoReference, "RetainAddsNoReference",
       "retain.adds_a_reference", kLazy},
      {Defect::kExportOfPrivateAllowed, "ExportOfPrivateAllowed",
       "export_handle.needs_the_type_asked_for_at_creation", kLazy},
      {Defect::kImportSurvivesNothing, "ImportSurvivesNothing",
       "import_handle.outlives_the_exporters_handle", kLazy},
      {Defect::kPoisonSkipped, "PoisonSkipped", "poison.fresh_memory_holds_it",
       kLazy},
      {Defect::kUnmapWaitsInLazy, "UnmapWaitsInLazy",
       "sync.lazy_unmap_does_not_wait", kLazy},
      {Defect::kDrainSkipped, "DrainSkipped", "sync.draining_unmap_waits",
       kDraining},
      {Defect::kStickyErrorForgotten, "StickyErrorForgotten",
       "fault.every_later_call_says_so", kLazy},
      {Defect::kCoherenceCheckOff, "CoherenceCheckOff",
       "alias.unordered_read_through_another_address_is_an_error", kLazy},
      {Defect::kStreamIdReused, "StreamIdReused", "stream.ids_are_never_reused",
       kLazy},
      {Defect::kCallsInHostFunctionAllowed, "CallsInHostFunctionAllowed",
       "host_function.may_not_call_the_driver", kLazy},
      {Defect::kCaptureIgnoresForbiddenCalls, "CaptureIgnoresForbiddenCalls",
       "capture.synchronizing_the_stream_is_refused_and_invalidates", kLazy},
  };
  return *cases;
}

absl::StatusOr<CpuDefect> ParseDefect(absl::string_view name) {
  if (name == "None") return CpuDefect::kNone;
  for (const DefectCase& each : DefectCases()) {
    if (each.defect_name == name) return each.defect;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown defect '", name, "'"));
}

}  // namespace firn::contract
