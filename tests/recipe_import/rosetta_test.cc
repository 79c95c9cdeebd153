#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/gin_files.h"
#include "tests/recipe_import/import_support.h"
#include "tests/support/temp_dir.h"

namespace fovea::recipe_import {
namespace {

using ::testing::HasSubstr;

const std::string kInclude = "include 'rosetta/projects/vit/configs/base.gin'\n";

TEST(RosettaImportTest, IncludesAreFoundWhereGinLooks) {
  const auto read = [](const std::string& file, const std::vector<std::string>& paths = {}) {
    return emit_yaml_flow(read_gin_file(file, read_file(file, 1 << 20), paths));
  };
  // In upstream's own folders, from the root of its repository on.
  const support::TempDir tree;
  tree.write("rosetta/projects/vit/configs/base.gin", "include 'rosetta/common.gin'\na.b = 1\n");
  tree.write("rosetta/common.gin", "a.c = 2\n");
  EXPECT_EQ(read(tree.write("rosetta/projects/vit/configs/run.gin", kInclude)), "{a.c: 2, a.b: 1}");
  // From a search path on, also of a file that another one includes.
  const support::TempDir other;
  const auto file = other.write("mine.gin", kInclude);
  EXPECT_EQ(read(file, {"/nowhere", tree.path()}), "{a.c: 2, a.b: 1}");
  // Beside the file, and beside what it included.
  const support::TempDir flat;
  flat.write("base.gin", "include 'rosetta/common.gin'\na.b = 3\n");
  flat.write("common.gin", "a.c = 4\n");
  EXPECT_EQ(read(flat.write("run.gin", kInclude)), "{a.c: 4, a.b: 3}");
  try {
    read(file);
    ADD_FAILURE() << "an include that is nowhere";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("rosetta/projects/vit/configs/base.gin"),
                                               HasSubstr("--gin-search-paths")));
  }
}

ImportedRecipe with_bindings(const std::string& bindings) {
  const support::TempDir folder;
  for (const auto* name : {"rosetta_pretrain.gin", "rosetta_base.gin"}) {
    folder.write(name, read_file(sample(name), 1 << 20));
  }
  const auto file = folder.write("run.gin", "include 'configs/rosetta_pretrain.gin'\n" + bindings);
  return import_recipe(file, {.system = "rosetta"});
}

TEST(RosettaImportTest, PartitionsAndIndicesAreTheRecipes) {
  const auto recipe = with_bindings(
      "partitioning.PjitPartitioner.num_partitions = 2\nTRAIN_INDEX_DIR = '/idx/train'\n"
      "EVAL_INDEX_DIR = '/idx/val'\n");
  EXPECT_EQ(value_in(recipe.yaml, "parallel.tp"), "2");
  EXPECT_EQ(value_in(recipe.yaml, "data.train.index"), "/idx/train");
  EXPECT_EQ(value_in(recipe.yaml, "data.val.index"), "/idx/val");
  EXPECT_EQ(value_in(recipe.yaml, "data.train.format"), "wds");
  const auto mesh =
      with_bindings("partitioning.PjitPartitioner.model_parallel_submesh = (2, 2, 1, 1)\n");
  EXPECT_EQ(value_in(mesh.yaml, "parallel.tp"), "4");
  const auto plain = with_bindings("");
  EXPECT_EQ(value_in(plain.yaml, "parallel"), "(none)");
  EXPECT_EQ(value_in(plain.yaml, "data.train.index"), "(none)");
}

TEST(RosettaImportTest, GapHasNoClassToken) {
  const auto recipe = with_bindings("config.GoogleViTConfig.classifier = 'gap'\n");
  EXPECT_EQ(value_in(recipe.yaml, "model.global_pool"), "avg");
  EXPECT_EQ(value_in(recipe.yaml, "model.class_token"), "false");
  EXPECT_EQ(value_in(recipe.yaml, "model.fc_norm"), "false");
  EXPECT_EQ(value_in(with_bindings("").yaml, "model.class_token"), "(none)");
  const auto unpooled = with_bindings("config.GoogleViTConfig.classifier = 'unpooled'\n");
  EXPECT_EQ(row_of(unpooled, "config.GoogleViTConfig.classifier").outcome, ImportOutcome::kRefused);
}

// Upstream's own parts are this program's; another function is not.
TEST(RosettaImportTest, AnotherProgramsFunctionsAreRefused) {
  const auto plain = with_bindings("");
  EXPECT_EQ(row_of(plain, "train_script.train.get_dataset_fn").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(row_of(plain, "BATCH_SIZE").outcome, ImportOutcome::kMapped);
  const auto own = with_bindings("train_script.train.get_dataset_fn = @my_data.get()\n");
  EXPECT_EQ(row_of(own, "train_script.train.get_dataset_fn").outcome, ImportOutcome::kRefused);
}

}  // namespace
}  // namespace fovea::recipe_import
