// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/frame/source_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace firn::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::string_view kLicence =
    "// Copyright 2026 The firn Authors\n"
    "// SPDX-License-Identifier: Apache-2.0\n";

Violations CheckInclude(absl::string_view path, absl::string_view include) {
  return CheckIncludes(path, absl::StrCat("#include ", include, "\n"));
}

TEST(SourceRulesTest, IncludesGoDownOnly) {
  EXPECT_THAT(CheckInclude("vmm/a.cc", "\"firn/vmm/b.h\""), IsEmpty());
  EXPECT_THAT(CheckInclude("compaction/a.cc", "\"firn/vmm/b.h\""), IsEmpty());
  EXPECT_THAT(CheckInclude("core/a.cc", "\"firn/compaction/b.h\""), IsEmpty());
  EXPECT_THAT(CheckInclude("bench/replay/a.cc", "\"firn/core/b.h\""),
              IsEmpty());

  EXPECT_THAT(CheckInclude("vmm/a.h", "\"firn/compaction/b.h\""),
              ElementsAre("vmm/a.h includes firn/compaction/b.h: vmm stands "
                          "below compaction"));
  EXPECT_THAT(CheckInclude("vmm/cpu/a.h", "\"firn/core/b.h\""),
              ElementsAre(HasSubstr("vmm stands below core")));
  EXPECT_THAT(CheckInclude("compaction/a.cc", "\"firn/core/b.h\""),
              ElementsAre(HasSubstr("compaction stands below core")));
  EXPECT_THAT(CheckInclude("vmm/a.cc", "<firn/core/b.h>"),
              ElementsAre(HasSubstr("vmm stands below core")));
}

TEST(SourceRulesTest, NobodyIncludesTestsAndTheLibraryNotBench) {
  EXPECT_THAT(CheckInclude("tests/vmm/a_test.cc", "\"tests/support/b.h\""),
              IsEmpty());
  EXPECT_THAT(CheckInclude("tests/bench/a_test.cc", "\"bench/traces/b.h\""),
              IsEmpty());
  EXPECT_THAT(CheckInclude("bench/a.cc", "\"bench/traces/b.h\""), IsEmpty());

  EXPECT_THAT(CheckInclude("core/a.cc", "\"tests/support/b.h\""),
              ElementsAre(HasSubstr("only tests may")));
  EXPECT_THAT(CheckInclude("bench/a.cc", "\"tests/support/b.h\""),
              ElementsAre(HasSubstr("only tests may")));
  EXPECT_THAT(CheckInclude("core/a.cc", "\"bench/traces/b.h\""),
              ElementsAre(HasSubstr("bench stands above the library")));
}

TEST(SourceRulesTest, OurOwnHeadersAreSpelledInOneWay) {
  EXPECT_THAT(CheckInclude("core/a.cc", "\"core/b.h\""),
              ElementsAre(HasSubstr("spell it firn/...")));
  EXPECT_THAT(CheckInclude("core/a.cc", "\"b.h\""),
              ElementsAre(HasSubstr("spell our own by its path")));
  EXPECT_THAT(CheckInclude("core/kv/a.cc", "\"../b.h\""),
              ElementsAre(HasSubstr("no relative paths")));
  EXPECT_THAT(CheckInclude("core/a.cc", "\"firn/kv/b.h\""),
              ElementsAre(HasSubstr("there is no such folder")));
  EXPECT_THAT(CheckIncludes("core/a.cc", "  #  include   \"core/b.h\"  // b"),
              ElementsAre(HasSubstr("core/a.cc includes core/b.h")));
}

TEST(SourceRulesTest, TheLibraryNeedsAbseilOnly) {
  EXPECT_THAT(CheckInclude("core/a.cc", "\"absl/status/status.h\""), IsEmpty());
  EXPECT_THAT(CheckInclude("core/a.cc", "<sys/mman.h>"), IsEmpty());
  EXPECT_THAT(CheckInclude("bench/a.cc", "\"nlohmann/json.hpp\""), IsEmpty());
  EXPECT_THAT(CheckInclude("core/a.cc", "\"nlohmann/json.hpp\""),
              ElementsAre(HasSubstr("the library needs Abseil only")));
}

TEST(SourceRulesTest, CudaHeadersStayInSourcesOfTheCudaDriver) {
  EXPECT_THAT(CheckInclude("vmm/cuda/a.cc", "<cuda.h>"), IsEmpty());
  EXPECT_THAT(CheckInclude("tests/vmm/cuda/a_test.cc", "<cuda.h>"), IsEmpty());
  EXPECT_THAT(CheckInclude("vmm/cuda/a.h", "<cuda.h>"),
              ElementsAre(HasSubstr("only sources of vmm/cuda may")));
  EXPECT_THAT(CheckInclude("core/a.cc", "<cuda_runtime_api.h>"),
              ElementsAre(HasSubstr("only sources of vmm/cuda may")));
}

TEST(SourceRulesTest, CommentsAreNoIncludes) {
  EXPECT_THAT(CheckIncludes("vmm/a.cc", "// #include \"core/b.h\"\n"),
              IsEmpty());
}

TEST(SourceRulesTest, TheLicenceComesFirst) {
  EXPECT_THAT(CheckHead("core/a.cc", kLicence), IsEmpty());
  EXPECT_THAT(CheckHead("core/a.cc", absl::StrCat("\n", kLicence)),
              ElementsAre(HasSubstr("licence")));
  EXPECT_THAT(CheckHead("core/a.cc", "int a;\n"),
              ElementsAre(HasSubstr("licence")));
  EXPECT_THAT(CheckHead("tests/run",
                        "#!/usr/bin/env bash\n"
                        "# Copyright 2026 The firn Authors\n"
                        "# SPDX-License-Identifier: Apache-2.0\n"),
              IsEmpty());
}

TEST(SourceRulesTest, HeadersAreGuardedByTheirPath) {
  EXPECT_THAT(
      CheckHead("core/kv/a.h", absl::StrCat(kLicence,
                                            "\n#ifndef FIRN_CORE_KV_A_H_\n"
                                            "#define FIRN_CORE_KV_A_H_\n")),
      IsEmpty());
  EXPECT_THAT(
      CheckHead("core/kv/a.h", absl::StrCat(kLicence, "\n#ifndef A_H\n")),
      ElementsAre("core/kv/a.h is not guarded by FIRN_CORE_KV_A_H_"));
}

TEST(SourceRulesTest, FilesStayUnderSixHundredLines) {
  EXPECT_THAT(CheckLength("core/a.cc", std::string(599, '\n')), IsEmpty());
  EXPECT_THAT(CheckLength("core/a.cc", std::string(600, '\n')),
              ElementsAre(HasSubstr("600 lines")));
}

TEST(SourceRulesTest, FilesLieInFoldersWithAMeaning) {
  EXPECT_THAT(CheckPlace("README.md"), IsEmpty());
  EXPECT_THAT(CheckPlace("vmm/cpu/a.cc"), IsEmpty());
  EXPECT_THAT(CheckPlace("src/a.cc"),
              ElementsAre(HasSubstr("unknown top-level folder")));
  EXPECT_THAT(CheckPlace("core/util/a.cc"),
              ElementsAre(HasSubstr("catch-all folder util")));
}

}  // namespace
}  // namespace firn::testing
