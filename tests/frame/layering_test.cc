// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0
//
// Holds the whole tree to the rules of source_rules.h.

#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/frame/source_rules.h"

namespace firn::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::IsEmpty;

struct SourceFile {
  std::string path;  // from the root
  std::string text;
};

// What git does not hold: build folders and what begins with a dot.
bool IsOutside(const fs::path& top_level_entry) {
  const std::string name = top_level_entry.filename().string();
  return name.front() == '.' || name.rfind("build", 0) == 0;
}

bool IsSource(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cmake" ||
         extension == ".sh" || name == "CMakeLists.txt" || name == "run";
}

std::string ReadFile(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// Every file of the tree, and the texts of its sources.
class LayeringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path root(FIRN_SOURCE_DIR);
    for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
      if (IsOutside(entry.path())) continue;
      if (!entry.is_directory()) {
        AddFile(root, entry.path());
        continue;
      }
      for (const fs::directory_entry& inner :
           fs::recursive_directory_iterator(entry.path())) {
        if (inner.is_regular_file()) AddFile(root, inner.path());
      }
    }
    // A wrong root would let every check pass.
    ASSERT_GE(sources_.size(), 20u);
  }

  template <typename Check>
  Violations CheckSources(Check check) const {
    Violations all;
    for (const SourceFile& file : sources_) {
      for (std::string& violation : check(file.path, file.text)) {
        all.push_back(std::move(violation));
      }
    }
    return all;
  }

  std::vector<std::string> paths_;
  std::vector<SourceFile> sources_;

 private:
  void AddFile(const fs::path& root, const fs::path& path) {
    paths_.push_back(fs::relative(path, root).generic_string());
    if (IsSource(path)) sources_.push_back({paths_.back(), ReadFile(path)});
  }
};

TEST_F(LayeringTest, IncludesGoDownAndAreSpelledInOneWay) {
  EXPECT_THAT(CheckSources(CheckIncludes), IsEmpty());
}

TEST_F(LayeringTest, SourcesBeginWithTheLicenceAndHeadersAreGuarded) {
  EXPECT_THAT(CheckSources(CheckHead), IsEmpty());
}

TEST_F(LayeringTest, SourcesStayShort) {
  EXPECT_THAT(CheckSources(CheckLength), IsEmpty());
}

TEST_F(LayeringTest, EveryFileLiesInAFolderWithAMeaning) {
  Violations all;
  for (const std::string& path : paths_) {
    for (std::string& violation : CheckPlace(path)) {
      all.push_back(std::move(violation));
    }
  }
  EXPECT_THAT(all, IsEmpty());
}

}  // namespace
}  // namespace firn::testing
