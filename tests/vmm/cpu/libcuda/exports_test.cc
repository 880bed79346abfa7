// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names: what the library exports, and what cuGetProcAddress finds.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "firn/vmm/cpu/libcuda/symbols.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vmm/cpu/libcuda/libcuda_library.h"

namespace firn::testing {
namespace {

using ::testing::ContainerEq;
using ::testing::HasSubstr;

struct TableLine {
  std::string name;
  std::string exported;
  int32_t version;
};

const std::vector<TableLine>& Table() {
  static const auto* const table = new std::vector<TableLine>{
#define FIRN_TABLE_LINE(name, suffix, version, signature) \
  {"cu" #name, "cu" #name suffix, version},
      FIRN_LIBCUDA_SYMBOLS(FIRN_TABLE_LINE)
#undef FIRN_TABLE_LINE
  };
  return *table;
}

std::string OutputOf(const std::string& command) {
  std::string output;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  pclose(pipe);
  return output;
}

TEST(CpuLibcudaExportsTest, TheExportedNamesAreThoseOfTheTable) {
  std::set<std::string> expected = {"firnCpuLaunchHostKernel",
                                    "firnCpuLastReport", "firnCpuModelledTime"};
  for (const TableLine& line : Table()) expected.insert(line.exported);
  std::set<std::string> exported;
  const std::string listing =
      OutputOf(absl::StrCat(FIRN_NM, " -D --defined-only ", FIRN_CPU_LIBCUDA));
  for (absl::string_view line :
       absl::StrSplit(listing, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    exported.insert(fields.back());
  }
  EXPECT_THAT(exported, ContainerEq(expected));
}

TEST(CpuLibcudaExportsTest, TheLibraryIsNamedAsADriver) {
  EXPECT_TRUE(absl::EndsWith(FIRN_CPU_LIBCUDA, "/libcuda.so.1"));
  EXPECT_THAT(OutputOf(absl::StrCat(FIRN_OBJDUMP, " -p ", FIRN_CPU_LIBCUDA,
                                    " | grep SONAME")),
              HasSubstr(" libcuda.so.1\n"));
}

// --- cuGetProcAddress ---

struct Answer {
  DriverResult result;
  void* function;
  ProcAddressStatus status;
};

Answer AskNew(const char* name, int32_t version, uint64_t flags = 0) {
  int unset = 0;
  Answer answer{DriverResult::kUnknown, &unset, ProcAddressStatus::kSuccess};
  answer.result = Exported<CudaGetProcAddressV2>("cuGetProcAddress_v2")(
      name, &answer.function, version, flags, &answer.status);
  return answer;
}

Answer AskOld(const char* name, int32_t version) {
  int unset = 0;
  Answer answer{DriverResult::kUnknown, &unset, ProcAddressStatus::kSuccess};
  answer.result = Exported<CudaGetProcAddressV1>("cuGetProcAddress")(
      name, &answer.function, version, 0);
  return answer;
}

TEST(CpuLibcudaProcAddressTest, EachLineIsFoundAtItsVersion) {
  for (const TableLine& line : Table()) {
    void* const exported = ExportedSymbol(line.exported);
    ASSERT_NE(exported, nullptr) << line.exported;
    const Answer found = AskNew(line.name.c_str(), line.version);
    EXPECT_EQ(found.result, DriverResult::kSuccess) << line.exported;
    EXPECT_EQ(found.status, ProcAddressStatus::kSuccess) << line.exported;
    EXPECT_EQ(found.function, exported) << line.exported;
    EXPECT_EQ(AskOld(line.name.c_str(), line.version).function, exported)
        << line.exported;
  }
}

TEST(CpuLibcudaProcAddressTest, TheNewestFormNoNewerThanAskedForIsChosen) {
  EXPECT_EQ(AskNew("cuCtxCreate", 11030).function,
            ExportedSymbol("cuCtxCreate_v2"));
  EXPECT_EQ(AskNew("cuCtxCreate", 11040).function,
            ExportedSymbol("cuCtxCreate_v3"));
  EXPECT_EQ(AskNew("cuCtxCreate", 13000).function,
            ExportedSymbol("cuCtxCreate_v4"));
  EXPECT_EQ(AskNew("cuGetProcAddress", 11080).function,
            ExportedSymbol("cuGetProcAddress"));
  EXPECT_EQ(AskNew("cuGetProcAddress", 12000).function,
            ExportedSymbol("cuGetProcAddress_v2"));
}

TEST(CpuLibcudaProcAddressTest, AVersionBeforeTheFunctionIsNotSufficient) {
  const Answer answer = AskNew("cuMemMap", 10010);
  EXPECT_EQ(answer.result, DriverResult::kSuccess);
  EXPECT_EQ(answer.function, nullptr);
  EXPECT_EQ(answer.status, ProcAddressStatus::kVersionNotSufficient);
  const Answer old_answer = AskOld("cuMemMap", 10010);
  EXPECT_EQ(old_answer.result, DriverResult::kNotFound);
  EXPECT_EQ(old_answer.function, nullptr);
}

// The incompatible functions of CUDA 2 and 3 do not exist here.
TEST(CpuLibcudaProcAddressTest, TheFirstFormOfAChangedFunctionIsNotThere) {
  EXPECT_EQ(AskNew("cuMemGetInfo", 2000).status,
            ProcAddressStatus::kVersionNotSufficient);
  EXPECT_EQ(ExportedSymbol("cuMemGetInfo"), nullptr);
}

TEST(CpuLibcudaProcAddressTest, AnUnknownNameIsAStatusOrAnError) {
  const Answer answer = AskNew("cuMemTeleport", 13000);
  EXPECT_EQ(answer.result, DriverResult::kSuccess);
  EXPECT_EQ(answer.function, nullptr);
  EXPECT_EQ(answer.status, ProcAddressStatus::kSymbolNotFound);
  const Answer old_answer = AskOld("cuMemTeleport", 13000);
  EXPECT_EQ(old_answer.result, DriverResult::kNotFound);
  EXPECT_EQ(old_answer.function, nullptr);
}

TEST(CpuLibcudaProcAddressTest, NamesCarryNoSuffix) {
  EXPECT_EQ(AskNew("cuMemGetInfo_v2", 13000).status,
            ProcAddressStatus::kSymbolNotFound);
}

TEST(CpuLibcudaProcAddressTest, AVersionBeyondTheDriverIsInvalid) {
  EXPECT_EQ(AskNew("cuMemMap", 13010).result, DriverResult::kInvalidValue);
}

TEST(CpuLibcudaProcAddressTest, PerThreadStreamsAreRefusedOpenly) {
  constexpr uint64_t kPerThread = 2;
  EXPECT_EQ(AskNew("cuMemMap", 13000, kLegacyStreamSymbols).function,
            ExportedSymbol("cuMemMap"));
  EXPECT_EQ(AskNew("cuMemcpyAsync", 13000, kPerThread).result,
            DriverResult::kNotSupported);
  EXPECT_EQ(AskNew("cuMemMap", 13000, 4).result, DriverResult::kInvalidValue);
}

TEST(CpuLibcudaProcAddressTest, TheExtensionIsFound) {
  for (const char* name : {"firnCpuLaunchHostKernel", "firnCpuLastReport",
                           "firnCpuModelledTime"}) {
    EXPECT_NE(ExportedSymbol(name), nullptr) << name;
    EXPECT_EQ(AskNew(name, 11000).function, ExportedSymbol(name)) << name;
  }
}

TEST(CpuLibcudaProcAddressTest, TheStatusMayBeLeftOut) {
  void* function = nullptr;
  EXPECT_EQ(Exported<CudaGetProcAddressV2>("cuGetProcAddress_v2")(
                "cuMemMap", &function, 13000, 0, nullptr),
            DriverResult::kSuccess);
  EXPECT_EQ(function, ExportedSymbol("cuMemMap"));
}

// --- Names of results ---

using NameFunction = DriverResult(DriverResult, const char**);

TEST(CpuLibcudaErrorsTest, ResultsHaveNamesAndTexts) {
  auto* const name_of = Exported<NameFunction>("cuGetErrorName");
  auto* const text_of = Exported<NameFunction>("cuGetErrorString");
  for (const DriverResult result :
       {DriverResult::kSuccess, DriverResult::kInvalidValue,
        DriverResult::kIllegalAddress, DriverResult::kStreamCaptureWrongThread,
        static_cast<DriverResult>(709)}) {
    const char* name = nullptr;
    const char* text = nullptr;
    EXPECT_EQ(name_of(result, &name), DriverResult::kSuccess);
    EXPECT_EQ(text_of(result, &text), DriverResult::kSuccess);
    EXPECT_TRUE(absl::StartsWith(name, "CUDA_"));
    EXPECT_STRNE(text, "");
  }
}

TEST(CpuLibcudaErrorsTest, AnUnknownResultHasNoName) {
  const char* name = "unchanged";
  EXPECT_EQ(Exported<NameFunction>("cuGetErrorName")(
                static_cast<DriverResult>(12345), &name),
            DriverResult::kInvalidValue);
  EXPECT_EQ(name, nullptr);
}

}  // namespace
}  // namespace firn::testing
