// Whole trainings in several processes.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/format.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/ranks.h"
#include "fovea/train/run/bad_samples_file.h"
#include "fovea/train/run/phases.h"
#include "fovea/train/session.h"
#include "fovea/train/state/sharding.h"
#include "fovea/train/step/pass_size.h"
#include "fovea/train/trainer.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/shared_run.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/tolerance.h"
#include "tests/train/model_cases.h"
#include "tests/train/run_check.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using parallel::World;
using parallel::testing::run_ranks;
using ::testing::AllOf;
using testing::expect_close_losses;
using testing::fit_in;
using ::testing::HasSubstr;
using testing::shared_config;
using testing::shared_folder;

TEST(TrainerRanksTest, TwoRanksTrainAsOneProcessDoes) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = shared_config(world, own, "two");
    config.trainer.ema = {.enabled = true, .decay = 0.9};
    config.trainer.micro_batch_size = 5;
    const auto result = fit_in(world, config);
    EXPECT_EQ(result.step, 12);
    EXPECT_NEAR(result.epoch, 2.4, 0.2);
    if (!world.is_first()) return;
    for (const char* name : {"train.log", "train.rank1.log", "report.html", "evaluation.json",
                             "weights.safetensors", "machine.json"}) {
      EXPECT_TRUE(fs::exists(config.run.dir + "/" + name)) << name;
    }
    auto one = config;
    one.run.dir = own.path() + "/one";
    one.trainer.micro_batch_size = {};
    const auto alone = testing::fit(one);
    expect_close_losses(config.run.dir, one.run.dir);
    const auto left = read_evaluation_file(config.run.dir + "/evaluation.json");
    const auto right = read_evaluation_file(one.run.dir + "/evaluation.json");
    EXPECT_EQ(left.num_samples, right.num_samples);
    EXPECT_EQ(left.samples.size(), right.samples.size());
    for (size_t i = 0; i < right.samples.size(); ++i) {
      EXPECT_EQ(left.samples[i].index, right.samples[i].index);
    }
  });
}

// Batches that grow, to sizes that two ranks cannot halve too; and ranks that read two files.
TEST(TrainerRanksTest, TwoRanksTrainOnBatchesThatGrow) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = shared_config(world, own, "grows");
    const auto size = open_training_data(config).loader->order().samples_per_epoch();
    const auto first = config.data.global_batch_size;
    config.data.batch_schedule = shared_folder(world, own) + "/growing.yaml";
    if (world.is_first()) {
      data::write_batch_schedule(config.data.batch_schedule,
                                 {{2 * first, first + 5, {}}, {size, 37, {}}});
    }
    world.all().barrier("the file is there");
    config.trainer.max_steps = {};
    config.trainer.max_epochs = 3;
    const auto result = fit_in(world, config);
    EXPECT_EQ(result.epoch, 3);
    if (world.is_first()) {
      auto one = config;
      one.run.dir = own.path() + "/one";
      EXPECT_EQ(testing::fit(one).step, result.step);
      expect_close_losses(config.run.dir, one.run.dir);
    }
    const data::SampleOrder order({.mix = {.set_sizes = {100}},
                                   .global_batch_size = 2,
                                   .batch_schedule = {{8 + 2 * world.rank(), 4, {}}}});
    EXPECT_THAT(data::testing::message_of<ConfigError>([&] { check_same_batches(order, world); }),
                AllOf(HasSubstr("rank 1 read other sizes"), HasSubstr("position: 10")));
  });
}

// Two ranks that share the state out leave a checkpoint; runs on other meshes begin with it, and go
// on as one process that was not stopped.
TEST(TrainerRanksTest, ARunBeginsWithTheStateOfAnother) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto before = shared_config(world, own, "before");
    before.trainer.ema = {.enabled = true, .decay = 0.9};
    before.trainer.max_steps = 6;
    before.schedule = {optim::ConstantScheduleConfig{}};
    before.parallel = {.dp_shard = 2};
    fit_in(world, before);
    auto one = before;
    one.parallel = {};
    one.trainer.max_steps = 9;
    one.run.dir = shared_folder(world, own) + "/one";
    if (world.is_first()) testing::fit(one);
    world.all().barrier("one process has gone through");
    const auto expected = testing::losses(one.run.dir);
    const auto average = load_inference(one.run.dir).model->named_parameters();
    for (const parallel::ParallelConfig& mesh :
         {parallel::ParallelConfig{.dp_shard = 2}, parallel::ParallelConfig{.tp = 2},
          parallel::ParallelConfig{}}) {
      SCOPED_TRACE(fmt::format("dp_shard {}, tp {}", mesh.dp_shard, mesh.tp));
      auto config = one;
      config.parallel = mesh;
      config.run.dir += fmt::format("_{}_{}", mesh.dp_shard, mesh.tp);
      config.init.optimizer = before.run.dir;
      EXPECT_EQ(fit_in(world, config).step, 9);
      const auto actual = testing::losses(config.run.dir);
      ASSERT_EQ(actual.size(), 3u);
      // Rounding grows from step to step.
      const auto tolerance = support::Tolerance::for_dtype(at::kFloat);
      for (const auto& [step, text] : actual) {
        const double loss = std::stod(expected.at(step));
        EXPECT_NEAR(std::stod(text), loss, 100 * (tolerance.rtol * loss + tolerance.atol)) << step;
      }
      for (const auto& item : load_inference(config.run.dir).model->named_parameters()) {
        // The gradient of a key's bias is zero but for rounding, which AdamW makes steps of.
        if (item.key().ends_with("qkv.bias")) continue;
        const auto wanted = average[item.key()];
        EXPECT_TRUE(item.value().allclose(wanted, 100 * tolerance.rtol, 100 * tolerance.atol))
            << item.key();
      }
    }
    world.all().barrier("all have read the folder, which is the first one's");
  });
}

// The second rank runs out of memory; both take their steps anew, in passes of one size.
TEST(TrainerRanksTest, RanksHalveTheirPassesTogether) {
  run_ranks(2, [](World& world) {
    support::count_cpu_memory();
    using Memory = support::CountingAllocator;
    const testing::Folder own;
    auto config = shared_config(world, own, "auto");
    auto vit = *config.model.get_if<models::VitConfig>();
    vit.patch_size = {1};  // activations take far more than weights
    config.model = {vit};
    config.data.val = {};
    config.trainer.max_steps = 5;
    const auto peak_of = [&](const std::string& run, int64_t micro_batch_size) {
      auto fixed = config;
      fixed.run.dir += run;
      fixed.trainer.micro_batch_size = micro_batch_size;
      const int64_t before = Memory::in_use;
      Memory::peak = before;
      fit_in(world, fixed);
      return Memory::peak - before;
    };
    const auto three = peak_of("_three", 3), six = peak_of("_six", 6);
    if (!world.is_first()) Memory::limit = Memory::in_use + (three + six) / 2;
    fit_in(world, config);
    Memory::limit = 0;
    if (!world.is_first()) return;
    testing::expect_same_run(config.run.dir, config.run.dir + "_three");
    EXPECT_EQ(kept_pass_size(config.run.dir + "/micro_batch.json"), 3);
  });
}

TEST(TrainerRanksTest, ResumesBitwiseAndOnAnotherNumberOfRanks) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    const auto whole = shared_config(world, own, "whole");
    fit_in(world, whole);
    auto cut = whole;
    cut.run.dir = fs::path(whole.run.dir).parent_path().string() + "/cut";
    fit_in(world, cut);
    if (world.is_first()) testing::go_back_to(cut.run.dir, 4);
    world.all().barrier("back at step 4");
    EXPECT_EQ(fit_in(world, cut).step, 12);
    if (!world.is_first()) return;
    testing::expect_same_run(cut.run.dir, whole.run.dir);
    testing::go_back_to(cut.run.dir, 4);  // and now one process goes on
    EXPECT_EQ(testing::fit(cut).step, 12);
    expect_close_losses(cut.run.dir, whole.run.dir);
  });
}

// Layers shared out over two ranks, then tokens: trained with a moving average, resumed on the same
// mesh, on one process, and the other way round.
TEST(TrainerRanksTest, RanksThatShareOutTheModelTrainAsOneProcessDoes) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto alone = shared_config(world, own, "alone");
    alone.trainer.ema = {.enabled = true, .decay = 0.9};
    const auto root = fs::path(alone.run.dir).parent_path().string();
    if (world.is_first()) testing::fit(alone);
    world.all().barrier("one process is done");
    const auto go_back = [&](const std::string& dir) {
      if (world.is_first()) testing::go_back_to(dir, 4);
      world.all().barrier("back at step 4");
    };
    for (const bool is_tp : {true, false}) {
      SCOPED_TRACE(is_tp ? "tp" : "cp");
      auto shared = alone;
      shared.run.dir = root + (is_tp ? "/tp" : "/cp");
      shared.parallel.tp = is_tp ? 2 : 1;
      shared.parallel.cp = is_tp ? 1 : 2;
      shared.parallel.sequence_parallel = is_tp;
      shared.parallel.recompute = "block";
      EXPECT_EQ(fit_in(world, shared).step, 12);
      auto again = shared;
      again.run.dir += "_again";
      fit_in(world, again);
      go_back(again.run.dir);
      EXPECT_EQ(fit_in(world, again).step, 12);
      if (world.is_first()) {
        expect_close_losses(shared.run.dir, alone.run.dir);
        testing::expect_same_run(again.run.dir, shared.run.dir);
        testing::go_back_to(again.run.dir, 4);  // and now one process goes on
        auto one = again;
        one.parallel = {};
        EXPECT_EQ(testing::fit(one).step, 12);
        expect_close_losses(again.run.dir, alone.run.dir);
      }
      world.all().barrier("one process went on");
    }
  });
}

TEST(TrainConfigTest, RefusesAMeshThatDoesNotFitTheModel) {
  const testing::Folder folder;
  auto config = testing::tiny_config(folder);
  config.parallel.dp_shard = 2;
  config.parallel.tp = 4;
  ConfigIssues issues;
  config.validate(issues);
  std::string text;
  for (const auto& issue : issues.all()) text += issue.key + ": " + issue.message + "\n";
  EXPECT_THAT(text, HasSubstr("parallel.tp: found 4, but num_heads is 2"));
}

// Every task's evaluation, joined from three parts.
TEST(TrainerRanksTest, EvaluationsAreThoseOfOneProcess) {
  run_ranks(3, [](World& world) {
    const testing::Folder folder;
    const parallel::DeviceMesh mesh(world, parallel::MeshShape{{1, world.size(), 1, 1}});
    for (const auto& item : testing::model_cases()) {
      SCOPED_TRACE(item.name);
      const auto config = item.config(folder);
      const auto model = make_model(config, {});
      const auto task = make_task(config.task, *model);
      const auto share = data::BatchShare::of_rank(world.rank(), world.size());
      const auto part = open_validation_data(config, {}, share);
      // Parameters are shared out as well, and gathered block by block.
      auto sharded = config;
      sharded.parallel.dp_replicate = 1;
      sharded.parallel.dp_shard = world.size();
      const auto shared = make_model(config, {});
      const auto shards = make_shards(sharded, *shared, mesh);
      const auto joined = evaluate(*shared, *task, *part.loader, {},
                                   {.ranks = &mesh.data_parallel(), .shards = shards.get()});
      if (!world.is_first()) continue;
      const auto all = open_validation_data(config, {});
      const auto alone = evaluate(*model, *task, *all.loader, {});
      EXPECT_EQ(joined->num_samples(), alone->num_samples());
      const auto tolerance = support::Tolerance::for_dtype(at::kFloat);
      for (const auto& [name, value] : alone->metrics()) {
        const double found = joined->metrics().at(name);
        EXPECT_NEAR(found, value, tolerance.rtol * std::abs(value) + tolerance.atol) << name;
      }
      EvaluationFile left, right;
      joined->describe(left, *all.dataset);
      alone->describe(right, *all.dataset);
      EXPECT_EQ(left.confusion.size(), right.confusion.size());
      EXPECT_EQ(left.mistakes.size(), right.mistakes.size());
      EXPECT_EQ(left.pictures.empty(), right.pictures.empty());
    }
  });
}

TEST(TrainerRanksTest, PhasesWithACacheOfFeatures) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = shared_config(world, own, "phases");
    config.trainer.eval_every_epochs = 0;
    const auto set = [](const std::string& text) {
      return parse_config<TrainConfig>(
                 "run: {dir: x}\ntrainer: {max_steps: 1}\ndata: {}\nphases: "
                 "[{name: a, set: " +
                     text + "}]",
                 "test", {})
          .phases[0]
          .set;
    };
    config.phases = {
        {.name = "probe", .set = set("{trainer: {freeze: [backbone], cache_features: exact}}")},
        {.name = "tune", .set = set("{optim: {lr: 0.001}}")}};
    const auto phases = fit_phases(config, ProgressLine::Mode::kSilent, world);
    ASSERT_EQ(phases.size(), 2u);
    if (!world.is_first()) return;
    auto one = config;
    one.run.dir = own.path() + "/one";
    fit_phases(one, ProgressLine::Mode::kSilent);
    for (const char* phase : {"/1_probe", "/2_tune"}) {
      expect_close_losses(config.run.dir + phase, one.run.dir + phase);
    }
    EXPECT_TRUE(fs::exists(config.run.dir + "/weights.safetensors"));
  });
}

TEST(TrainerRanksTest, OtherConfigsAndOtherWeightsAreNamed) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = shared_config(world, own, "run");
    auto other = config;
    if (world.rank() == 1) other.trainer.max_grad_norm = 2;
    try {
      check_same_config(other, world);
      ADD_FAILURE() << "two configs were taken for one";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("Rank 1:"),
                                      HasSubstr("trainer.max_grad_norm: 1 of rank 0, 2 here")));
    }
    const auto model = make_model(config, {});
    const parallel::DeviceMesh mesh(world, {{2, 1, 1, 1}});
    const auto shared = share_out_model(config, *model, mesh);
    check_same_weights(*model, mesh, *shared);
    if (world.rank() == 1) {
      const at::NoGradGuard no_grad;
      model->named_parameters()["blocks.1.norm1.weight"].view(-1)[3].add_(1e-7);
    }
    try {
      check_same_weights(*model, mesh, *shared);
      ADD_FAILURE() << "other weights were taken for the same";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("blocks.1.norm1.weight of rank 1 differs"));
    }
  });
}

TEST(TrainerRanksTest, BadSamplesHaveOneListAndOneBudget) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    const auto shared = shared_folder(world, own);
    auto config = testing::tiny_volume_config(own);
    auto nifti = *config.data.train->get_if<data::NiftiConfig>();
    nifti.path = shared;
    config.data.train = data::DataSectionConfig{nifti};
    auto val = *config.data.val->get_if<data::NiftiConfig>();
    val.path = shared;
    config.data.val = data::DataSectionConfig{val};
    config.run.dir = shared + "/run";
    config.data.bad_samples = {.policy = "skip", .budget = 3};
    config.trainer.max_steps = 6;
    if (world.is_first()) {
      for (const int i : {1, 6, 11}) own.write(fmt::format("train_{}.nii.gz", i), "no volume");
      own.write("val_3.nii.gz", "no volume");
    }
    world.all().barrier("the files are there");
    EXPECT_EQ(fit_in(world, config).step, 6);
    if (world.is_first()) {
      const auto file = read_bad_samples_file(config.run.dir + "/bad_samples.json");
      EXPECT_EQ(file.at("train").samples.size(), 3u);
      EXPECT_EQ(file.at("val").samples.size(), 1u);
      EXPECT_EQ(read_evaluation_file(config.run.dir + "/evaluation.json").num_left_out, 1);
    }
    config.data.bad_samples.budget = 2;  // each rank alone would stay below it
    config.run.dir = shared + "/other";
    try {
      fit_in(world, config);
      ADD_FAILURE() << "three bad samples fit into a budget of two";
    } catch (const Error& error) {  // of the rank that met the third one, and of who hears of it
      EXPECT_THAT(error.what(), HasSubstr("3 of 24 samples cannot be read, more than the 2"));
      EXPECT_EQ(error.exit_code(), ExitCode::kData);
    }
    _exit(::testing::Test::HasFailure() ? 1 : 0);  // there is nobody to leave with
  });
}

}  // namespace
}  // namespace fovea::train
