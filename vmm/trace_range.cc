// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "firn/vmm/trace_range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

namespace firn {
namespace {

nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("firn");
  return domain;
}

}  // namespace

TraceRange::TraceRange(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(Domain(), &attributes);
}

TraceRange::~TraceRange() { nvtxDomainRangePop(Domain()); }

bool TraceRange::IsAvailable() { return true; }

}  // namespace firn

#else

namespace firn {

TraceRange::TraceRange(const char* /*name*/) {}
// Not defaulted: another build of the same header has something to do here.
TraceRange::~TraceRange() {}  // NOLINT(modernize-use-equals-default)
bool TraceRange::IsAvailable() { return false; }

}  // namespace firn

#endif
