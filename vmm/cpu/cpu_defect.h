// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Single rules of the CPU driver that a test can switch off, to see that the
// checks of the contract notice.

#ifndef FIRN_VMM_CPU_CPU_DEFECT_H_
#define FIRN_VMM_CPU_CPU_DEFECT_H_

namespace firn {

// For tests of tests only: a driver with a defect is wrong on purpose.
enum class CpuDefect {
  kNone,
  // Mappings and access.
  kAccessCheckDropped,      // work runs whatever its ranges may be accessed
  kSubRangeUnmapAllowed,    // a part of a mapping may be unmapped
  kMapOverMappedAllowed,    // what is mapped there before is replaced
  kPartialMapAllowed,       // a part of an allocation may be mapped
  kHoleInSetAccessAllowed,  // access is set around what is not mapped
  kAccessSurvivesRemap,     // a new mapping has the access of the last one
  kPeerForgotten,           // only the first access descriptor counts
  kFreeWhileMappedAllowed,  // reservations go with mappings in them
  // Handles.
  kReleaseFreesWhileMapped,  // memory goes with its last handle
  kRetainAddsNoReference,
  kExportOfPrivateAllowed,  // whatever handle types were asked for
  kImportSurvivesNothing,   // imported memory goes with the exporter's handle
  kPoisonSkipped,           // fresh memory reads as zero
  // Work.
  kUnmapWaitsInLazy,      // kLazy drains as kDraining does
  kDrainSkipped,          // kDraining waits for nothing
  kStickyErrorForgotten,  // a lost device recovers with the next call
  kCoherenceCheckOff,
  kStreamIdReused,
  kCallsInHostFunctionAllowed,
  kCaptureIgnoresForbiddenCalls,
};

}  // namespace firn

#endif  // FIRN_VMM_CPU_CPU_DEFECT_H_
