// Every recipe that stands in recipes/ can be read, and says in its header what came of it.
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/files.h"
#include "fovea/elastic/solve/adaptive_batch.h"
#include "fovea/train/recipe/config.h"
#include "tests/train/recipe_files.h"

namespace fovea::train {
namespace {

using testing::recipe_files;

std::string header_of(const std::string& text) {
  std::string header;
  for (size_t begin = 0; begin < text.size() && text[begin] == '#';) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    header += text.substr(begin + 1, end - begin - 1);  // `#` and line ends are no part of it
    begin = end + 1;
  }
  return header;
}

TEST(RecipesTest, AreReadWithoutFault) {
  const auto files = recipe_files();
  ASSERT_GE(files.size(), 16U);
  for (const auto& file : files) {
    EXPECT_NO_THROW(load_config<TrainConfig>(file, {})) << file;
  }
}

// Those in elastic/ are for runs of workers that come and go, and their batches follow.
TEST(RecipesTest, ElasticOnesAreElastic) {
  int64_t count = 0;
  for (const auto& file : recipe_files()) {
    if (file.find("/recipes/elastic/") == file.npos) continue;
    const auto config = load_config<TrainConfig>(file, {"launch.elastic=true"});
    EXPECT_TRUE(elastic::is_adaptive(config.elastic)) << file;
    ++count;
  }
  EXPECT_EQ(count, 2);
}

TEST(RecipesTest, SayWhatCameOfThem) {
  for (const auto& file : recipe_files()) {
    const auto header = header_of(read_file(file, 1 << 20));
    const bool has_result = header.find("Last run:") != std::string::npos;
    EXPECT_TRUE(has_result || header.find("ot run yet") != std::string::npos)
        << file << ": expected `Last run: ...`, or `Not run yet`, in the comment it starts with";
  }
}

}  // namespace
}  // namespace fovea::train
