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

// A checkpoint of t5x as the start of a run.
TEST(RosettaImportTest, CheckpointsAreTheStart) {
  const std::string all = "utils.RestoreCheckpointConfig.state_transformation_fns = []\n";
  const auto whole =
      with_bindings(all + "utils.RestoreCheckpointConfig.path = '/ckpt/checkpoint_100'\n");
  EXPECT_EQ(value_in(whole.yaml, "init"),
            "{weights: /ckpt/checkpoint_100, optimizer: /ckpt/checkpoint_100}");
  const auto weights = with_bindings(
      "utils.RestoreCheckpointConfig.path = ['/ckpt']\n"
      "utils.RestoreCheckpointConfig.mode = 'latest'\n"
      "utils.RestoreCheckpointConfig.strict = False\n"
      "utils.RestoreCheckpointConfig.fallback_to_scratch = True\n"
      "utils.RestoreCheckpointConfig.state_transformation_fns = "
      "[@v_utils.just_states_transform]\n");
  EXPECT_EQ(value_in(weights.yaml, "init"), "{weights: /ckpt}");
  for (const auto* key : {"strict", "fallback_to_scratch"}) {
    EXPECT_EQ(row_of(weights, std::string("utils.RestoreCheckpointConfig.") + key).outcome,
              ImportOutcome::kChanged);
  }
  const auto sgd = with_bindings(all +
                                 "utils.RestoreCheckpointConfig.path = '/ckpt'\n"
                                 "optimizers.chain.transformations = [@optax.sgd()]\n");
  EXPECT_EQ(value_in(sgd.yaml, "init"), "{weights: /ckpt}");
  EXPECT_THAT(row_of(sgd, "utils.RestoreCheckpointConfig.path").note, HasSubstr("weights alone"));
  EXPECT_EQ(value_in(with_bindings("utils.RestoreCheckpointConfig.path = []\n").yaml, "init"),
            "(none)");
  const auto other = with_bindings(
      "utils.RestoreCheckpointConfig.path = '/ckpt'\n"
      "utils.RestoreCheckpointConfig.state_transformation_fns = [@mine.transform]\n");
  EXPECT_EQ(row_of(other, "utils.RestoreCheckpointConfig.state_transformation_fns").outcome,
            ImportOutcome::kRefused);
  const auto converted = with_bindings(
      "ckpt_script.convert_t5x_finetune_to_pretrain.pretrain_ckpt_dir = '/pretrained'\n");
  EXPECT_EQ(value_in(converted.yaml, "init"), "{weights: /pretrained, skip_head: true}");
}

// The launch lines of upstream's scripts.
TEST(RosettaImportTest, ScriptsAreTheirGinFilesWithBindings) {
  const support::TempDir folder;
  for (const auto* name : {"rosetta_pretrain.gin", "rosetta_base.gin"})
    folder.write(std::string("configs/") + name, read_file(sample(name), 1 << 20));
  const auto imported = [&](const std::string& text) {
    return import_recipe(folder.write("run.sh", "#!/bin/bash\nset -x\n" + text),
                         {.system = "rosetta"});
  };
  const std::string start =
      "SIZE=rosetta\nPREC=\"bfloat16\"\npython3 -u -m t5x.train "
      "--gin_file=\"configs/${SIZE}_pretrain.gin\" --multiprocess_gpu ";
  const auto recipe =
      imported("MODEL_DIR=/out/a\n" + start +
               "--gin.MODEL_DIR=\\\"${MODEL_DIR}\\\" --gin.BATCH_SIZE=$1 "
               "--gin.train.stats_period=50 --gin.config.GoogleViTConfig.dtype=\\\"${PREC}\\\" "
               "--gin_search_paths=/opt/rosetta 2>&1 | tee log\n");
  EXPECT_EQ(value_in(recipe.yaml, "run.dir"), "/out/a");
  EXPECT_EQ(value_in(recipe.yaml, "log.every_steps"), "50");
  EXPECT_EQ(value_in(recipe.yaml, "device.dtype"), "bfloat16");
  // What only the shell knows is named, where it is used too.
  EXPECT_EQ(row_of(recipe, "BATCH_SIZE").outcome, ImportOutcome::kRefused);
  const auto batch = row_of(recipe, "train/wds_utils.WebDatasetConfig.batch_size");
  EXPECT_EQ(batch.outcome, ImportOutcome::kRefused);
  EXPECT_THAT(batch.note, HasSubstr("$1"));
  const auto refusal = [&](const std::string& text) {
    try {
      imported(text);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refusal("python3 -m t5x.train --gin_file=configs/$1.gin\n"),
              ::testing::AllOf(HasSubstr("--gin_file is configs/$1.gin"), HasSubstr("$1")));
  EXPECT_THAT(refusal("echo hello\n"), HasSubstr("no command of t5x"));
  EXPECT_THAT(
      refusal("if [ -e x ]; then\n" + start + "\nelse\n" + start + "--gin.BATCH_SIZE=3\nfi\n"),
      ::testing::AllOf(HasSubstr("only the shell knows"), HasSubstr("BATCH_SIZE=3")));
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
