// What a shell and an editor are given, as they use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::run_fovea;

class BashCompletionTest : public ::testing::Test {
 protected:
  BashCompletionTest() { run_fovea("completion bash > '" + script() + "'"); }

  std::string script() const { return dir_.path() + "/fovea.bash"; }
  // What a tab behind these words shows, in a folder with one file.
  std::string complete(const std::string& words) const {
    const auto shell = "cd '" + dir_.path() + "' && bash -c '. ./fovea.bash; COMP_WORDS=(" + words +
                       "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _fovea; echo \"${COMPREPLY[*]}\"'";
    FILE* pipe = popen(shell.c_str(), "r");
    std::string output;
    char buffer[4096];
    while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, count);
    pclose(pipe);
    if (!output.empty()) output.pop_back();
    return output;
  }

  data::testing::TempDir dir_;
};

TEST_F(BashCompletionTest, CompletesCommandsOptionsChoicesKeysAndFiles) {
  EXPECT_EQ(complete("fovea tr"), "train track");
  EXPECT_EQ(complete("fovea data ins"), "inspect");
  EXPECT_EQ(complete("fovea predict run --dev"), "--device");
  EXPECT_EQ(complete("fovea predict run --device cu"), "cuda");
  EXPECT_EQ(complete("fovea predict --model vit_base_patch16_clip_448"),
            complete("fovea bench model vit_base_patch16_clip_448"));
  EXPECT_EQ(complete("fovea train recipe.yaml trainer.max_ep"), "trainer.max_epochs");
  EXPECT_EQ(complete("fovea train fov"), "fovea.bash");
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SchemaTest, IsTheOneThatRecipesNameAndSmall) {
  const auto printed = run_fovea("config schema").output;
  EXPECT_LT(printed.size(), 1u << 20);
  EXPECT_TRUE(printed == text_of(FOVEA_SOURCE_DIR "/recipes/schema.json"))
      << "recipes/schema.json is out of date; remake it: fovea config schema > recipes/schema.json";
  for (const auto& entry : fs::recursive_directory_iterator(FOVEA_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_THAT(text_of(entry.path()),
                HasSubstr("# yaml-language-server: $schema=../schema.json\n"))
        << entry.path();
  }
}

}  // namespace
}  // namespace fovea
