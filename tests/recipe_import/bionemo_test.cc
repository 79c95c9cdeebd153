#include "fovea/recipe_import/bionemo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/recipe_import/import_support.h"
#include "tests/support/temp_dir.h"

namespace fovea::recipe_import {
namespace {

using ::testing::HasSubstr;

// The sample with changes as on the command line.
ImportedRecipe changed_bionemo(const std::vector<std::string>& changes, int64_t num_gpus = 0) {
  ImportOptions options;
  options.system = "bionemo";
  options.num_gpus = num_gpus;
  options.overrides = changes;
  return import_recipe(sample("bionemo.yaml"), options);
}

std::string train_list(const std::vector<std::string>& changes) {
  std::vector<std::string> full;
  for (const auto& change : changes) full.push_back("++dataset.train.transform_kwargs." + change);
  return value_in(changed_bionemo(full).yaml, "data.train.transforms");
}

TEST(BionemoImportTest, TransformsKeepWhatTheFileSays) {
  EXPECT_THAT(train_list({}),
              ::testing::AllOf(HasSubstr("random_resized_crop"),
                               HasSubstr("interpolation: bicubic"), HasSubstr("scale: [0.08, 1]")));
  EXPECT_THAT(train_list({"train_crop_mode=rkrc", "interpolation=bilinear"}),
              ::testing::AllOf(HasSubstr("name: rkrc"), HasSubstr("interpolation: bilinear"),
                               HasSubstr("scale: [0.8, 1]")));
  EXPECT_THAT(train_list({"train_crop_mode=rkrr", "scale=[0.5,0.9]"}),
              ::testing::AllOf(HasSubstr("name: rkrr"), HasSubstr("interpolation: random"),
                               HasSubstr("scale: [0.5, 0.9]")));
  EXPECT_THAT(train_list({"img_size=[160,192]", "color_jitter=[0.1,0.2,0.3,0.05]"}),
              ::testing::AllOf(HasSubstr("size: [160, 192]"),
                               HasSubstr("brightness: 0.1, contrast: 0.2, saturation: 0.3, hue: "
                                         "0.05")));
  EXPECT_THAT(train_list({"normalize=false"}), HasSubstr("mean: [0], std: [1]"));
  EXPECT_THROW(train_list({"train_crop_mode=square"}), ConfigError);
  EXPECT_THROW(train_list({"color_jitter=[1,2]"}), ConfigError);
  const auto val = changed_bionemo({"dataset.val.transform_kwargs.mean=[0.5,0.5,0.5]",
                                    "dataset.val.transform_kwargs.std=[0.1,0.2,0.3]",
                                    "dataset.val.transform_kwargs.img_size=256",
                                    "model.vit.img_size=[224,224]"});
  EXPECT_THAT(value_in(val.yaml, "data.val.transforms"),
              ::testing::AllOf(HasSubstr("mean: [0.5, 0.5, 0.5], std: [0.1, 0.2, 0.3]"),
                               HasSubstr("size: 256")));
  EXPECT_EQ(value_in(val.yaml, "model.img_size"), "[224, 224]");
}

TEST(BionemoImportTest, TheMeshIsTheRecipes) {
  const auto recipe = changed_bionemo({"distributed.cp=2", "distributed.tp=2"});
  EXPECT_EQ(value_in(recipe.yaml, "parallel.cp"), "2");
  EXPECT_EQ(value_in(recipe.yaml, "parallel.tp"), "2");
  EXPECT_EQ(value_in(recipe.yaml, "parallel.reduce_dtype"), "float32");
  EXPECT_EQ(value_in(recipe.yaml, "data.global_batch_size"), "32");  // not the tokens' processes
  EXPECT_EQ(row_of(recipe, "fsdp.grad_reduce_in_fp32").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(row_of(recipe, "fsdp.outer_dp_sharding_strategy").outcome, ImportOutcome::kMapped);
  const auto outer = changed_bionemo({"distributed.dp_outer=2"});
  EXPECT_EQ(row_of(outer, "fsdp.outer_dp_sharding_strategy").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(value_in(outer.yaml, "parallel.shard_outer"), "optimizer");
  EXPECT_EQ(value_in(outer.yaml, "data.global_batch_size"), "64");
  const auto off = changed_bionemo({"distributed.dp_outer=2", "fsdp.outer_dp_sharding_strategy=0"});
  EXPECT_EQ(row_of(off, "fsdp.outer_dp_sharding_strategy").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(value_in(off.yaml, "parallel.shard_outer"), "(none)");
  const auto other =
      changed_bionemo({"distributed.dp_outer=2", "fsdp.outer_dp_sharding_strategy=optim_grads"});
  EXPECT_EQ(row_of(other, "fsdp.outer_dp_sharding_strategy").outcome, ImportOutcome::kRefused);
}

// Whatever the file says of what its layers have not.
TEST(BionemoImportTest, TransformerEngineIsTheModelThatItIs) {
  const auto recipe = changed_bionemo({"model.transformer_engine=true", "model.vit.drop_rate=0.2"});
  for (const auto* key : {"qk_norm", "scale_attn_norm", "scale_mlp_norm"}) {
    EXPECT_EQ(value_in(recipe.yaml, std::string("model.") + key), "false") << key;
    EXPECT_EQ(row_of(recipe, std::string("model.vit.") + key).outcome, ImportOutcome::kChanged);
  }
  EXPECT_EQ(value_in(recipe.yaml, "model.drop_path_rate"), "0");
  EXPECT_EQ(value_in(recipe.yaml, "model.proj_drop_rate"), "0.2");
  EXPECT_EQ(value_in(changed_bionemo({}).yaml, "model.qk_norm"), "true");
}

TEST(BionemoImportTest, WeightsAndBiases) {
  EXPECT_EQ(value_in(changed_bionemo({}).yaml, "log"), "{every_steps: 5}");
  const auto recipe = changed_bionemo({"profiling.wandb=true", "+profiling.wandb_kwargs.entity=lab",
                                       "profiling.wandb_kwargs.name=a"});
  EXPECT_EQ(value_in(recipe.yaml, "log.wandb"), "{project: bionemo-recipes, name: a, entity: lab}");
  EXPECT_THAT(row_of(recipe, "profiling.wandb").note, HasSubstr("offline"));
  const auto online =
      changed_bionemo({"profiling.wandb=true", "+profiling.wandb_kwargs.mode=online"});
  EXPECT_EQ(value_in(online.yaml, "log.wandb.mode"), "online");
}

TEST(BionemoImportTest, ClassesAreThoseOfTheMap) {
  const auto words = changed_bionemo({"dataset.num_classes=100000"});
  EXPECT_EQ(value_in(words.yaml, "data.train.classes"), "words");
  EXPECT_EQ(value_in(words.yaml, "data.val.num_classes"), "100000");
  EXPECT_EQ(value_in(words.yaml, "model.num_classes"), "100000");
  const auto wnids =
      changed_bionemo({"dataset.train.class_map=a/wnids.txt", "dataset.val.class_map=a/wnids.txt"});
  EXPECT_EQ(value_in(wnids.yaml, "data.train.classes"), "(none)");
  EXPECT_EQ(row_of(wnids, "dataset.train.class_map").outcome, ImportOutcome::kMapped);
  const auto other = changed_bionemo({"dataset.train.class_map=a/my.txt"});
  EXPECT_EQ(row_of(other, "dataset.train.class_map").outcome, ImportOutcome::kRefused);
}

}  // namespace
}  // namespace fovea::recipe_import
