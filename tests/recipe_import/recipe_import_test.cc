#include "fovea/recipe_import/recipe_import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/phases.h"
#include "tests/data/support.h"
#include "tests/recipe_import/import_support.h"

namespace fovea::recipe_import {
namespace {

using ::testing::HasSubstr;

struct ImportCase {
  std::string file, system;
  size_t least_keys;
  std::string task = {};
};

ImportedRecipe imported(const ImportCase& item) {
  ImportOptions options;
  options.system = item.system;
  options.task = item.task;
  return import_recipe(sample(item.file), options);
}

struct Expected {
  std::string key, value;
};

void expect_values(const ImportCase& item, const std::vector<Expected>& expected) {
  const auto recipe = imported(item);
  for (const auto& [key, value] : expected) EXPECT_EQ(value_in(recipe.yaml, key), value) << key;
}

std::vector<ImportCase> all_cases() {
  return {{"ucf.yaml", "ucf", 67, "mae"},
          {"ucf.yaml", "ucf", 67, "classification"},
          {"ucf.yaml", "ucf", 67, "unetr"},
          {"ucf.yaml", "ucf", 67, "sap"},
          {"ucf.yaml", "ucf", 67, "diffusion"},
          {"ucf_ct.yaml", "ucf", 30},
          {"bionemo.yaml", "bionemo", 105},
          {"rosetta_pretrain.gin", "rosetta", 95},
          {"rosetta_finetune.gin", "rosetta", 50},
          {"timm.yaml", "timm", 150},
          {"timm.sh", "timm", 24},
          {"jabas.sh", "jabas", 70},
          {"jabas.json", "jabas", 17}};
}

// The samples hold every key that the systems' configurations have: each is mapped, changed or
// refused with a reason, and what comes out is a recipe.
TEST(RecipeImportTest, AccountsForEveryKey) {
  size_t total = 0;
  for (const auto& item : all_cases()) {
    SCOPED_TRACE(item.file + " " + item.task);
    const auto recipe = imported(item);
    EXPECT_GE(recipe.rows.size(), item.least_keys);
    std::set<std::string> keys;
    for (const auto& row : recipe.rows) {
      EXPECT_TRUE(keys.insert(row.key).second) << row.key << " twice";
      EXPECT_THAT(row.note, ::testing::Not(HasSubstr("no key of this system"))) << row.key;
      if (row.outcome != ImportOutcome::kMapped) {
        EXPECT_FALSE(row.note.empty()) << row.key;
      } else {
        EXPECT_TRUE(!row.target.empty() || !row.note.empty()) << row.key;
      }
    }
    total += keys.size();
    EXPECT_NE(value_in(recipe.yaml, "run.dir"), "(none)");
    const auto table = import_table(recipe.rows);
    for (const auto& row : recipe.rows) EXPECT_THAT(table, HasSubstr("\n  " + row.key + " = "));
  }
  std::cout << "  " << total << " keys of " << all_cases().size() << " files\n";
}

TEST(RecipeImportTest, UcfMae) {
  expect_values({"ucf.yaml", "ucf", 0, "mae"},
                {{"model.name", "mae"},
                 {"model.encoder.img_size", "[256, 256]"},
                 {"model.encoder.embed_dim", "768"},
                 {"model.encoder.class_token", "false"},
                 {"model.encoder.in_chans", "3"},
                 {"model.decoder_depth", "8"},
                 {"task.loss_on", "all"},
                 {"trainer.grad_scaler.enabled", "true"},
                 {"trainer.grad_scaler.init_scale", "8192"},
                 {"trainer.grad_scaler.growth_interval", "100"},
                 {"trainer.grad_scaler.min_scale", "128"},
                 {"data.global_batch_size", "256"},  // 32 on each of eight
                 {"model.encoder.patching", "adaptive"},
                 {"model.decoder_pos_embed", "learn"},
                 {"data.adaptive_patching.fixed_length", "196"},
                 {"model.encoder.variables", "(none)"},
                 {"data.train.path", "/data/imagenet/train"},
                 {"schedule.warmup_steps", "1000"},
                 {"optim.betas", "[0.9, 0.95]"},
                 {"run.dir", "out"},
                 {"trainer.max_epochs", "600"}});
}

TEST(RecipeImportTest, UcfChannelsBecomeVariables) {
  auto text = read_file(sample("ucf.yaml"), 1 << 20);
  const auto edit = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), text.npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  edit("use_varemb: False", "use_varemb: True");
  edit("adaptive_patching: True", "adaptive_patching: False");
  edit("{imagenet: [red, green, blue]}", "{imagenet: [red, blue]}");
  const data::testing::TempDir folder;
  ImportOptions options;
  options.system = "ucf";
  options.task = "classification";
  const auto recipe = import_recipe(folder.write("variables.yaml", text), options);
  EXPECT_EQ(value_in(recipe.yaml, "model.variables"), "[red, green, blue]");
  EXPECT_EQ(value_in(recipe.yaml, "model.share_patch_embed"), "true");
  EXPECT_THAT(value_in(recipe.yaml, "data.train.sets"), HasSubstr("variables: [red, blue]"));
  EXPECT_EQ(row_of(recipe, "model.net.init_args.use_varemb").outcome, ImportOutcome::kMapped);
}

// A sample of UCF-VIT's, with texts replaced.
struct Edit {
  std::string from, to;
};

ImportedRecipe imported_ucf(const std::string& file, const std::string& task,
                            const std::vector<Edit>& edits) {
  auto text = read_file(sample(file), 1 << 20);
  for (const auto& [from, to] : edits) {
    EXPECT_NE(text.find(from), text.npos) << from;
    text.replace(text.find(from), from.size(), to);
  }
  const data::testing::TempDir folder;
  ImportOptions options;
  options.system = "ucf";
  options.task = task;
  return import_recipe(folder.write("ucf.yaml", text), options);
}

constexpr const char* kInitArgs = "model.net.init_args.";

TEST(RecipeImportTest, UcfDatasetOfItsOwnIsRefused) {
  const auto recipe = imported_ucf("ucf_ct.yaml", "", {{"dataset: basic_ct", "dataset: sst"}});
  for (const char* key : {"data.dataset", "data.dict_root_dirs", "data.dict_start_idx"}) {
    EXPECT_EQ(row_of(recipe, key).outcome, ImportOutcome::kRefused) << key;
  }
  EXPECT_EQ(value_in(recipe.yaml, "data.train"), "(none)");
  EXPECT_EQ(value_in(recipe.yaml, "data.tiling.tile_size"), "[16, 32, 64]");
}

TEST(RecipeImportTest, UcfTilesOfResizedImagesAreRefused) {
  const auto whole = imported_ucf("ucf.yaml", "mae", {});
  EXPECT_EQ(row_of(whole, "data.tile_overlap").note, "an image is one tile");
  const auto recipe =
      imported_ucf("ucf.yaml", "mae", {{"tile_size: [256, 256]", "tile_size: [64, 64]"}});
  for (const auto& key : {std::string(kInitArgs) + "tile_size", std::string("data.tile_overlap"),
                          std::string("data.use_all_data")}) {
    EXPECT_EQ(row_of(recipe, key).outcome, ImportOutcome::kRefused) << key;
  }
}

TEST(RecipeImportTest, UcfSetsKeepTheirOwnSizes) {
  const auto recipe =
      imported_ucf("ucf.yaml", "mae",
                   {{"dict_root_dirs: {imagenet: /data/imagenet/train}",
                     "dict_root_dirs: {imagenet: /a, photos: /b}"},
                    {"imagenet_resize: {imagenet: [256, 256]}",
                     "imagenet_resize: {imagenet: [256, 256], photos: [320, 240]}"}});
  EXPECT_THAT(value_in(recipe.yaml, "data.train.sets"),
              ::testing::AllOf(HasSubstr("size: [256, 256]"), HasSubstr("size: [240, 320]")));
}

TEST(RecipeImportTest, UcfChannelsAreThoseOfTheModelOrRefused) {
  const std::string used = "num_channels_used: {imagenet: 3}";
  const auto fewer = imported_ucf("ucf.yaml", "mae", {{used, "num_channels_used: {imagenet: 2}"}});
  EXPECT_EQ(row_of(fewer, "data.num_channels_used").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(value_in(fewer.yaml, "data.train.channels"), "[0, 1]");
  EXPECT_EQ(value_in(fewer.yaml, "model.encoder.in_chans"), "2");
  EXPECT_EQ(value_in(imported_ucf("ucf.yaml", "mae", {}).yaml, "data.train.channels"), "(none)");
  const auto single =
      imported_ucf("ucf.yaml", "mae", {{"single_channel: False", "single_channel: True"}});
  EXPECT_EQ(row_of(single, "data.single_channel").outcome, ImportOutcome::kRefused);
  const auto many = imported_ucf(
      "ucf_ct.yaml", "",
      {{"default_vars: [ct_res1]", "use_varemb: True, default_vars: [ct, mri]"},
       {"batch_size: 2", "dict_in_variables: {ct1: [ct], ct2: [mri]}\n  batch_size: 2"}});
  EXPECT_EQ(value_in(many.yaml, "model.encoder.in_chans"), "2");  // of all sets, not of the first
}

TEST(RecipeImportTest, UcfKeysThatSayNothingElseAreMapped) {
  const auto diffusion = imported({"ucf.yaml", "ucf", 0, "diffusion"});
  EXPECT_EQ(row_of(diffusion, "model.loss_fn").outcome, ImportOutcome::kMapped);
  const auto drop = std::string(kInitArgs) + "drop_rate";
  EXPECT_EQ(row_of(imported_ucf("ucf.yaml", "mae", {}), drop).outcome, ImportOutcome::kMapped);
  const auto some = imported_ucf("ucf.yaml", "mae", {{"drop_rate: 0.0", "drop_rate: 0.1"}});
  EXPECT_EQ(row_of(some, drop).outcome, ImportOutcome::kRefused);
}

TEST(RecipeImportTest, UcfOneOutputIsARegression) {
  const auto recipe = imported_ucf("ucf_ct.yaml", "", {{"num_classes: 4", "num_classes: 1"}});
  EXPECT_EQ(row_of(recipe, "data.num_classes").outcome, ImportOutcome::kRefused);
  EXPECT_THAT(row_of(recipe, "data.num_classes").note, HasSubstr("regression"));
}

TEST(RecipeImportTest, UcfStatesInTheHostsMemory) {
  const Edit on{"fsdp_size: 2", "cpu_offloading: True, fsdp_size: 2"};
  const auto recipe = imported_ucf("ucf_ct.yaml", "", {on});
  EXPECT_EQ(value_in(recipe.yaml, "parallel.cpu_offload"), "true");
  const auto alone = imported_ucf("ucf_ct.yaml", "", {{"fsdp_size: 2", "cpu_offloading: True"}});
  EXPECT_EQ(row_of(alone, "parallelism.cpu_offloading").outcome, ImportOutcome::kRefused);
  EXPECT_EQ(value_in(alone.yaml, "parallel"), "(none)");
}

TEST(RecipeImportTest, UcfSmallerSetsAreGoneThroughAgain) {
  EXPECT_EQ(value_in(imported({"ucf_ct.yaml", "ucf", 0}).yaml, "data.mix"), "cycle_to_largest");
  EXPECT_EQ(value_in(imported({"ucf.yaml", "ucf", 0, "mae"}).yaml, "data.mix"), "(none)");
}

TEST(RecipeImportTest, UcfGridsHaveLearnedPositions) {
  const Edit grid{"adaptive_patching: True", "adaptive_patching: no"};  // PyYAML's false
  const auto recipe = imported_ucf("ucf.yaml", "mae", {grid});
  EXPECT_EQ(value_in(recipe.yaml, "model.encoder.pos_embed"), "sincos_learn");
  EXPECT_EQ(value_in(recipe.yaml, "model.decoder_pos_embed"), "sincos_learn");
  EXPECT_EQ(value_in(recipe.yaml, "model.decoder_norm_eps"), "1e-5");
  EXPECT_EQ(value_in(recipe.yaml, "model.encoder.patching"), "(none)");
}

// PyYAML's names for values.
TEST(RecipeImportTest, FilesOfOthersMayNameValues) {
  const auto recipe = imported_ucf("ucf_ct.yaml", "",
                                   {{"max_epochs: 100", "max_epochs: &n 7"},
                                    {"batch_size: 2", "batch_size: *n"},
                                    {"{ct1: 0, ct2: 0}", "&zero {ct1: 0, ct2: 0}"},
                                    {"{ct1: 0.5, ct2: 1}", "{<<: *zero, ct2: 1}"}});
  EXPECT_EQ(value_in(recipe.yaml, "trainer.max_epochs"), "7");
  EXPECT_EQ(value_in(recipe.yaml, "data.global_batch_size"), "56");
  EXPECT_EQ(row_of(recipe, "data.dict_end_idx").value, "{ct2: 1, ct1: 0}");
}

TEST(RecipeImportTest, UcfStartsFromTheFileThatIsThere) {
  const auto recipe = imported_ucf("ucf_ct.yaml", "", {{"last.ckpt", "multi_last_even"}});
  EXPECT_EQ(value_in(recipe.yaml, "init.weights"), "mae/multi_last_even.ckpt");
}

TEST(RecipeImportTest, AFlagThatIsNoneIsAnError) {
  EXPECT_THROW(imported_ucf("ucf.yaml", "mae", {{"use_varemb: False", "use_varemb: perhaps"}}),
               ConfigError);
}

TEST(RecipeImportTest, UcfSapTakesAdaptivePatches) {
  expect_values({"ucf_ct.yaml", "ucf", 0, "sap"}, {{"model.name", "sap"},
                                                   {"model.encoder.patching", "adaptive"},
                                                   {"model.encoder.pos_embed", "size_and_center"},
                                                   {"model.encoder.pos_in_pixels", "true"},
                                                   {"data.adaptive_patching.fixed_length", "512"},
                                                   {"task.loss.name", "ucf_dice_bce"}});
}

// As its recipe for SAP is: with the keys of a MAE that it may start from.
TEST(RecipeImportTest, UcfSapIsToldFromAMae) {
  auto text = read_file(sample("ucf_ct.yaml"), 1 << 20);
  const std::string unetr = "feature_size: 16,\n                skip_connection: False";
  ASSERT_NE(text.find(unetr), text.npos);
  text.replace(text.find(unetr), unetr.size(), "mask_ratio: 0.75, decoder_depth: 8");
  const data::testing::TempDir folder;
  ImportOptions options;
  options.system = "ucf";
  const auto file = folder.write("sap.yaml", text);
  const auto recipe = import_recipe(file, options);
  EXPECT_EQ(value_in(recipe.yaml, "model.name"), "sap");
  EXPECT_THAT(recipe.remark, ::testing::AllOf(HasSubstr("task: sap"), HasSubstr("--task"),
                                              HasSubstr("use_pretrained_mae_model")));
  EXPECT_EQ(row_of(recipe, "data.num_classes").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(row_of(recipe, "data.num_classes").target, "model.num_classes");
  EXPECT_EQ(row_of(recipe, "model.net.init_args.mask_ratio").outcome, ImportOutcome::kRefused);
  EXPECT_EQ(value_in(recipe.yaml, "model.encoder.patch_norm"), "(none)");
  options.task = "mae";
  const auto other = import_recipe(file, options);
  EXPECT_EQ(value_in(other.yaml, "model.name"), "mae");
  EXPECT_THAT(other.remark, HasSubstr("told by --task"));
  EXPECT_EQ(value_in(other.yaml, "model.encoder.patch_norm"), "true");
}

TEST(RecipeImportTest, UcfUnetrOnAGridInterpolates) {
  auto text = read_file(sample("ucf_ct.yaml"), 1 << 20);
  const std::string on = "adaptive_patching: True";
  text.replace(text.find(on), on.size(), "adaptive_patching: False");
  const data::testing::TempDir folder;
  ImportOptions options;
  options.system = "ucf";
  const auto recipe = import_recipe(folder.write("grid.yaml", text), options);
  EXPECT_EQ(value_in(recipe.yaml, "model.upsample"), "resize");
  EXPECT_EQ(value_in(recipe.yaml, "model.adaptive_map"), "(none)");
  EXPECT_EQ(value_in(recipe.yaml, "data.adaptive_patching"), "(none)");
  EXPECT_EQ(row_of(recipe, "model.net.init_args.patch_size").outcome, ImportOutcome::kChanged);
}

TEST(RecipeImportTest, UcfUnetrOnTwoSetsOfVolumes) {
  expect_values({"ucf_ct.yaml", "ucf", 0},
                {{"model.name", "unetr"},
                 {"model.encoder.img_size", "[16, 32, 64]"},  // depth, height, width
                 {"model.num_classes", "4"},
                 {"model.skip_connection", "false"},
                 {"model.adaptive_map", "sequence"},
                 {"model.upsample", "(none)"},
                 {"model.encoder.patching", "adaptive"},
                 {"model.encoder.patch_norm", "(none)"},
                 {"model.encoder.pos_in_pixels", "true"},
                 {"data.adaptive_patching.fixed_length", "512"},
                 {"device.dtype", "bfloat16"},
                 {"init.weights", "mae/last.ckpt"},
                 {"init.part", "encoder"},
                 {"parallel.dp_shard", "2"},
                 {"data.global_batch_size", "16"},
                 {"data.train.format", "mix"},
                 {"data.tiling.tile_overlap", "0.5"}});
  const auto row =
      row_of(imported({"ucf_ct.yaml", "ucf", 0}), "model.net.init_args.adaptive_patching");
  EXPECT_EQ(row.outcome, ImportOutcome::kChanged);
  EXPECT_THAT(row.note, ::testing::AllOf(HasSubstr("sequence"), HasSubstr("the default, image")));
}

TEST(RecipeImportTest, Bionemo) {
  const ImportCase item{"bionemo.yaml", "bionemo", 0};
  expect_values(item, {{"model.global_pool", "map"},
                       {"model.reg_tokens", "8"},
                       {"model.num_classes", "200"},
                       {"model.fix_init", "true"},
                       {"model.norm_eps", "1e-5"},
                       {"data.global_batch_size", "32"},
                       {"parallel.dp_shard", "4"},
                       {"parallel.zero", "3"},
                       {"data.train.path", "data/super-tiny-imagenet-5"},
                       {"trainer.max_steps", "500"},
                       {"trainer.eval_every_steps", "25"},
                       {"checkpoint.label_metric", "loss"},
                       {"trainer.max_grad_norm", "1.0"}});
  EXPECT_EQ(row_of(imported(item), "model.vit.pos_embed").outcome, ImportOutcome::kChanged);
  EXPECT_EQ(row_of(imported(item), "fsdp.zero_dp_strategy").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(row_of(imported(item), "fsdp.fsdp_unit_modules").outcome, ImportOutcome::kMapped);
  EXPECT_EQ(row_of(imported(item), "model.vit.depth").outcome, ImportOutcome::kMapped);
}

TEST(RecipeImportTest, RosettaPretrainingAndFineTuning) {
  expect_values({"rosetta_pretrain.gin", "rosetta", 0}, {{"model.representation_size", "768"},
                                                         {"model.act_layer", "gelu_tanh"},
                                                         {"model.norm_eps", "1e-5"},
                                                         {"model.proj_drop_rate", "0.1"},
                                                         {"data.global_batch_size", "4096"},
                                                         {"trainer.micro_batch_size", "512"},
                                                         {"trainer.max_steps", "95000"},
                                                         {"trainer.eval_every_steps", "1000"},
                                                         {"schedule.total_steps", "75000"},
                                                         {"schedule.warmup_prefix", "true"},
                                                         {"optim.weight_decay", "0.3"},
                                                         {"optim.lr", "0.003"},
                                                         {"run.dir", "runs/b16"},
                                                         {"device.dtype", "bfloat16"}});
  expect_values({"rosetta_finetune.gin", "rosetta", 0}, {{"model.img_size", "[384, 384]"},
                                                         {"model.representation_size", "0"},
                                                         {"optim.name", "sgd"},
                                                         {"optim.momentum", "0.9"},
                                                         {"trainer.max_steps", "20000"}});
}

TEST(RecipeImportTest, TimmArgumentsAndCommandLine) {
  expect_values({"timm.yaml", "timm", 0},
                {{"data.global_batch_size", "256"},
                 {"trainer.micro_batch_size", "128"},
                 {"trainer.max_epochs", "115"},  // with warm-up in front and cooldown behind
                 {"device.dtype", "bfloat16"},
                 {"data.num_repeats", "3"},
                 {"task.loss", "bce"},
                 {"trainer.ema.enabled", "true"},
                 {"trainer.ema.warmup", "true"}});
  expect_values({"timm.sh", "timm", 0}, {{"data.global_batch_size", "1024"},  // 128 on eight
                                         {"init.weights", "\"mae weights.pth\""},
                                         {"model.preset", "vit_base_patch16_224"},
                                         {"model.global_pool", "avg"},
                                         {"device.dtype", "float16"},  // and its scaler
                                         {"optim.lr", "0.001"},        // by the root of the batch
                                         {"optim.layer_decay", ".65"},
                                         {"schedule.warmup_steps", "6255"},
                                         {"data.val.path", "/data/imagenet/val"}});
}

// A timm command line with `flags`, as a file.
std::string timm_command(const data::testing::TempDir& folder, const std::string& flags) {
  return folder.write("run.txt", "train.py data --model vit_tiny_patch16_224 " + flags);
}

ImportedRecipe imported_timm(const std::string& flags) {
  const data::testing::TempDir folder;
  return import_recipe(timm_command(folder, flags), {.system = "timm"});
}

// A flag's value that is not here is a row, and what stands in its place is a recipe.
TEST(RecipeImportTest, TimmOptimizersAndSchedulesThatAreNotHere) {
  for (const auto* opt : {"nadamw", "lion", "shampoo"}) {
    const auto recipe = imported_timm(fmt::format("--opt {}", opt));
    const auto& row = row_of(recipe, "opt");
    EXPECT_EQ(row.outcome, ImportOutcome::kRefused);
    EXPECT_THAT(row.note, HasSubstr(fmt::format("{} is not here", opt)));
    EXPECT_EQ(value_in(recipe.yaml, "optim.name"), "adamw");
  }
  for (const auto* sched : {"tanh", "plateau", "wsd"}) {
    const auto recipe = imported_timm(fmt::format("--sched {} --lr-k-decay 1.5", sched));
    EXPECT_EQ(row_of(recipe, "sched").outcome, ImportOutcome::kRefused);
    EXPECT_THAT(row_of(recipe, "sched").note, HasSubstr(fmt::format("{} is not here", sched)));
    EXPECT_EQ(row_of(recipe, "lr_k_decay").outcome, ImportOutcome::kRefused);
    EXPECT_EQ(value_in(recipe.yaml, "schedule.name"), "constant");
    EXPECT_EQ(value_in(recipe.yaml, "schedule.k_decay"), "(none)");
  }
  const auto step = imported_timm("--opt momentum --opt-eps 1e-6 --sched step --lr-cycle-limit 2");
  EXPECT_EQ(value_in(step.yaml, "optim.nesterov"), "false");
  EXPECT_EQ(value_in(step.yaml, "optim.eps"), "(none)");
  EXPECT_EQ(row_of(step, "opt_eps").outcome, ImportOutcome::kRefused);
  EXPECT_EQ(value_in(step.yaml, "schedule.cycle_limit"), "(none)");
  const auto poly = imported_timm("--opt lambc --sched poly --decay-rate 0.9");
  EXPECT_EQ(value_in(poly.yaml, "optim.trust_clip"), "true");
  EXPECT_EQ(value_in(poly.yaml, "schedule.power"), "0.9");
}

TEST(RecipeImportTest, TimmClipping) {
  const std::map<std::string, std::string> keys = {{"norm", "trainer.max_grad_norm"},
                                                   {"value", "trainer.max_grad_value"},
                                                   {"agc", "trainer.max_grad_ratio"}};
  for (const auto& [mode, key] : keys) {
    const auto recipe = imported_timm("--clip-grad 0.02 --clip-mode " + mode);
    for (const auto& other : keys)
      EXPECT_EQ(value_in(recipe.yaml, other.second), other.second == key ? "0.02" : "(none)");
    EXPECT_EQ(row_of(recipe, "clip_grad").target, key);
  }
  EXPECT_EQ(row_of(imported_timm("--clip-grad 1 --clip-mode mode"), "clip_grad").outcome,
            ImportOutcome::kRefused);
}

TEST(RecipeImportTest, TimmRunsThatGoOn) {
  const auto recipe = imported_timm("--opt adamw --resume last.pth.tar");
  EXPECT_EQ(value_in(recipe.yaml, "init.weights"), "last.pth.tar");
  EXPECT_EQ(value_in(recipe.yaml, "init.optimizer"), "last.pth.tar");
  const auto without = imported_timm("--opt adamw --resume last.pth.tar --no-resume-opt");
  EXPECT_EQ(value_in(without.yaml, "init.optimizer"), "(none)");
  EXPECT_EQ(value_in(imported_timm("--opt sgd --resume a").yaml, "init.optimizer"), "(none)");
}

TEST(RecipeImportTest, UcfDecaysAsThere) {
  expect_values({"ucf.yaml", "ucf", 0, "mae"}, {{"optim.decay_all", "true"}});
}

TEST(RecipeImportTest, Jabas) {
  expect_values({"jabas.sh", "jabas", 0}, {{"model.preset", "t2t_vit_14"},
                                           {"data.global_batch_size", "192"},
                                           {"trainer.micro_batch_size", "32"},
                                           {"trainer.max_epochs", "100"},
                                           {"trainer.ema.decay", "0.99996"}});
  expect_values({"jabas.json", "jabas", 0}, {{"data.global_batch_size", "512"},
                                             {"data.drop_last", "false"},
                                             {"parallel.slots", "8"},
                                             {"elastic.batch_size_lower_bound", "512"},
                                             {"elastic.batch_size_upper_bound", "32768"},
                                             {"elastic.similarity_target", "0.3"},
                                             {"elastic.comp_profile_dir", "comp"},
                                             {"elastic.resource_alloc_unit", "4gpu"},
                                             {"elastic.available_servers", "[node0, node1]"},
                                             {"elastic.global_lr_modifier", "sqrt"}});
}

// Every key of the file is there again under its own name.
TEST(RecipeImportTest, KeysOfJabasAreThoseOfTheRecipe) {
  for (const auto& row : imported({"jabas.json", "jabas", 0}).rows) {
    EXPECT_EQ(row.outcome, ImportOutcome::kMapped) << row.key;
    EXPECT_THAT(row.target, ::testing::StartsWith("elastic." + row.key));
  }
}

// The file that a command names is read with it; what the command says itself stands.
TEST(RecipeImportTest, ReadsTheFileThatJabasNames) {
  const data::testing::TempDir folder;
  folder.write("configs.json", std::string("{\"batch_size_lower_bound\": 6, \"epochs\": 7, "
                                           "\"batch_size_upper_bound\": 64, "
                                           "\"similarity_target\": 0.1}"));
  const auto script = folder.write(
      "run.sh", std::string("python main.py --model t2t_vit_14 --epochs 90 --local-batch-size 32 "
                            "--jabas-config-file elsewhere/configs.json"));
  ImportOptions options;
  options.system = "jabas";
  const auto recipe = import_recipe(script, options);
  EXPECT_EQ(row_of(recipe, "jabas_config_file").outcome, ImportOutcome::kChanged);
  EXPECT_EQ(value_in(recipe.yaml, "elastic.similarity_target"), "0.1");
  EXPECT_EQ(value_in(recipe.yaml, "data.global_batch_size"), "6");
  EXPECT_EQ(value_in(recipe.yaml, "parallel.slots"), "6");
  EXPECT_EQ(value_in(recipe.yaml, "trainer.micro_batch_size"), "32");
  EXPECT_EQ(value_in(recipe.yaml, "trainer.max_epochs"), "100");
  std::filesystem::remove(folder.path() + "/configs.json");
  const auto without = import_recipe(script, options);
  EXPECT_EQ(row_of(without, "jabas_config_file").outcome, ImportOutcome::kRefused);
  EXPECT_EQ(value_in(without.yaml, "parallel.slots"), "(none)");
  folder.write("configs.json", std::string("[1, 2]"));
  EXPECT_THROW(import_recipe(script, options), ConfigError);
}

TEST(RecipeImportTest, WhatIsNotKnownIsRefusedByName) {
  const data::testing::TempDir folder;
  const auto text = [&](const std::string& name, const std::string& content) {
    folder.write(name, std::vector<uint8_t>(content.begin(), content.end()));
    return folder.path() + "/" + name;
  };
  ImportOptions options;
  options.system = "timm";
  const auto recipe = import_recipe(
      text("a.txt", "train.py x --model vit_tiny_patch16_224 --no-such-flag 3 --opt adamw"),
      options);
  const auto& row = row_of(recipe, "no_such_flag");
  EXPECT_EQ(row.outcome, ImportOutcome::kRefused);
  EXPECT_EQ(row.value, "3");
  EXPECT_THROW(import_recipe(text("b.txt", "nothing here"), options), ConfigError);
  EXPECT_THROW(import_recipe(text("c.yaml", "lr: [fast"), options), ConfigError);
  EXPECT_THROW(import_recipe(text("d.yaml", "epochs: many"), options), ConfigError);
  options.system = "rosetta";
  EXPECT_THROW(import_recipe(text("e.gin", "a = [1, 2"), options), ConfigError);
  EXPECT_THROW(import_recipe(folder.path() + "/none.gin", options), Error);
}

TEST(RecipeImportTest, AFileOfAnotherProgramIsNoRecipe) {
  const data::testing::TempDir folder;
  for (const auto& system : import_systems()) {
    for (const auto* text : {"{\"node0\": [0, 1], \"server_group\": 3}", "{}"}) {
      const auto file = folder.write(system == "rosetta" ? "a.gin" : "a.json",
                                     system == "rosetta" ? "a.b = 1\n" : text);
      EXPECT_THROW(import_recipe(file, {.system = system}), ConfigError) << system;
    }
  }
}

// Both files of Rosetta's flow: what they share stands in the recipe, the rest in its phases.
TEST(RecipeImportTest, SeveralFilesBecomePhases) {
  const auto recipe =
      import_recipe(std::vector{sample("rosetta_pretrain.gin"), sample("rosetta_finetune.gin")},
                    {.system = "rosetta"});
  const auto phases = phases_in(recipe.yaml);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(value_in(phases[0], "name"), "rosetta_pretrain");
  EXPECT_EQ(value_in(phases[1], "name"), "rosetta_finetune");
  EXPECT_EQ(value_in(phases[1], "start_from"), "latest");
  for (const auto& [key, shared, second] :
       std::vector<std::array<std::string, 3>>{{"model.embed_dim", "768", "(none)"},
                                               {"model.norm_eps", "1e-5", "1e-6"},
                                               {"model.representation_size", "768", "0"},
                                               {"model.img_size", "[224, 224]", "[384, 384]"},
                                               {"data.global_batch_size", "4096", "512"},
                                               {"optim.name", "adamw", "sgd"},
                                               {"optim.momentum", "(none)", "0.9"},
                                               {"trainer.max_steps", "95000", "20000"},
                                               {"run.dir", "runs/b16", "(none)"},
                                               {"init.skip_head", "(none)", "true"}}) {
    EXPECT_EQ(value_in(recipe.yaml, key), shared) << key;
    EXPECT_EQ(value_in(phases[1], "set." + key), second) << key;
  }
  // Of pre-training alone: fine-tuning must not have it.
  EXPECT_EQ(value_in(recipe.yaml, "schedule.warmup_steps"), "(none)");
  EXPECT_EQ(value_in(phases[0], "set.schedule.warmup_steps"), "10000");
  const auto table = import_table(recipe.rows);
  EXPECT_THAT(table, HasSubstr("phase rosetta_pretrain\nmapped ("));
  EXPECT_THAT(table, HasSubstr("phase rosetta_finetune\nmapped ("));
}

TEST(RecipeImportTest, CommandsOfAScriptBecomePhases) {
  const data::testing::TempDir folder;
  const auto script = folder.write(
      "both.sh",
      "#!/bin/bash\nset -e  # two; commands\ncd timm && python train.py data --model "
      "vit_tiny_patch16_224 --opt adamw \\\n  --lr 1e-3 --epochs 90 --img-size 160 --num-classes "
      "1000 --clip-grad 1\npython train.py \"data; two\" --model vit_tiny_patch16_224 --opt adamw "
      "--lr 1e-4 --epochs 10 --img-size 224 --num-classes 10 --initial-checkpoint "
      "out/model_best.pth.tar\n");
  const auto recipe = import_recipe(script, {.system = "timm"});
  const auto phases = phases_in(recipe.yaml);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(value_in(phases[0], "name"), "both");
  EXPECT_EQ(value_in(phases[1], "name"), "both_2");
  EXPECT_EQ(value_in(phases[1], "start_from"), "best");
  EXPECT_EQ(value_in(recipe.yaml, "optim.lr"), "0.001");
  EXPECT_EQ(value_in(phases[1], "set.optim.lr"), "0.0001");
  EXPECT_EQ(value_in(phases[1], "set.model.img_size"), "224");
  EXPECT_EQ(value_in(phases[1], "set.init"), "{skip_head: true}");
  EXPECT_EQ(value_in(phases[0], "set.trainer.max_grad_norm"), "1");
  EXPECT_EQ(value_in(recipe.yaml, "trainer.max_grad_norm"), "(none)");
  const auto row = std::find_if(recipe.rows.begin(), recipe.rows.end(), [](const ImportRow& row) {
    return row.phase == "both_2" && row.key == "initial_checkpoint";
  });
  ASSERT_NE(row, recipe.rows.end());
  EXPECT_EQ(row->target, "phases.start_from");
  EXPECT_EQ(row->note, "best: the weights of phase both");
}

// An autoencoder and then a classifier: other models, of which the encoder goes on.
TEST(RecipeImportTest, PhasesOfOtherModelsHandTheEncoderOn) {
  const auto mae = import_recipe(sample("ucf.yaml"), {.system = "ucf", .task = "mae"});
  const auto classes =
      import_recipe(sample("ucf.yaml"), {.system = "ucf", .task = "classification"});
  const auto recipe = joined_as_phases({"mae", "classes"}, {mae, classes});
  const auto phases = phases_in(recipe.yaml);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(value_in(recipe.yaml, "model.name"), "mae");
  EXPECT_EQ(value_in(phases[1], "set.model.name"), "vit");
  EXPECT_EQ(value_in(phases[1], "set.init.part"), "encoder");
}

TEST(RecipeImportTest, PhasesHaveNamesOfTheirOwn) {
  EXPECT_THAT(phase_names({"a/b c.gin", "x/b c.yaml", "d.e.sh", "b_c.gin"}),
              ::testing::ElementsAre("b_c", "b_c_2", "d_e", "b_c_3"));
}

}  // namespace
}  // namespace fovea::recipe_import
