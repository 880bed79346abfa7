// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules on copies, kernels, streams and events, each with the code that a
// breach of it returns.

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/vmm/cpu/rule_scene.h"

namespace firn::cpu_testing {
namespace {

std::vector<Rule> CopyRules() {
  return {
      {"copy: to read-write memory", kOk,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.base, s.host, 16, s.stream);
       }},
      {"copy: to read-only memory", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.At(1), s.host, 16, s.stream);
       }},
      {"copy: to memory without access", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.At(4), s.host, 16, s.stream);
       }},
      {"copy: to unmapped memory", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.At(3), s.host, 16, s.stream);
       }},
      {"copy: over the end of what may be written", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.At(1) - 8, s.host, 16, s.stream);
       }},
      {"copy: from no host memory", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.base, nullptr, 16, s.stream);
       }},
      {"copy: from read-only memory", kOk,
       [](Scene& s) {
         return s.d.MemcpyDtoHAsync(s.host, s.At(1), 16, s.stream);
       }},
      {"copy: from a row of mappings", kOk,
       [](Scene& s) {
         return s.d.MemcpyDtoHAsync(s.host, s.At(1) - 8, 16, s.stream);
       }},
      {"copy: from memory without access", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoHAsync(s.host, s.At(4), 16, s.stream);
       }},
      {"copy: from outside every reservation", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoHAsync(s.host, 4096, 16, s.stream);
       }},
      {"copy: to no host memory", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoHAsync(nullptr, s.base, 16, s.stream);
       }},
      {"copy: a range that wraps around", kInvalid,
       [](Scene& s) {
         return s.d.MemsetD8Async(s.base, 0, ~uint64_t{0}, s.stream);
       }},
      {"copy: on the device", kOk,
       [](Scene& s) {
         return s.d.MemcpyDtoDAsync(s.base, s.At(1), 16, s.stream);
       }},
      {"copy: into read-only memory of the device", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoDAsync(s.At(1), s.base, 16, s.stream);
       }},
      {"copy: from unmapped memory of the device", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoDAsync(s.base, s.At(3), 16, s.stream);
       }},
      {"copy: onto itself", kInvalid,
       [](Scene& s) {
         return s.d.MemcpyDtoDAsync(s.base, s.base + 15, 16, s.stream);
       }},
      {"copy: next to itself", kOk,
       [](Scene& s) {
         return s.d.MemcpyDtoDAsync(s.base, s.base + 16, 16, s.stream);
       }},
      {"copy: nothing", kOk,
       [](Scene& s) { return s.d.MemcpyDtoDAsync(0, 0, 0, s.stream); }},
      {"copy: nothing from nowhere", kOk,
       [](Scene& s) { return s.d.MemcpyHtoDAsync(0, nullptr, 0, s.stream); }},
      {"copy: on a stream that is gone", kBadHandle,
       [](Scene& s) {
         return s.d.MemcpyHtoDAsync(s.base, s.host, 16, s.gone_stream);
       }},
      {"fill: read-write memory", kOk,
       [](Scene& s) { return s.d.MemsetD8Async(s.base, 1, 16, s.stream); }},
      {"fill: read-only memory", kInvalid,
       [](Scene& s) { return s.d.MemsetD8Async(s.At(1), 1, 16, s.stream); }},
      {"fill: unmapped memory", kInvalid,
       [](Scene& s) { return s.d.MemsetD8Async(s.At(5), 1, 16, s.stream); }},
      {"kernel: no body", kInvalid,
       [](Scene& s) { return s.d.LaunchKernel(s.stream, {}, nullptr); }},
      {"kernel: on a stream that is gone", kBadHandle,
       [](Scene& s) { return s.d.LaunchKernel(s.gone_stream, {}, [] {}); }},
  };
}

std::vector<Rule> StreamRules() {
  const auto bad_stream = reinterpret_cast<StreamHandle>(uintptr_t{12345});
  return {
      {"stream: no result", kInvalid,
       [](Scene& s) { return s.d.StreamCreate(nullptr, kStreamDefault); }},
      {"stream: unknown flags", kInvalid,
       [](Scene& s) { return s.d.StreamCreate(&s.stream, 2); }},
      {"stream: destroy the legacy stream", kBadHandle,
       [](Scene& s) { return s.d.StreamDestroy(nullptr); }},
      {"stream: destroy twice", kBadHandle,
       [](Scene& s) { return s.d.StreamDestroy(s.gone_stream); }},
      {"stream: query the legacy stream", kOk,
       [](Scene& s) { return s.d.StreamQuery(nullptr); }},
      {"stream: query a made-up one", kBadHandle,
       [=](Scene& s) { return s.d.StreamQuery(bad_stream); }},
      {"stream: wait for one that is gone", kBadHandle,
       [](Scene& s) { return s.d.StreamSynchronize(s.gone_stream); }},
      {"stream: id into nothing", kInvalid,
       [](Scene& s) { return s.d.StreamGetId(s.stream, nullptr); }},
      {"stream: id of one that is gone", kBadHandle,
       [](Scene& s) { return s.d.StreamGetId(s.gone_stream, &s.id); }},
      {"stream: id of the legacy stream", kOk,
       [](Scene& s) { return s.d.StreamGetId(nullptr, &s.id); }},
      {"stream: capture status into nothing", kInvalid,
       [](Scene& s) { return s.d.StreamIsCapturing(s.stream, nullptr); }},
      {"stream: capture status of one that is gone", kBadHandle,
       [](Scene& s) {
         return s.d.StreamIsCapturing(s.gone_stream, &s.capture);
       }},
      {"stream: wait for an event", kOk,
       [](Scene& s) { return s.d.StreamWaitEvent(s.stream, s.event, 0); }},
      {"stream: wait for an event with flags", kInvalid,
       [](Scene& s) { return s.d.StreamWaitEvent(s.stream, s.event, 2); }},
      {"stream: wait for an event that is gone", kBadHandle,
       [](Scene& s) { return s.d.StreamWaitEvent(s.stream, s.gone_event, 0); }},
      {"stream: one that is gone waits", kBadHandle,
       [](Scene& s) { return s.d.StreamWaitEvent(s.gone_stream, s.event, 0); }},
      {"event: no result", kInvalid,
       [](Scene& s) { return s.d.EventCreate(nullptr, kEventDefault); }},
      {"event: between processes", kInvalid,
       [](Scene& s) { return s.d.EventCreate(&s.event, 4); }},
      {"event: destroy twice", kBadHandle,
       [](Scene& s) { return s.d.EventDestroy(s.gone_event); }},
      {"event: destroy null", kBadHandle,
       [](Scene& s) { return s.d.EventDestroy(nullptr); }},
      {"event: record on the legacy stream", kOk,
       [](Scene& s) { return s.d.EventRecord(s.event, nullptr); }},
      {"event: record on a stream that is gone", kBadHandle,
       [](Scene& s) { return s.d.EventRecord(s.event, s.gone_stream); }},
      {"event: record one that is gone", kBadHandle,
       [](Scene& s) { return s.d.EventRecord(s.gone_event, s.stream); }},
      {"event: query one never recorded", kOk,
       [](Scene& s) { return s.d.EventQuery(s.event); }},
      {"event: query one that is gone", kBadHandle,
       [](Scene& s) { return s.d.EventQuery(s.gone_event); }},
      {"event: wait for one never recorded", kOk,
       [](Scene& s) { return s.d.EventSynchronize(s.event); }},
      {"event: wait for one that is gone", kBadHandle,
       [](Scene& s) { return s.d.EventSynchronize(s.gone_event); }},
  };
}

class CpuDriverRulesTest : public RuleTest {};

TEST_P(CpuDriverRulesTest, CopiesNeedAccessWhenQueued) { Check(CopyRules()); }

TEST_P(CpuDriverRulesTest, StreamsAndEventsMustExist) { Check(StreamRules()); }

INSTANTIATE_TEST_SUITE_P(Storages, CpuDriverRulesTest, BothStorages(),
                         StorageName);

}  // namespace
}  // namespace firn::cpu_testing
