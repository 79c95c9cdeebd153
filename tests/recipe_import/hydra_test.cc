#include "fovea/recipe_import/hydra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fovea/core/error.h"
#include "tests/recipe_import/import_support.h"
#include "tests/support/temp_dir.h"

namespace fovea::recipe_import {
namespace {

using ::testing::HasSubstr;

using Files = std::map<std::string, std::string>;
using Changes = std::vector<std::string>;

// In one line what is composed of files by their names; conf.yaml is the first.
std::string composed(const Files& files, const Changes& changes = {}) {
  const support::TempDir folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return emit_yaml_flow(compose_hydra(folder.path() + "/conf.yaml", changes));
}

std::string fault_of(const Files& files, const Changes& changes = {}) {
  try {
    composed(files, changes);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(none)";
}

const Files kGroups = {{"conf.yaml", "defaults: [base, model: small, _self_]\nlr: 2\n"},
                       {"base.yaml", "lr: 1\nwd: 3\nnet: {a: 1, b: 2}\n"},
                       {"model/small.yaml", "depth: 4\n"},
                       {"model/large.yaml", "depth: 8\nheads: 2\n"},
                       {"data/x.yaml", "# @package _global_\nroot: /x\n"},
                       {"data/y.yaml", "# @package in.here\nroot: /y\n"}};

TEST(HydraTest, DefaultsComeInTheirOrder) {
  EXPECT_EQ(composed(kGroups), "{lr: 2, wd: 3, net: {a: 1, b: 2}, model: {depth: 4}}");
  auto files = kGroups;
  files["conf.yaml"] = "defaults: [_self_, base]\nlr: 2\nnet: {b: 5, c: 6}\n";
  EXPECT_EQ(composed(files), "{lr: 1, net: {b: 2, c: 6, a: 1}, wd: 3}");
  files["conf.yaml"] = "defaults: [base]\nlr: 2\n";  // without _self_ it comes last
  EXPECT_EQ(composed(files), "{lr: 2, wd: 3, net: {a: 1, b: 2}}");
  files["conf.yaml"] = "lr: 7\n";
  EXPECT_EQ(composed(files), "{lr: 7}");
}

TEST(HydraTest, PackagesSayWhereAFileGoes) {
  auto files = kGroups;
  files["conf.yaml"] =
      "defaults:\n- data: [x, y]\n- model@encoder: small\n- model@_global_: large\n"
      "- optional model@none: gone\n- model@off: null\n";
  EXPECT_EQ(composed(files),
            "{root: /x, in: {here: {root: /y}}, encoder: {depth: 4}, depth: 8, heads: 2}");
  files = {{"conf.yaml", "defaults: [server: apache]"},
           {"server/apache.yaml", "defaults: [_self_, db: a, /db@here: a]\nport: 1\n"},
           {"server/db/a.yaml", "name: inner\n"},
           {"db/a.yaml", "name: outer\n"}};
  EXPECT_EQ(composed(files), "{server: {port: 1, db: {name: inner}, here: {name: outer}}}");
}

TEST(HydraTest, ChoicesAreOverridden) {
  EXPECT_THAT(composed(kGroups, {"model=large"}), HasSubstr("model: {depth: 8, heads: 2}"));
  EXPECT_THAT(composed(kGroups, {"+data=x"}), HasSubstr("root: /x"));
  EXPECT_THAT(composed(kGroups, {"+model@second=large"}),
              HasSubstr("second: {depth: 8, heads: 2}"));
  EXPECT_EQ(composed(kGroups, {"~model"}), "{lr: 2, wd: 3, net: {a: 1, b: 2}}");
  EXPECT_THAT(fault_of(kGroups, {"data=x"}), HasSubstr("no defaults list has it; +data"));
  auto files = kGroups;
  files["conf.yaml"] = "defaults: [top, override model: large]\n";
  files["top.yaml"] = "defaults: [model: small]\n";
  EXPECT_EQ(composed(files), "{model: {depth: 8, heads: 2}}");
  EXPECT_EQ(composed(files, {"model=small"}), "{model: {depth: 4}}");
  files["conf.yaml"] = "defaults: [model: '?\?\?', override hydra/job_logging: none]\n";
  EXPECT_THAT(fault_of(files), HasSubstr("model=NAME"));
  EXPECT_EQ(composed(files, {"model=small", "hydra.job.chdir=false"}), "{model: {depth: 4}}");
  files["conf.yaml"] = "defaults: [model: small, data: '${model}_x']\n";
  files["data/small_x.yaml"] = "k: 1\n";
  EXPECT_EQ(composed(files), "{model: {depth: 4}, data: {k: 1}}");
}

TEST(HydraTest, ValuesAreOverridden) {
  EXPECT_EQ(composed(kGroups, {"lr=1e-3", "net.a=[1,2]", "++new.x=3", "+net.c={p:1,q:x}", "~wd"}),
            "{lr: 1e-3, net: {a: [1, 2], b: 2, c: {p: 1, q: x}}, model: {depth: 4}, new: {x: 3}}");
  EXPECT_THAT(composed(kGroups, {"lr='1,2'"}), HasSubstr("1,2"));
  for (const auto& change : {"typo=1", "net.a.b=1", "lr.x=1", "+lr=1", "~gone", "lr=1,2", "lr"}) {
    EXPECT_NE(fault_of(kGroups, {change}), "(none)") << change;
  }
}

TEST(HydraTest, ValuesReferToOthers) {
  EXPECT_EQ(
      composed({{"conf.yaml",
                 "a:\n  k: 3\n  m: ${.k}\n  up: ${..b}\nb: ${a.k}\nc: run_${b}_${a.k}\nd: ${a}\n"
                 "e: '${oc.env:LR,0.1}'\n"}}),
      "{a: {k: 3, m: 3, up: 3}, b: 3, c: run_3_3, d: {k: 3, m: 3, up: 3}, e: 0.1}");
  EXPECT_THAT(fault_of({{"conf.yaml", "a: ${b}\nb: ${a}\n"}}), HasSubstr("circle"));
  const support::TempDir folder;
  const auto settings = hydra_settings(
      folder.write("conf.yaml", "a: ${oc.env:HOME}\nb: {c: '?\?\?'}\nd: [1, '${now:%Y}']\ne: 1\n"),
      {});
  EXPECT_EQ(settings.values.keys, std::vector<std::string>{"e"});
  ASSERT_EQ(settings.unknown.size(), 3U);
  EXPECT_EQ(settings.unknown[0].unknown, "${oc.env:HOME}");
  EXPECT_EQ(settings.unknown[1].key, "b.c");
}

TEST(HydraTest, WhatIsNotThereIsNamed) {
  EXPECT_THAT(fault_of({{"conf.yaml", "defaults: [gone]\n"}}), HasSubstr("gone.yaml"));
  EXPECT_NE(fault_of({{"conf.yaml", "defaults: [conf]\n"}}), "(none)");  // itself
  EXPECT_NE(fault_of({{"conf.yaml", "defaults: [{a: b, c: d}]\n"}}), "(none)");
}

// As its page has it, and with the files of its folder.
const Files kBionemo = {
    {"config/defaults.yaml",
     "optimizer: {lr: 1e-4, betas: [0.9, 0.98], weight_decay: 0.01}\nfsdp: {zero_dp_strategy: "
     "optim}\n"
     "dataset: {num_classes: 3, train: {batch_size: 1, shuffle: true}}\n"
     "distributed: {dp_outer: 1, dp_shard: 1, cp: 1}\nmodel: {vit: {depth: 12, num_classes: "
     "\"${dataset.num_classes}\"}}\n"},
    {"config/vit_base_patch16_224.yaml",
     "defaults: [defaults, _self_]\nmodel: {vit: {depth: 6}}\nfsdp: {zero_dp_strategy: 3}\n"},
    {"config/vit_te.yaml",
     "defaults: [defaults, vit_base_patch16_224, _self_]\nmodel: {transformer_engine: true}\n"}};

ImportedRecipe from_bionemo(const std::string& name, const std::string& text,
                            const Changes& changes = {}) {
  const support::TempDir folder;
  for (const auto& [file, content] : kBionemo) folder.write(file, content);
  ImportOptions options;
  options.system = "bionemo";
  options.overrides = changes;
  return import_recipe(text.empty() ? folder.path() + "/" + name : folder.write(name, text),
                       options);
}

TEST(HydraTest, BionemosFilesAreComposed) {
  const auto recipe = from_bionemo("config/vit_base_patch16_224.yaml", "",
                                   {"distributed.dp_shard=4", "+random.seed=7"});
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"optim.lr", "1e-4"},
                                          {"optim.betas", "[0.9, 0.98]"},
                                          {"optim.weight_decay", "0.01"},
                                          {"model.depth", "6"},
                                          {"model.num_classes", "3"},
                                          {"parallel.zero", "3"},
                                          {"parallel.dp_shard", "4"},
                                          {"run.seed", "7"},
                                          {"data.train.path", "beans/train"},
                                          {"data.global_batch_size", "4"}}) {
    EXPECT_EQ(value_in(recipe.yaml, key), value) << key;
  }
  EXPECT_THAT(recipe.remark, HasSubstr("beans"));
  const auto variant = from_bionemo("config/vit_te.yaml", "");
  EXPECT_EQ(value_in(variant.yaml, "model.depth"), "6");
  EXPECT_EQ(value_in(variant.yaml, "model.act_layer"), "gelu_tanh");
}

TEST(HydraTest, BionemosCommandLine) {
  const auto recipe = from_bionemo(
      "run.sh",
      "torchrun --nproc-per-node ${NGPU} train.py --config-name vit_base_patch16_224 "
      "distributed.dp_shard=${NGPU} +training.checkpoint.path=./ckpts/vit optimizer.lr=3e-4\n",
      {"optimizer.weight_decay=0.5", "++training.checkpoint.path=out"});
  EXPECT_EQ(value_in(recipe.yaml, "optim.lr"), "3e-4");
  EXPECT_EQ(value_in(recipe.yaml, "optim.weight_decay"), "0.5");
  EXPECT_EQ(value_in(recipe.yaml, "run.dir"), "out");
  EXPECT_THAT(row_of(recipe, "distributed.dp_shard").note, HasSubstr("${NGPU} has no value"));
  EXPECT_EQ(row_of(recipe, "launch.nproc_per_node").outcome, ImportOutcome::kRefused);
  EXPECT_THROW(from_bionemo("run.sh", "train.py --config-name gone"), ConfigError);
  EXPECT_THROW(from_bionemo("run.sh", "train.py --multirun a=1"), ConfigError);
  const support::TempDir folder;
  ImportOptions options{.system = "timm", .overrides = {"lr=1"}};
  EXPECT_THROW(import_recipe(folder.write("a.sh", "train.py d --lr 1"), options), ConfigError);
}

}  // namespace
}  // namespace fovea::recipe_import
