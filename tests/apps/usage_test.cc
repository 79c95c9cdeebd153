// Wrong words on the command line, through the program: one line and exit code 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fovea/core/error.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::run_fovea;

// Runs in the folder of the sources, where recipes/ stands.
void expect_line(const std::string& arguments, ExitCode code, const std::string& part) {
  const auto result = run_fovea(arguments, "cd \"" FOVEA_SOURCE_DIR "\" && exec");
  EXPECT_EQ(result.exit_code, static_cast<int>(code)) << arguments;
  EXPECT_THAT(result.output, AllOf(::testing::StartsWith("error: "), HasSubstr(part)));
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
}

TEST(UsageTest, NearestNamesInOneLine) {
  expect_line("trian x", ExitCode::kUsage, "did you mean 'train'?");
  expect_line("predict run x.jpg --tpo 3", ExitCode::kUsage, "did you mean '--top'?");
  expect_line("train", ExitCode::kUsage, "RECIPE|RUN_DIR is missing");
  expect_line("train recipes/fashion_mnist/vti.yaml", ExitCode::kConfig,
              "did you mean recipes/fashion_mnist/vit.yaml?");
  expect_line("train fashion_minst/vit", ExitCode::kConfig,
              "did you mean recipes/fashion_mnist/vit.yaml?");
  expect_line("summary vit_smal_patch16_224", ExitCode::kConfig,
              "did you mean vit_small_patch16_224?");
  const data::testing::TempDir folder;
  folder.write("weights.safetensors", std::string("x"));
  expect_line(
      "predict vit_tiny_patch16_224 --weights " + folder.path() + "/wieghts.safetensors x.jpg",
      ExitCode::kData, "did you mean " + folder.path() + "/weights.safetensors?");
}

TEST(UsageTest, VersionNamesCommitLibtorchAndBackEnds) {
  const auto result = run_fovea("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output,
              MatchesRegex("fovea [0-9.]+, commit ([0-9a-f]{12}(\\+changes)?|unknown), .*\n"
                           "libtorch  2\\..*\nCPU       .*\nCUDA      .*\nranks     shared memory, "
                           "Gloo.*\n"
                           "HDF5      (yes|no)\n"
                           "OpenSlide (yes|no)\n"
                           "GDCM      (yes|no)\n"
                           "gRPC      (yes|no)\n"));
}

TEST(UsageTest, HelpOfACommandIsFoundBothWays) {
  const auto help = run_fovea("help train");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.output, run_fovea("train --help").output);
  EXPECT_THAT(help.output, HasSubstr("Examples:\n  fovea train recipes/"));
}

}  // namespace
}  // namespace fovea
