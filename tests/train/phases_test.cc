// Runs of several phases: how they are resolved, trained, resumed and refused.
#include "fovea/train/run/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "fovea/checkpoint/store.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/models/weights.h"
#include "fovea/nn/pos_embed.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/report/report.h"
#include "fovea/train/session.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

PhaseConfig phase(const std::string& name, const std::string& set,
                  const std::string& start_from = "latest") {
  PhaseConfig config{.name = name, .start_from = start_from, .set = {}};
  config.set.root = parse_config_yaml(set, "phases.yaml");
  return config;
}

// A probe, then fine-tuning.
TrainConfig two_phases(const data::testing::TempDir& folder, const std::string& run = "run") {
  auto config = testing::tiny_config(folder, run);
  config.trainer.max_steps = 10;
  config.phases = {
      phase("probe", "trainer: {freeze: [backbone], cache_features: exact, max_steps: 8}"),
      phase("fine_tune", "optim: {lr: 1e-3, layer_decay: 0.75}\nmodel: {logits_scale: 0.125}")};
  return config;
}

std::vector<PhaseResult> fit_quietly(const TrainConfig& config) {
  return fit_phases(config, ProgressLine::Mode::kSilent);
}

std::string fault_of(const TrainConfig& config) {
  try {
    parse_config<TrainConfig>(dump_config(config), "recipe.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::map<std::string, at::Tensor> tensors_of(const std::string& weights_file) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : nn::read_tensor_file(weights_file)) tensors[name] = tensor;
  return tensors;
}

std::string final_weights(const PhaseResult& result) {
  return result.fit.run_dir + "/weights.safetensors";
}

// Names of tensors that differ.
std::vector<std::string> differences(const std::string& left, const std::string& right) {
  const auto a = tensors_of(left), b = tensors_of(right);
  EXPECT_EQ(a.size(), b.size());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    if (!tensor.equal(b.at(name))) names.push_back(name);
  }
  return names;
}

int64_t num_lines(const std::string& file) {
  std::ifstream lines(file);
  return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
}

TEST(PhasesTest, AreTheRecipeWithWhatTheySet) {
  const data::testing::TempDir folder;
  auto config = two_phases(folder);
  config.init.weights = "dino.pth";
  config.init.skip_head = true;
  config.phases[0].set.root =
      parse_config_yaml("trainer: {max_epochs: 3}\ndevice: {dtype: bfloat16}", "phases.yaml");
  const auto phases = resolve_phases(config);
  ASSERT_EQ(phases.size(), 2u);
  const auto &first = phases[0].config, &second = phases[1].config;
  EXPECT_EQ(first.run.dir, config.run.dir + "/1_probe");
  EXPECT_EQ(first.trainer.max_epochs, 3);
  EXPECT_FALSE(first.trainer.max_steps);  // the one takes the place of the other
  EXPECT_EQ(first.device.dtype, "bfloat16");
  EXPECT_EQ(first.init.weights, "dino.pth");
  EXPECT_TRUE(first.init.skip_head);
  EXPECT_EQ(second.run.dir, config.run.dir + "/2_fine_tune");
  EXPECT_EQ(second.trainer.max_steps, 10);
  EXPECT_EQ(second.device.dtype, "float32");
  EXPECT_EQ(second.init.weights, first.run.dir + "/weights.safetensors");
  EXPECT_FALSE(second.init.skip_head);  // the probe's head is kept
  EXPECT_EQ(optim::base_lr(second.optim), 1e-3);
  EXPECT_EQ(second.model.get_if<models::VitConfig>()->logits_scale, 0.125);
  EXPECT_TRUE(first.phases.empty());
  // A recipe that is printed and read again has the same phases.
  const auto again = resolve_phases(parse_config<TrainConfig>(dump_config(config), "recipe.yaml"));
  EXPECT_EQ(dump_config(again[1].config), dump_config(second));
}

TEST(PhasesTest, TrainOneAfterTheOther) {
  const data::testing::TempDir folder;
  const auto config = two_phases(folder);
  const auto results = fit_quietly(config);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].fit.step, 8);
  EXPECT_EQ(results[1].fit.step, 10);
  EXPECT_TRUE(results[1].fit.last_eval.contains("top1"));
  for (const auto& result : results) {
    for (const char* name : {"config.yaml", "metrics.jsonl", "weights.safetensors", "report.html",
                             "evaluation.json", "train.log", "checkpoints"}) {
      EXPECT_TRUE(fs::exists(result.fit.run_dir + "/" + name)) << result.name << " " << name;
    }
  }
  // The probe changes the head alone; fine-tuning starts from it and changes everything.
  const auto start = make_model(resolve_phases(config)[0].config, {});
  models::save_weights(*start, folder.file("start.safetensors"));
  EXPECT_THAT(differences(folder.file("start.safetensors"), final_weights(results[0])),
              ElementsAre("head.bias", "head.weight"));
  const auto all = tensors_of(final_weights(results[1])).size();
  EXPECT_EQ(differences(final_weights(results[0]), final_weights(results[1])).size(), all);
  // The run as a whole is its last phase.
  EXPECT_THAT(differences(config.run.dir + "/weights.safetensors", final_weights(results[1])),
              IsEmpty());
  const auto inference = load_inference(config.run.dir, {.device = "cpu"});
  EXPECT_EQ(inference.config->run.dir, results[1].fit.run_dir);
}

TEST(PhasesTest, NextPhaseStartsFromWhatIsAskedFor) {
  const data::testing::TempDir folder;
  for (const std::string start_from : {"latest", "best"}) {
    auto config = two_phases(folder, start_from);
    // A learning rate at which the last evaluation is not the best.
    config.phases[0] = phase("first", "optim: {lr: 0.05}\ntrainer: {max_steps: 10}");
    config.trainer.eval_every_epochs = 0.2;  // after each step
    config.phases[1] = phase("second", "optim: {lr: 0}\ntrainer: {max_steps: 1}", start_from);
    const auto results = fit_quietly(config);
    const auto first = results[0].fit.run_dir;
    const auto best = checkpoint::Store(first + "/checkpoints", {}).weights_file("best");
    EXPECT_THAT(differences(best, final_weights(results[0])), Not(IsEmpty()));
    const auto expected = start_from == "best" ? best : final_weights(results[0]);
    EXPECT_THAT(differences(expected, final_weights(results[1])), IsEmpty()) << start_from;
  }
}

TEST(PhasesTest, PhaseMayStartFromAFileOfItsOwn) {
  const data::testing::TempDir folder;
  auto config = two_phases(folder);
  const auto model = make_model(config, {});
  models::save_weights(*model, folder.file("own.safetensors"));
  config.phases[1] = phase("other",
                           fmt::format("init: {{weights: {}}}\noptim: {{lr: 0}}\n"
                                       "trainer: {{max_steps: 1}}",
                                       folder.file("own.safetensors")),
                           "none");
  const auto results = fit_quietly(config);
  EXPECT_THAT(differences(folder.file("own.safetensors"), final_weights(results[1])), IsEmpty());
}

// Lets a child process train until `file` has `lines` lines, ends it with `signal`, goes on here
// and compares with a run that nobody ended.
void expect_goes_on_bitwise(const std::string& file, int64_t lines, int signal) {
  SCOPED_TRACE(fmt::format("{} lines of {}", lines, file));
  const data::testing::TempDir folder;
  const auto whole = two_phases(folder, "whole"), killed = two_phases(folder, "killed");
  const auto expected = fit_quietly(whole);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool stopped = fit_quietly(killed).back().fit.stopped;
    _exit(stopped ? static_cast<int>(ExitCode::kStopped) : 0);
  }
  int status = 0;
  const auto watched = killed.run.dir + "/" + file;
  while (num_lines(watched) < lines && waitpid(child, &status, WNOHANG) == 0) usleep(200);
  kill(child, signal);
  waitpid(child, &status, 0);
  const auto results = fit_quietly(killed);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].fit.last_eval, expected[i].fit.last_eval);
    EXPECT_EQ(results[i].fit.step, expected[i].fit.step);
    EXPECT_THAT(differences(final_weights(results[i]), final_weights(expected[i])), IsEmpty());
  }
}

TEST(PhasesTest, KilledInAnyPhaseTheSameCommandGoesOnBitwise) {
  expect_goes_on_bitwise("1_probe/metrics.jsonl", 3, SIGKILL);
  expect_goes_on_bitwise("1_probe/metrics.jsonl", 9, SIGTERM);
  expect_goes_on_bitwise("phases.json", 1, SIGKILL);
  expect_goes_on_bitwise("2_fine_tune/metrics.jsonl", 1, SIGTERM);
  expect_goes_on_bitwise("2_fine_tune/metrics.jsonl", 7, SIGKILL);
}

TEST(PhasesTest, FinishedPhasesAreKeptAndLaterOnesMayChange) {
  const data::testing::TempDir folder;
  auto config = two_phases(folder);
  fit_quietly(config);
  const auto written = fs::last_write_time(config.run.dir + "/1_probe/weights.safetensors");
  config.phases.push_back(phase("again", "optim: {lr: 1e-4}\ntrainer: {max_steps: 2}"));
  const auto results = fit_quietly(config);
  EXPECT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].fit.step, 8);
  EXPECT_EQ(results[2].fit.step, 2);
  EXPECT_EQ(fs::last_write_time(config.run.dir + "/1_probe/weights.safetensors"), written);

  auto changed = config;
  changed.phases[0].set.root.find("trainer")->find("max_steps")->scalar = "9";
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit_quietly(changed); }),
              HasSubstr("phase probe is finished, and fine_tune has begun with its weights"));
  changed = config;
  changed.phases[2] = phase("again", "optim: {lr: 1e-4}\ntrainer: {max_steps: 4}");
  EXPECT_EQ(fit_quietly(changed)[2].fit.step, 4) << "the last one goes on longer";
  config = changed;
  auto renamed = config;
  renamed.phases[1].name = "other";
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit_quietly(renamed); }),
              HasSubstr("phase 2 of the run there is 'fine_tune', here 'other'"));
  auto without = config;
  without.phases.clear();
  EXPECT_THAT(data::testing::message_of<ConfigError>(
                  [&] { Trainer(without, ProgressLine::Mode::kSilent); }),
              HasSubstr("phases"));
  EXPECT_THROW(Trainer(config, ProgressLine::Mode::kSilent), ConfigError);
}

TEST(PhasesTest, WhatWouldStopALaterPhaseStopsTheFirst) {
  const data::testing::TempDir folder;
  auto config = two_phases(folder);
  const auto expect_refused = [&](const std::string& set, const std::string& message) {
    config.phases[1] = phase("fine_tune", set);
    EXPECT_THAT(data::testing::message_of<Error>([&] { fit_quietly(config); }), HasSubstr(message));
    EXPECT_FALSE(fs::exists(config.run.dir + "/1_probe")) << message;
  };
  expect_refused("model: {depth: 3}", "these are weights of another model");
  expect_refused("model: {num_classes: 5}", "head.weight");
  expect_refused("schedule: {warmup_steps: 50}", "schedule.warmup_steps");
  expect_refused("data: {train: {images: /nowhere}}", "/nowhere");
}

TEST(PhasesTest, FaultsAreNamedByTheirLine) {
  const auto text_of = [](const std::string& phases) {
    return "run: {dir: r}\ntrainer: {max_steps: 2}\nphases:\n" + phases;
  };
  const auto expect_fault = [&](const std::string& phases, const std::string& where,
                                const std::string& what) {
    try {
      parse_config<TrainConfig>(text_of(phases), "recipe.yaml");
      ADD_FAILURE() << "no fault in " << phases;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("recipe.yaml:" + where), HasSubstr(what)));
    }
  };
  expect_fault("  - {name: a}\n  - {name: b, set: {optim: {larning_rate: 1}}}\n", "5: optim.lar",
               "unknown key");
  expect_fault("  - {name: a}\n  - name: b\n    set:\n      optim: {lrr: 1}\n", "7: optim.lrr",
               "did you mean lr?");
  expect_fault("  - {name: a, optm: {lr: 1}}\n", "4: phases.0.optm", "unknown key");
  expect_fault("  - {set: {}}\n", "4: phases.0.name", "missing");
  expect_fault("  - {name: a/b}\n", "4: phases.0.name", "letters, digits");
  expect_fault("  - {name: a}\n  - {name: a}\n", "5: phases.1.name", "a second time");
  expect_fault("  - {name: a, start_from: best}\n", "4: phases.0.start_from", "no phase before");
  expect_fault("  - {name: a}\n  - {name: b, start_from: none}\n", "5: phases.1.start_from",
               "init.weights names no file");
  expect_fault("  - {name: a}\n  - {name: b, set: {init: {weights: x.pth}}}\n",
               "5: phases.1.set.init.weights", "set start_from: none");
  expect_fault("  - {name: a}\n  - {name: b, start_from: lates}\n", "5: phases.1.start_from",
               "did you mean latest?");
  expect_fault("  - {name: a, set: {run: {dir: other}}}\n", "4: phases.0.set.run.dir",
               "leave it out");
  expect_fault("  - {name: a, set: {phases: []}}\n", "4: phases.0.set.phases", "leave it out");
  expect_fault("  - {name: a, set: {trainer: {max_steps: 0}}}\n", "4: trainer.max_steps",
               "expected an integer or null >= 1");
  const data::testing::TempDir folder;
  auto config = two_phases(folder);
  config.data.val.reset();
  config.phases[1].start_from = "best";
  EXPECT_THAT(fault_of(config), HasSubstr("phase probe has no data.val, and so no best"));
}

TEST(PhasesTest, TheReportHoldsEveryPhase) {
  const data::testing::TempDir folder;
  const auto config = two_phases(folder);
  fit_quietly(config);
  for (int64_t again = 0; again < 2; ++again) {
    const auto page = read_file(config.run.dir + "/report.html", 1 << 24);
    for (const char* part : {"1_probe/report.html", "2_fine_tune/report.html", "2 phases",
                             "model.logits_scale", "0.125"}) {
      EXPECT_THAT(page, HasSubstr(part));
    }
    fs::remove(config.run.dir + "/report.html");
    write_report({config.run.dir});  // what `fovea report` does
  }
}

// Pre-training with a tanh layer in the head, conversion and fine-tuning at another size with a
// linear head, as Rosetta does with ViT-B/16.
TEST(PhasesTest, PreTrainingAndFineTuningAtAnotherSize) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.img_size = {8};
  vit.patch_size = {2};
  vit.representation_size = 24;  // not the width of the model: the layer goes all the same
  vit.pos_embed_interp = "zoom";
  vit.weight_init = "jax";
  vit.norm_eps = 1e-5;
  config.model = {vit};
  config.trainer.max_steps = 12;
  const std::string fine_tune =
      "model: {img_size: 12, representation_size: 0, proj_drop_rate: 0, norm_eps: 1e-6}\n"
      "init: {skip_head: true}\n"
      "trainer: {max_steps: 1}\n"
      "data: {train: {transforms: [{name: resize, size: [12, 12]}, normalize]},\n"
      "       val: {transforms: [{name: eval_crop, size: 12, crop_pct: 1, crop_mode: squash},"
      " normalize]}}\n";
  config.phases = {phase("pretrain",
                         "schedule: {warmup_steps: 3, warmup_prefix: true, "
                         "total_includes_warmup: true}\noptim: {decay_all: true}"),
                   phase("fine_tune", fine_tune + "optim: {name: sgd, lr: 0, momentum: 0.9}")};
  const auto results = fit_quietly(config);
  const auto before = tensors_of(final_weights(results[0]));
  const auto after = tensors_of(final_weights(results[1]));
  EXPECT_TRUE(before.contains("pre_logits.fc.weight"));
  EXPECT_FALSE(after.contains("pre_logits.fc.weight"));
  EXPECT_EQ(before.at("head.weight").sizes(), (std::vector<int64_t>{4, 24}));
  EXPECT_EQ(after.at("head.weight").sizes(), (std::vector<int64_t>{4, 32}));
  EXPECT_EQ(after.at("head.weight").abs().max().item<float>(), 0);  // a new head starts from zeros
  int64_t same = 0;
  for (const auto& [name, tensor] : after) {
    if (name.starts_with("head.") || name == "pos_embed") continue;
    EXPECT_TRUE(tensor.equal(before.at(name))) << name;
    same += 1;
  }
  EXPECT_GT(same, 20);
  const auto zoomed = nn::adapt_pos_embed(before.at("pos_embed"), {6, 6}, 1,
                                          nn::pos_embed_interp_from_name("zoom"));
  EXPECT_TRUE(after.at("pos_embed").equal(zoomed));
  // And it learns.
  auto learning = config;
  learning.run.dir = folder.file("learning");
  learning.phases[1] =
      phase("fine_tune", fine_tune + "optim: {name: sgd, lr: 0.05, momentum: 0.9}\n");
  learning.phases[1].set.root.find("trainer")->find("max_steps")->scalar = "120";
  EXPECT_GT(fit_quietly(learning)[1].fit.last_eval.at("top1"), 60);
}

}  // namespace
}  // namespace fovea::train
