#include "fovea/train/trainer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/stop_signals.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/files/atomic_file.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/session.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

using testing::expect_same_run;
using testing::fit;
using testing::losses;

TEST(TrainerTest, LearnsAndLeavesARunFolder) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.trainer.max_steps = 150;
  const auto result = fit(config);
  EXPECT_EQ(result.step, 150);
  EXPECT_FALSE(result.stopped);
  EXPECT_GT(result.last_eval.at("top1"), 90);
  for (const char* name : {"config.yaml", "metrics.jsonl", "weights.safetensors", "report.html",
                           "machine.json", "evaluation.json", "checkpoints", "train.log"}) {
    EXPECT_TRUE(fs::exists(config.run.dir + "/" + name)) << name;
  }
  const auto log = read_file(config.run.dir + "/train.log", 1 << 20);
  EXPECT_NE(log.find("step 150/150"), std::string::npos) << log;
  EXPECT_NE(log.find("evaluation of 40 samples"), std::string::npos) << log;
}

// The training lines as text: equal text is equal bits. A line without a loss is a step left out.
std::vector<std::string> scaled_lines(const std::string& run_dir) {
  std::vector<std::string> result;
  std::ifstream lines(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    auto& text = result.emplace_back();
    for (const char* key : {"split", "step", "loss", "grad_norm", "loss_scale", "skipped_steps"}) {
      text += record.contains(key) ? record.at(key).dump() + " " : "- ";
    }
  }
  return result;
}

// From a scale that is too large: it falls, step by step, and grows again; a resumed run has the
// same scales, losses and weights.
TEST(TrainerTest, LearnsInFloat16AndResumesTheScale) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.device.dtype = "float16";
  config.trainer.max_steps = 150;
  config.trainer.ema = {.enabled = true, .decay = 0.9};
  config.trainer.grad_scaler = {.init_scale = 0x1p36, .growth_interval = 5};
  config.trainer.eval_every_epochs = 0;
  config.checkpoint.every_steps = 42;
  const auto result = fit(config);
  EXPECT_GT(result.last_eval.at("top1"), 90);
  std::vector<double> scales;
  double skipped = 0, lines_without_loss = 0;
  std::ifstream lines(config.run.dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") != "train") continue;
    scales.push_back(record.at("loss_scale"));
    skipped += record.at("skipped_steps").get<double>();
    lines_without_loss += !record.contains("loss");
  }
  ASSERT_EQ(scales.size(), 150u);
  EXPECT_EQ(scales.front(), 0x1p35);
  EXPECT_GT(skipped, 5);
  EXPECT_LT(skipped, 60);
  EXPECT_EQ(lines_without_loss, skipped);  // a line is a step
  const auto log = read_file(config.run.dir + "/train.log", 1 << 20);
  EXPECT_NE(log.find("step 0: left out"), std::string::npos) << log;

  const auto whole = scaled_lines(config.run.dir);
  const auto weights = load_inference(config.run.dir).model->named_parameters();
  testing::go_back_to(config.run.dir, 84);  // of 84, 126 and 150, which are kept
  ASSERT_TRUE(fs::exists(config.run.dir + "/checkpoints/step_00000084"));
  EXPECT_EQ(fit(config).step, 150);
  EXPECT_EQ(scaled_lines(config.run.dir), whole);
  const auto resumed = load_inference(config.run.dir).model->named_parameters();
  for (const auto& item : weights) {
    EXPECT_TRUE(resumed[item.key()].equal(item.value())) << item.key();
  }
}

TEST(TrainerTest, EvaluatesByStepsAndLabelsThoseCheckpoints) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.trainer.max_epochs = {};
  config.trainer.max_steps = 12;
  config.trainer.eval_every_steps = 5;
  config.checkpoint.keep = 100;
  config.checkpoint.every_steps = 4;
  config.checkpoint.best_metric = "loss";
  config.checkpoint.label_metric = "loss";
  fit(config);
  std::set<std::string> labelled, plain;
  for (const auto& entry : fs::directory_iterator(config.run.dir + "/checkpoints")) {
    const auto name = entry.path().filename().string();
    if (entry.is_directory()) (name.find("_loss_") != name.npos ? labelled : plain).insert(name);
  }
  EXPECT_EQ(plain, (std::set<std::string>{"step_00000004", "step_00000008"}));
  ASSERT_FALSE(labelled.empty());  // of 5, 10 and 12: those that were the best so far, and the last
  EXPECT_TRUE(labelled.begin()->starts_with("step_00000005_loss_")) << *labelled.begin();
  EXPECT_TRUE(labelled.rbegin()->starts_with("step_00000012_loss_")) << *labelled.rbegin();
  config.checkpoint.label_metric = "los";
  EXPECT_THROW(fit(config), ConfigError);
}

TEST(TrainerTest, SameSeedSameRunOtherSeedAnother) {
  const data::testing::TempDir folder;
  const auto first = testing::tiny_config(folder, "first");
  auto second = testing::tiny_config(folder, "second");
  second.data.threads = 3;  // threads change nothing
  auto third = testing::tiny_config(folder, "third");
  third.run.seed = 8;
  for (const auto& config : {first, second, third}) fit(config);
  expect_same_run(second.run.dir, first.run.dir);
  EXPECT_NE(losses(third.run.dir), losses(first.run.dir));
}

TEST(TrainerTest, MixedAndRepeatedBatchesGiveTheSameRunForAnyThreads) {
  const data::testing::TempDir folder;
  auto first = testing::tiny_config(folder, "first");
  first.data.mixup = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = "elem"};
  first.data.num_repeats = 2;
  auto second = first;
  second.run.dir = folder.file("second");
  second.data.threads = 3;
  for (const auto& config : {first, second}) fit(config);
  expect_same_run(second.run.dir, first.run.dir);
}

TEST(TrainerTest, TrainsOnVolumesAndPredictsAFile) {
  const data::testing::TempDir folder;
  const auto config = testing::tiny_volume_config(folder);
  const auto result = fit(config);
  EXPECT_GT(result.last_eval.at("top1"), 90);
  EXPECT_TRUE(fs::exists(config.run.dir + "/report.html"));
  const auto inference = load_inference(config.run.dir);
  const auto files = inference.open_files({folder.file("val_0.nii.gz")});
  const auto volume = inference.preprocess(files, 0, 1);
  EXPECT_EQ(volume.sizes(), (std::vector<int64_t>{1, 1, 8, 8, 8}));
  EXPECT_EQ(inference.model->forward(volume).argmax(1).item<int64_t>(), 0);
}

TEST(TrainerTest, AnyNumberOfKernelThreadsGivesTheSameRun) {
  const data::testing::TempDir folder;
  const auto one = testing::tiny_config(folder, "one");
  auto three = testing::tiny_config(folder, "three");
  three.device.threads = 3;
  fit(one);
  fit(three);
  expect_same_run(three.run.dir, one.run.dir);
  at::set_num_threads(1);
}

// The first step's loss is that of float32, to the bit; its gradients are not.
TEST(TrainerTest, ActivationsSavedInBfloat16TrainAndResumeBitwiseForAnyThreads) {
  const data::testing::TempDir folder;
  const auto config_of = [&](const char* name, const char* saved_activations) {
    auto config = testing::tiny_config(folder, name);
    auto vit = *config.model.get_if<models::VitConfig>();
    vit.attn_drop_rate = 0;  // which libtorch would compute
    config.model = {vit};
    config.device.saved_activations = saved_activations;
    return config;
  };
  const auto full = config_of("full", "full");
  auto rounded = config_of("rounded", "bfloat16"), three = config_of("three", "bfloat16");
  three.device.threads = 3;
  for (const auto& config : {full, rounded, three}) fit(config);
  at::set_num_threads(1);
  expect_same_run(three.run.dir, rounded.run.dir);
  const auto of_full = losses(full.run.dir), of_rounded = losses(rounded.run.dir);
  const auto loss_of = [](const std::string& line) { return line.substr(0, line.find(' ')); };
  EXPECT_EQ(loss_of(of_rounded.begin()->second), loss_of(of_full.begin()->second));
  EXPECT_NE(of_rounded.begin()->second, of_full.begin()->second);
  EXPECT_NEAR(std::stod(of_rounded.rbegin()->second), std::stod(of_full.rbegin()->second), 0.05);
  testing::go_back_to(three.run.dir, 4);
  fit(three);
  expect_same_run(three.run.dir, rounded.run.dir);
  rounded.device.saved_activations = "full";
  EXPECT_THROW(fit(rounded), ConfigError) << "the run went on with other gradients";
}

TEST(TrainerTest, ProductsByPartsOfBfloat16AreThoseOfTheirRunAlone) {
  const data::testing::TempDir folder;
  const auto config_of = [&](const char* name, const char* products) {
    auto config = testing::tiny_config(folder, name);
    config.device.float32_products = products;
    return config;
  };
  auto three = config_of("three", "bfloat16x3");
  const auto six = config_of("six", "bfloat16x6"), plain = config_of("plain", "float32");
  for (const auto& config : {three, six, plain}) fit(config);
  const auto last_loss = [](const TrainConfig& config) {
    return std::stod(losses(config.run.dir).rbegin()->second);
  };
  EXPECT_NEAR(last_loss(six), last_loss(plain), 1e-5);
  EXPECT_NEAR(last_loss(three), last_loss(plain), 1e-2);
  EXPECT_NE(losses(three.run.dir), losses(plain.run.dir));
  EXPECT_NE(losses(six.run.dir), losses(three.run.dir));
  const auto before = losses(three.run.dir);
  testing::go_back_to(three.run.dir, 4);
  fit(three);
  EXPECT_EQ(losses(three.run.dir), before);
  three.device.float32_products = "float32";
  EXPECT_THROW(fit(three), ConfigError) << "the run went on with other products";
}

TEST(TrainerTest, FinishedRunIsNotTrainedAgain) {
  const data::testing::TempDir folder;
  const auto config = testing::tiny_config(folder);
  const auto first = fit(config);
  const auto written = losses(config.run.dir);
  const auto second = fit(config);
  EXPECT_EQ(second.step, first.step);
  EXPECT_EQ(second.last_eval, first.last_eval);
  EXPECT_EQ(losses(config.run.dir), written);
}

TEST(TrainerTest, AValidationClassThatTrainingDidNotHaveIsRefused) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.data.train->get_if<data::IdxConfig>()->class_names = {"a", "b", "c", "d"};
  config.data.val->get_if<data::IdxConfig>()->class_names = {"a", "x", "b", "d"};
  const auto message = data::testing::message_of<ConfigError>([&] { fit(config); });
  EXPECT_NE(message.find("data.val: the class 'x' is none of the 4"), std::string::npos) << message;
}

TEST(TrainerTest, AnotherConfigInTheSameFolderIsRefusedByKey) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  fit(config);
  config.run.seed = 9;
  try {
    fit(config);
    FAIL() << "the run went on with another seed";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("run.seed"), std::string::npos) << error.what();
  }
  config.run.seed = 7;
  config.log.every_steps = 3;  // free to change
  EXPECT_EQ(fit(config).step, 12);
}

// Trains in a child process that is killed by `kill_child`, then goes on here.
void expect_resumes_bitwise(int signal, useconds_t delay, bool with_ema) {
  const data::testing::TempDir folder;
  const auto make = [&](const std::string& run) {
    auto config = testing::tiny_config(folder, run);
    config.trainer.max_steps = 40;
    config.trainer.ema.enabled = with_ema;
    return config;
  };
  const auto reference = make("reference"), killed = make("killed");
  fit(reference);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool stopped = fit(killed).stopped;
    _exit(stopped ? static_cast<int>(ExitCode::kStopped) : 0);
  }
  usleep(delay);
  kill(child, signal);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  fit(killed);
  expect_same_run(killed.run.dir, reference.run.dir);
}

TEST(TrainerTest, KilledAtAnyMomentResumesBitwise) {
  for (const useconds_t delay : {5000, 30000, 60000, 100000, 160000, 250000, 400000}) {
    SCOPED_TRACE(delay);
    expect_resumes_bitwise(SIGKILL, delay, delay % 20000 == 0);
  }
}

TEST(TrainerTest, ToldToStopSavesAndResumesBitwise) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    SCOPED_TRACE(signal);
    expect_resumes_bitwise(signal, 120000, true);
  }
}

// The metrics of evaluations, as written.
std::vector<std::string> evaluations(const std::string& run_dir) {
  std::vector<std::string> result;
  std::ifstream lines(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.at("split") == "train") continue;
    result.push_back(record.at("step").dump() + " " + record.at("loss").dump());
  }
  return result;
}

// Evaluations take nearly all of this run's time, so that a stop comes in one of them, also in the
// last one, behind the last step.
TEST(TrainerTest, AStopBreaksAnEvaluationOffAndTheNextStartMakesIt) {
  const data::testing::TempDir folder;
  const auto make = [&](const std::string& run, int64_t steps) {
    auto config = testing::tiny_config(folder, run);
    config.data.val = testing::write_tiny_set(folder, "long", 6000, 3);
    config.trainer.max_steps = steps;
    config.trainer.eval_every_steps = 2;
    config.trainer.ema.enabled = true;
    return config;
  };
  for (const int64_t steps : {2, 4}) {
    SCOPED_TRACE(steps);
    const auto reference = make(fmt::format("whole_{}", steps), steps);
    fit(reference);
    const auto cut = make(fmt::format("cut_{}", steps), steps);
    int64_t broken_off = 0;
    bool is_stopped = true;
    for (int64_t attempt = 0; attempt < 20 && is_stopped; ++attempt) {
      const StopSignals signals;
      std::atomic<bool> is_over = false;
      std::thread sender([&] {  // once the step is there that an evaluation follows; else never
        const auto step = fmt::format("\"step\":{},", 2 * (attempt + 1));
        const auto metrics = cut.run.dir + "/metrics.jsonl";
        while (!is_over && (!std::filesystem::exists(metrics) ||
                            read_file(metrics, 1 << 20).find(step) == std::string::npos)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (!is_over) kill(getpid(), SIGTERM);
      });
      const auto result = fit(cut);
      is_over = true;
      sender.join();
      is_stopped = result.stopped;
      const auto said = read_file(cut.run.dir + "/train.log", 1 << 20);
      broken_off += said.find("the evaluation is left to the next start") != said.npos ? 1 : 0;
    }
    EXPECT_FALSE(is_stopped);
    EXPECT_GT(broken_off, 0);
    EXPECT_EQ(evaluations(cut.run.dir), evaluations(reference.run.dir));
    expect_same_run(cut.run.dir, reference.run.dir);
  }
}

TEST(TrainerTest, AStopBeforeTheFirstStepLeavesNothingToEvaluate) {
  const data::testing::TempDir folder;
  const auto make = [&](const std::string& run) {
    auto config = testing::tiny_config(folder, run);
    config.trainer.eval_every_steps = 2;
    return config;
  };
  const auto reference = make("reference"), stopped = make("stopped");
  fit(reference);
  {
    const StopSignals signals;
    kill(getpid(), SIGTERM);
    while (StopSignals::received() == 0) std::this_thread::yield();
    const auto result = fit(stopped);
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.step, 0);
  }
  fit(stopped);
  EXPECT_EQ(evaluations(stopped.run.dir), evaluations(reference.run.dir));
  expect_same_run(stopped.run.dir, reference.run.dir);
}

TEST(TrainerTest, AnObserverSeesEachStepAndEndsTheRunBehindOneOfThem) {
  const data::testing::TempDir folder;
  const auto reference = testing::tiny_config(folder, "reference");
  const auto observed = testing::tiny_config(folder, "observed");
  fit(reference);
  std::vector<MetricsRecord> seen;
  const auto until = [&](int64_t step) {
    return [&seen, step](const MetricsRecord& record) {
      seen.push_back(record);
      return record.step < step;
    };
  };
  const auto stopped = Trainer(observed, ProgressLine::Mode::kSilent).fit(until(7));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.step, 7);
  EXPECT_THROW(Trainer(observed, ProgressLine::Mode::kSilent).fit([](const MetricsRecord&) -> bool {
    throw std::logic_error("seen");
  }),
               std::logic_error);
  const auto result =
      Trainer(observed, ProgressLine::Mode::kSilent)
          .fit(until(13));  // a stop at the last one would leave its evaluation to the next start
  EXPECT_FALSE(result.stopped);
  expect_same_run(observed.run.dir, reference.run.dir);
  std::vector<int64_t> steps, evaluated;
  for (const auto& record : seen) {
    (record.split == "train" ? steps : evaluated).push_back(record.step);
    EXPECT_TRUE(record.values.contains("loss"));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{5, 10, 12}));
  EXPECT_EQ(seen.back().values, result.last_eval);
}

// Where the recipe says how long the run is, before anything starts; where the data says it, before
// there is a folder.
TEST(TrainerTest, WarmupLongerThanTheRunLeavesNoFolder) {
  const data::testing::TempDir folder;
  auto config = testing::tiny_config(folder);
  config.schedule = {optim::CosineScheduleConfig{}};
  const auto fault = data::testing::message_of<ConfigError>([&] {
    parse_config<TrainConfig>(dump_config(config), "recipe.yaml",
                              {"schedule.warmup_steps=13", "optim.lr=-1"});
  });
  EXPECT_NE(fault.find("schedule.warmup_steps: found 13, but the run has 12 optimizer steps"),
            std::string::npos)
      << fault;
  EXPECT_NE(fault.find("optim.lr"), std::string::npos) << fault;  // with all others
  config = parse_config<TrainConfig>(
      dump_config(config), "recipe.yaml",
      {"trainer.max_steps=null", "trainer.max_epochs=2", "schedule.warmup_steps=13"});
  const auto of_data = data::testing::message_of<ConfigError>([&] { fit(config); });
  EXPECT_NE(of_data.find("the run has 10 optimizer steps"), std::string::npos) << of_data;
  EXPECT_FALSE(fs::exists(config.run.dir));
  // Phases have lengths of their own.
  config.phases = {{.name = "long",
                    .set = {.root = parse_config_yaml("trainer: {max_steps: 20}", "phases.yaml")}}};
  config.trainer.max_epochs.reset();
  config.trainer.max_steps = 5;
  EXPECT_NO_THROW(parse_config<TrainConfig>(dump_config(config), "recipe.yaml", {}));
}

TEST(TrainerTest, OfTwoLengthsTheOneThatEndsFirstCounts) {
  TrainerConfig config;
  config.max_epochs = 2.5;
  EXPECT_EQ(total_steps(config, 10), 25);
  config.max_steps = 20;
  EXPECT_EQ(total_steps(config, 10), 20);
  EXPECT_EQ(total_steps(config, 4), 10);
  config.max_epochs.reset();
  EXPECT_EQ(total_steps(config, 4), 20);
}

TEST(TrainerTest, SecondProcessInTheSameFolderIsRefused) {
  const data::testing::TempDir folder;
  const auto config = testing::tiny_config(folder);
  const RunFolder held(config);
  EXPECT_THROW(fit(config), Error);
}

}  // namespace
}  // namespace fovea::train
