// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// What firn uses of NVTX, for a test: ranges are recorded. Names are NVTX's.

#ifndef FIRN_TESTS_VMM_TRACE_RANGE_NVTX3_NVTOOLSEXT_H_
#define FIRN_TESTS_VMM_TRACE_RANGE_NVTX3_NVTOOLSEXT_H_

#include <cstdint>
#include <string>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming)
using nvtxDomainHandle_t = const char*;

struct nvtxEventAttributes_t {
  uint16_t version;
  uint16_t size;
  int32_t messageType;
  union {
    const char* ascii;
  } message;
};

inline constexpr uint16_t NVTX_VERSION = 3;
inline constexpr uint16_t NVTX_EVENT_ATTRIB_STRUCT_SIZE =
    sizeof(nvtxEventAttributes_t);
inline constexpr int32_t NVTX_MESSAGE_TYPE_ASCII = 1;

// "domain: name" for a range that begins, "domain: end" for one that ends.
inline std::vector<std::string>& NvtxRecord() {
  static std::vector<std::string> record;
  return record;
}

inline nvtxDomainHandle_t nvtxDomainCreateA(const char* name) { return name; }

inline int nvtxDomainRangePushEx(nvtxDomainHandle_t domain,
                                 const nvtxEventAttributes_t* attributes) {
  const bool is_whole = attributes->version == NVTX_VERSION &&
                        attributes->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
                        attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  NvtxRecord().push_back(
      std::string(domain) + ": " +
      (is_whole ? attributes->message.ascii : "attributes that are not whole"));
  return 0;
}

inline int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  NvtxRecord().push_back(std::string(domain) + ": end");
  return 0;
}
// NOLINTEND(readability-identifier-naming)

#endif  // FIRN_TESTS_VMM_TRACE_RANGE_NVTX3_NVTOOLSEXT_H_
