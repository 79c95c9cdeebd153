// What the program prints: nothing of it is lost without a word, and nothing in it steers a
// terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_fovea;

constexpr int kData = static_cast<int>(ExitCode::kData);
constexpr int kUsage = static_cast<int>(ExitCode::kUsage);

TEST(OutputTest, WhatCannotBeWrittenIsAnError) {
  for (const std::string command : {"list models", "config schema", "--help", "--version"}) {
    const auto full = run_fovea(command + " >/dev/full");
    EXPECT_EQ(full.exit_code, kData) << command;
    EXPECT_THAT(full.output, HasSubstr("standard output cannot be written: No space left"))
        << command;
  }
  const auto closed = run_fovea("list models >&-");
  EXPECT_EQ(closed.exit_code, kData);
  EXPECT_THAT(closed.output, HasSubstr("standard output cannot be written"));
}

TEST(OutputTest, AReaderThatLeavesEndsItQuietly) {
  const auto result = run_fovea("list models; echo code $? >&3; } | { exec 0<&-; cat </dev/null; }",
                                "exec 3>&1; {");
  EXPECT_EQ(result.output, "code 4\n");
}

TEST(OutputTest, ForeignTextSteersNoTerminal) {
  const data::testing::TempDir folder;
  const auto name = folder.file("a\x1b[31m\xc2\x9b.yaml");
  folder.write("a\x1b[31m\xc2\x9b.yaml", std::string("a: 1\n"));
  const auto result = run_fovea("config show '" + name + "'");
  EXPECT_EQ(result.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(result.output, AllOf(HasSubstr("a\\x1b[31m\\xc2\\x9b.yaml"), Not(HasSubstr("\x1b"))));
  const auto unknown = run_fovea("'\x1b[31m'");
  EXPECT_EQ(unknown.exit_code, kUsage);
  EXPECT_THAT(unknown.output, Not(HasSubstr("\x1b")));
}

// MKL ends the process where it cannot ask for the folder.
TEST(OutputTest, AFolderThatIsGoneIsSaid) {
  const data::testing::TempDir folder;
  const auto gone = folder.file("gone");
  std::filesystem::create_directory(gone);
  const auto result = run_fovea("list models", "cd '" + gone + "' && rmdir '" + gone + "' && exec");
  EXPECT_EQ(result.exit_code, kUsage);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("the working directory is gone"), Not(HasSubstr("MKL"))));
}

TEST(OutputTest, ALoopOfLinksIsNoFaultOfTheProgram) {
  const data::testing::TempDir folder;
  std::filesystem::create_symlink("loop.yaml", folder.file("loop.yaml"));
  for (const std::string command : {"config show ", "train ", "report "}) {
    const auto result = run_fovea(command + folder.file("loop.yaml"));
    EXPECT_THAT(result.output, AllOf(HasSubstr("loop.yaml"), Not(HasSubstr("fault of this"))));
    EXPECT_NE(result.exit_code, 0);
  }
}

// Before main, in the initialisers of libraries.
TEST(OutputTest, LittleMemoryEndsWithACode) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer takes more addresses than any limit";
#endif
  const auto little = run_fovea("list models", "ulimit -v 390000;");
  EXPECT_THAT(little.exit_code, ::testing::AnyOf(0, 5, 127)) << little.output;
}

}  // namespace
}  // namespace fovea
