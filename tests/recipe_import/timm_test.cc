#include "fovea/recipe_import/timm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/recipe_import/import_support.h"
#include "tests/support/temp_dir.h"

namespace fovea::recipe_import {
namespace {

using ::testing::HasSubstr;

ModelInput input_in(const nlohmann::json& entry) {
  ModelInput input;
  input.img_size = entry.at("img_size").get<std::vector<int64_t>>();
  input.mean = entry.at("mean").get<std::vector<double>>();
  input.std = entry.at("std").get<std::vector<double>>();
  input.crop_pct = entry.at("crop_pct");
  input.crop_mode = entry.at("crop_mode");
  input.interpolation = entry.at("interpolation");
  input.num_classes = entry.at("num_classes");
  return input;
}

const nlohmann::json& golden_tags() {
  static const auto root = nlohmann::json::parse(
      read_file(FOVEA_SOURCE_DIR "/tests/golden/timm_tags.json", uint64_t{1} << 20));
  return root;
}

// As the models' table has it: without a crop mode.
std::optional<ModelInput> input_of_golden(const std::string& name) {
  const auto found = golden_tags().find(name);
  if (found == golden_tags().end()) return {};
  auto input = input_in(*found);
  input.crop_mode = "center";
  return input;
}

ImportedRecipe from_command(const std::string& flags, const std::string& system = "timm") {
  const support::TempDir folder;
  ImportOptions options;
  options.system = system;
  options.model_input = input_of_golden;
  return import_recipe(folder.write("run.txt", flags), options);
}

ImportedRecipe from_model(const std::string& model, const std::string& flags = "") {
  return from_command(fmt::format("train.py data --model {} {}", model, flags));
}

// Every tag of timm's, of the models that are here.
TEST(TimmImportTest, TagsAreThoseOfTimm) {
  size_t count = 0;
  for (const auto& [name, entry] : golden_tags().items()) {
    const auto plain = input_of_golden(name.substr(0, name.find('.')));
    ASSERT_TRUE(plain) << name;
    const auto found = input_of_tag(name, *plain), wanted = input_in(entry);
    EXPECT_EQ(found.img_size, wanted.img_size) << name;
    EXPECT_EQ(found.mean, wanted.mean) << name;
    EXPECT_EQ(found.std, wanted.std) << name;
    EXPECT_EQ(found.crop_pct, wanted.crop_pct) << name;
    EXPECT_EQ(found.crop_mode, wanted.crop_mode) << name;
    EXPECT_EQ(found.interpolation, wanted.interpolation) << name;
    EXPECT_EQ(found.num_classes, wanted.num_classes) << name;
    ++count;
  }
  EXPECT_GT(count, 400U);
}

TEST(TimmImportTest, WhatNoFlagSaysIsTheModels) {
  const std::string half = "mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]";
  const auto augreg = from_model("vit_base_patch16_224");
  EXPECT_THAT(value_in(augreg.yaml, "data.train.transforms"), HasSubstr(half));
  EXPECT_THAT(value_in(augreg.yaml, "data.val.transforms"), HasSubstr(half));
  const auto mae = from_model("vit_base_patch16_224.mae");
  EXPECT_THAT(value_in(mae.yaml, "data.val.transforms"), HasSubstr("mean: [0.485, 0.456, 0.406]"));
  EXPECT_EQ(value_in(mae.yaml, "model.num_classes"), "0");
  const auto large = from_model("vit_base_patch16_384");
  EXPECT_THAT(value_in(large.yaml, "data.val.transforms"),
              ::testing::AllOf(HasSubstr("size: 384, crop_pct: 1,"), HasSubstr(half)));
  EXPECT_THAT(value_in(large.yaml, "data.train.transforms"), HasSubstr("size: 384"));
  const auto squash = from_model("vit_base_patch16_clip_384");
  EXPECT_THAT(value_in(squash.yaml, "data.val.transforms"), HasSubstr("crop_mode: squash"));
  const auto given = from_model("vit_base_patch16_384",
                                "--mean 0.1 --std 0.2 0.3 0.4 --img-size 160 --crop-pct 0.8 "
                                "--interpolation bilinear --no-aug");
  EXPECT_THAT(value_in(given.yaml, "data.val.transforms"),
              ::testing::AllOf(HasSubstr("mean: [0.1, 0.1, 0.1], std: [0.2, 0.3, 0.4]"),
                               HasSubstr("size: 160, crop_pct: 0.8"), HasSubstr("bilinear")));
  EXPECT_THAT(value_in(given.yaml, "data.train.transforms"), HasSubstr("interpolation: bilinear"));
}

TEST(TimmImportTest, GradCheckpointingIsRecompute) {
  const auto recipe = from_model("vit_tiny_patch16_224", "--grad-checkpointing");
  EXPECT_EQ(value_in(recipe.yaml, "parallel.recompute"), "block");
  EXPECT_EQ(row_of(recipe, "grad_checkpointing").target, "parallel.recompute");
  EXPECT_EQ(value_in(from_model("vit_tiny_patch16_224").yaml, "parallel.recompute"), "(none)");
}

TEST(TimmImportTest, KeysOfTheModelAndTheOptimizer) {
  const auto recipe = from_model("vit_tiny_patch16_224",
                                 "--model-kwargs img_size=160 qk_norm=True reg_tokens=4 "
                                 "norm_layer=x --opt adamw --opt-kwargs 'betas=(0.9, 0.95)' "
                                 "nesterov=True");
  EXPECT_EQ(value_in(recipe.yaml, "model.img_size"), "160");
  EXPECT_EQ(value_in(recipe.yaml, "model.qk_norm"), "true");
  EXPECT_EQ(value_in(recipe.yaml, "model.reg_tokens"), "4");
  EXPECT_EQ(value_in(recipe.yaml, "optim.betas"), "[0.9, 0.95]");
  EXPECT_THAT(value_in(recipe.yaml, "data.val.transforms"), HasSubstr("size: 160"));
  for (const auto* key : {"model_kwargs.norm_layer", "opt_kwargs.nesterov"}) {
    EXPECT_EQ(row_of(recipe, key).outcome, ImportOutcome::kRefused) << key;
  }
  const support::TempDir folder;
  const auto yaml =
      import_recipe(folder.write("args.yaml",
                                 "model: vit_tiny_patch16_224\nmodel_kwargs: {init_values: 1e-5}\n"
                                 "opt_kwargs: {}\n"),
                    {.system = "timm"});
  EXPECT_EQ(value_in(yaml.yaml, "model.init_values"), "1e-5");
  EXPECT_EQ(row_of(yaml, "opt_kwargs").outcome, ImportOutcome::kMapped);
  EXPECT_THROW(from_model("vit_tiny_patch16_224", "--model-kwargs img_size 160"), ConfigError);
}

// Flags that say nothing of what is trained are no refusals.
TEST(TimmImportTest, WhatChangesNothingIsMapped) {
  const auto recipe = from_model(
      "vit_tiny_patch16_224",
      "--pin-mem --worker-seeding all --dist-bn reduce --validation-batch-size 8 --epoch-repeats "
      "0. "
      "--naflex-max-seq-len 576 --lr-noise-pct 0.67 --patience-epochs 10 --local_rank 0");
  for (const auto& row : recipe.rows) EXPECT_NE(row.outcome, ImportOutcome::kRefused) << row.key;
  const auto naflex = from_model("vit_tiny_patch16_224", "--naflex-loader --epoch-repeats 2");
  EXPECT_EQ(row_of(naflex, "naflex_loader").outcome, ImportOutcome::kRefused);
  EXPECT_EQ(row_of(naflex, "epoch_repeats").outcome, ImportOutcome::kRefused);
}

TEST(TimmImportTest, WeightsAndBiasesStayOffline) {
  const auto recipe = from_model("vit_tiny_patch16_224", "--log-wandb --wandb-project p");
  EXPECT_EQ(value_in(recipe.yaml, "log.wandb"), "{project: p}");
  EXPECT_THAT(row_of(recipe, "log_wandb").note, HasSubstr("offline"));
  const auto off = from_model("vit_tiny_patch16_224", "--wandb-project p");
  EXPECT_EQ(row_of(off, "wandb_project").target, "");
}

TEST(TimmImportTest, NoValidateEvaluatesAtTheEnd) {
  const auto recipe = from_command("main.py d --model t2t_vit_14 --no-validate", "jabas");
  EXPECT_EQ(value_in(recipe.yaml, "trainer.eval_every_epochs"), "0");
}

TEST(TimmImportTest, EvaluationsInAFileAreRefused) {
  const support::TempDir folder;
  const auto file = folder.write("a.yaml", "model: t2t_vit_14\neval_checkpoint: best.pth.tar\n");
  EXPECT_THROW(import_recipe(file, {.system = "jabas"}), ConfigError);
  const auto none = folder.write("b.yaml", "model: t2t_vit_14\neval_checkpoint: ''\n");
  EXPECT_EQ(row_of(import_recipe(none, {.system = "jabas"}), "eval_checkpoint").outcome,
            ImportOutcome::kMapped);
}

// T2T-ViT's program has another batch than JABAS's, which grew out of it.
TEST(TimmImportTest, BatchesOfT2tAndOfJabas) {
  EXPECT_EQ(value_in(from_command("main.py d --model t2t_vit_14", "jabas").yaml,
                     "data.global_batch_size"),
            "64");
  EXPECT_EQ(value_in(from_command("main.py d --model t2t_vit_14 --num-models 2", "jabas").yaml,
                     "data.global_batch_size"),
            "64");
  EXPECT_EQ(value_in(from_command("main.py d --model t2t_vit_14 --num-models 2", "jabas").yaml,
                     "trainer.concurrent_passes"),
            "2");
  EXPECT_EQ(value_in(from_command("main.py d --model t2t_vit_14 --accum-step 0", "jabas").yaml,
                     "data.global_batch_size"),
            "32");
}

// The line of T2T-ViT's page.
TEST(TimmImportTest, TransferLearningIsSgdAtTwoRates) {
  const auto recipe = from_command(
      "CUDA_VISIBLE_DEVICES=0,1 python transfer_learning.py --lr 0.05 --b 64 --num-classes 10 "
      "--img-size 224 --transfer-learning True --transfer-model /weights/T2T-ViT-19 --model "
      "T2t_vit_19",
      "jabas");
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"model.preset", "t2t_vit_19"},
                                          {"model.num_classes", "10"},
                                          {"init.weights", "/weights/T2T-ViT-19"},
                                          {"init.skip_head", "true"},
                                          {"optim.name", "sgd"},
                                          {"optim.lr", "0.05"},
                                          {"optim.momentum", "0.9"},
                                          {"optim.weight_decay", "0.0005"},
                                          {"optim.decay_all", "true"},
                                          {"optim.layer_decay", "0.01"},
                                          {"optim.layer_decay_min_scale", "0.01"},
                                          {"trainer.freeze", "[cls_token, \"norm.*\"]"},
                                          {"trainer.max_epochs", "60"},
                                          {"schedule.min_lr", "0.0002"},
                                          {"data.train.format", "cifar_python"},
                                          {"data.global_batch_size", "64"},
                                          {"task.label_smoothing", "(none)"},
                                          {"data.mixup", "(none)"}}) {
    EXPECT_EQ(value_in(recipe.yaml, key), value) << key;
  }
  for (const auto& row : recipe.rows) EXPECT_NE(row.outcome, ImportOutcome::kRefused) << row.key;
  const auto plain =
      from_command("transfer_learning.py --dataset cifar100 --wd 0 --transfer-ratio 1", "jabas");
  EXPECT_EQ(value_in(plain.yaml, "model.num_classes"), "100");
  EXPECT_EQ(value_in(plain.yaml, "init"), "(none)");
  EXPECT_EQ(value_in(plain.yaml, "optim.layer_decay"), "(none)");
  EXPECT_EQ(row_of(plain, "transfer_ratio").outcome, ImportOutcome::kRefused);
  EXPECT_THROW(from_command("transfer_learning.py --dataset svhn", "jabas"), ConfigError);
}

}  // namespace
}  // namespace fovea::recipe_import
