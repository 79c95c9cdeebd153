// docs/reference.md is what the program prints: every command, flag and key, as they are today.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/apps/program.h"

namespace fovea {
namespace {

std::string output_of(const std::string& arguments) { return testing::run_fovea(arguments).output; }

TEST(ReferenceTest, StandsInTheDocsAsTheProgramPrintsIt) {
  std::ifstream file(FOVEA_SOURCE_DIR "/docs/reference.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const auto printed = output_of("config reference");
  ASSERT_GT(printed.size(), 1000u);
  EXPECT_TRUE(page == printed)
      << "docs/reference.md is out of date; remake it: fovea config reference > docs/reference.md";
}

TEST(ReferenceTest, ListsEveryCommandOfTheHelp) {
  const auto help = output_of("--help");
  const auto printed = output_of("config reference");
  auto at = help.find("Subcommands:\n");
  ASSERT_NE(at, std::string::npos);
  int count = 0;
  for (at += 13; help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1) {
    const auto name = help.substr(at + 2, help.find(' ', at + 2) - at - 2);
    EXPECT_NE(printed.find("### fovea " + name + "\n"), std::string::npos) << name;
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace fovea
