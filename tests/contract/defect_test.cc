// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Each defect that the CPU driver can have makes the contract check of its rule
// fail, and nothing but the defect does.

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/contract/defects.h"
#include "tests/contract/program_output.h"
#include "tests/contract/suite_devices.h"

namespace firn::contract {
namespace {

using ::testing::HasSubstr;

// Runs one check with a driver that has `defect`.
testing::Ended RunCheck(const DefectCase& each, absl::string_view defect) {
  return RunContractTests(absl::StrCat("--way=", testing::WayName(each.way),
                                       " --check=", each.check_name,
                                       " --defect=", defect));
}

class ContractDefectTest : public ::testing::TestWithParam<DefectCase> {};

TEST_P(ContractDefectTest, IsNoticedByTheCheckOfItsRule) {
  const DefectCase& each = GetParam();
  const testing::Ended sound = RunCheck(each, "None");
  EXPECT_EQ(sound.exit_status, 0) << sound.output;
  const testing::Ended defective = RunCheck(each, each.defect_name);
  EXPECT_EQ(defective.exit_status, 1) << defective.output;
  EXPECT_THAT(defective.output,
              HasSubstr(absl::StrCat("FAILED ", each.check_name)));
}

INSTANTIATE_TEST_SUITE_P(Defects, ContractDefectTest,
                         ::testing::ValuesIn(DefectCases()),
                         [](const ::testing::TestParamInfo<DefectCase>& info) {
                           return std::string(info.param.defect_name);
                         });

TEST(ContractDefectTableTest, HasEveryDefectOnce) {
  const int count = static_cast<int>(CpuDefect::kCaptureIgnoresForbiddenCalls);
  ASSERT_EQ(DefectCases().size(), static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(static_cast<int>(DefectCases()[static_cast<size_t>(i)].defect),
              i + 1);
  }
}

}  // namespace
}  // namespace firn::contract
