// Channels as variables in a run: data sets of several roots, each with channels of its own.
#include "fovea/models/variables.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/train/diffusion/sampler.h"
#include "fovea/train/evaluate/evaluator.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/train/step_gradients.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

// Volumes of the channels `names`, a file each: those of class 1 are bright in every channel.
data::MixSetConfig write_variable_set(const data::testing::TempDir& folder, const std::string& name,
                                      int64_t count, const Names& names, const Names& listed) {
  constexpr int64_t kSide = 8, kVoxels = kSide * kSide * kSide;
  constexpr data::Affine kUnit = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
  std::string list = "path,label\n";
  for (int64_t i = 0; i < count; ++i) {
    for (const auto& variable : names) {
      RandomStream random(philox_key(9, name + variable), static_cast<uint64_t>(i));
      data::Volume volume{1, {kSide, kSide, kSide}, {1, 1, 1}, {}};
      for (int64_t v = 0; v < kVoxels; ++v) {
        volume.values.push_back(static_cast<float>(random.below(100)) +
                                (i % 2 == 1 ? 100.0f : 0.0f));
      }
      data::write_nifti(folder.file(fmt::format("{}_{}_{}.nii.gz", name, variable, i)), volume,
                        kUnit);
    }
    std::string paths;
    for (const auto& variable : listed)
      paths += fmt::format("{}{}_{}_{}.nii.gz", paths.empty() ? "" : ";", name, variable, i);
    list += fmt::format("{},{}\n", paths, i % 2);
  }
  const auto file = fmt::format("{}_{}.csv", name, fmt::join(listed, "_"));
  folder.write(file, list);
  data::NiftiConfig source;
  source.path = folder.path();
  source.list = file;
  source.transforms = {
      {data::ScaleIntensityRangeConfig{.a_min = 0, .a_max = 200, .b_min = -1, .b_max = 1}}};
  data::MixSetConfig set;
  set.name = name;
  set.source = {source};
  set.variables = listed;
  return set;
}

data::DataSectionConfig mix_of(std::vector<data::MixSetConfig> sets) {
  data::MixConfig mix;
  mix.sets = std::move(sets);
  return {mix};
}

// Two roots: [density, speed] and [speed, charge], of which no batch holds all three.
TrainConfig variables_run(const data::testing::TempDir& folder, const std::string& run = "run") {
  auto config = testing::tiny_config(folder, run);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.img_size = {8, 8, 8};
  vit.num_classes = 2;
  vit.variables = {"density", "speed", "charge"};
  vit.in_chans = 3;
  vit.proj_drop_rate = vit.attn_drop_rate = vit.drop_path_rate = 0;
  config.model = {vit};
  const Names flow = {"density", "speed"}, plasma = {"speed", "charge"};
  config.data.train = mix_of({write_variable_set(folder, "flow", 16, flow, flow),
                              write_variable_set(folder, "plasma", 12, plasma, plasma)});
  config.data.val = mix_of({write_variable_set(folder, "held", 8, plasma, plasma)});
  config.data.global_batch_size = 6;
  config.trainer.max_steps = 10;
  return config;
}

models::VitConfig vit_of(const TrainConfig& config) {
  return *config.model.get_if<models::VitConfig>();
}

support::NamedTensors trained_weights(const TrainConfig& config) {
  Trainer(config, ProgressLine::Mode::kSilent).fit();
  support::NamedTensors weights;
  const auto inference = load_inference(config.run.dir, {.device = "cpu"});
  for (const auto& item : inference.model->named_parameters()) weights[item.key()] = item.value();
  return weights;
}

TEST(VariablesRunTest, BatchesNameTheirChannels) {
  const data::testing::TempDir folder;
  const auto config = variables_run(folder);
  const auto source = open_training_data(config);
  std::set<Names> seen;
  for (int i = 0; i < 5; ++i) {
    auto batch = source.loader->next();
    const auto tensors = to_tensors(batch, 0, batch.size(), {});
    EXPECT_EQ(tensors.variables,
              batch.set == 0 ? (Names{"density", "speed"}) : (Names{"speed", "charge"}));
    seen.insert(tensors.variables);
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST(VariablesRunTest, LearnsFromSetsWithOtherChannels) {
  const data::testing::TempDir folder;
  auto config = variables_run(folder);
  config.trainer.max_steps = 60;
  const auto result = Trainer(config, ProgressLine::Mode::kSilent).fit();
  EXPECT_EQ(result.last_eval.at("top1"), 100.0);
  EXPECT_LT(result.last_eval.at("loss"), 0.3);
}

// The same files, listed in another order under their names.
TEST(VariablesRunTest, TheOrderOfChannelsInTheDataDoesNotMatter) {
  const data::testing::TempDir folder;
  const auto config = variables_run(folder);
  auto other = variables_run(folder, "other");
  auto mix = *other.data.train->get_if<data::MixConfig>();
  mix.sets[0] = write_variable_set(folder, "flow", 16, {"density", "speed"}, {"speed", "density"});
  other.data.train = data::DataSectionConfig{mix};
  const auto expected = trained_weights(config);
  for (const auto& [name, weight] : trained_weights(other))
    support::expect_same_bits(weight, expected.at(name), name);
}

TEST(VariablesRunTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  const data::testing::TempDir folder;
  const auto config = variables_run(folder);
  const auto source = open_training_data(config);
  const auto model = make_model(config, {});
  const auto task = make_task(config.task, *model);
  const auto optimizer = make_optimizer(config, *model);
  auto batch = source.loader->next();
  const auto gradients = [&](int64_t micro) {
    testing::gradients_of_step(*model, *task, *optimizer, batch, 0, {.micro_batch_size = micro});
    support::NamedTensors result;
    for (const auto& item : model->named_parameters())
      result[item.key()] = item.value().grad().detach().clone();
    return result;
  };
  const auto expected = gradients(0);
  EXPECT_PARITY(gradients(1), expected, at::kFloat);
  EXPECT_PARITY(gradients(4), expected, at::kFloat);
}

// A variable that no batch holds has gradients of zero: no decay, no change; with decay, that
// alone.
TEST(VariablesRunTest, AbsentVariablesAreDecayedAndNotLearned) {
  for (const double decay : {0.0, 0.1}) {
    const data::testing::TempDir folder;
    auto config = variables_run(folder);
    const Names flow = {"density", "speed"};
    config.data.train = mix_of({write_variable_set(folder, "flow", 16, flow, flow)});
    optim::AdamWConfig adamw;
    adamw.lr = 1e-2;
    adamw.weight_decay = decay;
    config.optim = {adamw};
    config.schedule = {optim::ConstantScheduleConfig{}};
    const auto start = make_model(config, {});
    const auto before = start->named_parameters();
    const auto after = trained_weights(config);
    const std::string absent = "patch_embed.token_embeds.2.proj.weight";
    const double shrunk = std::pow(1.0 - 1e-2 * decay, 10);
    support::expect_close(after.at(absent), before[absent] * shrunk, at::kFloat, absent);
    if (decay == 0.0) support::expect_same_bits(after.at(absent), before[absent], absent);
    const std::string present = "patch_embed.token_embeds.1.proj.weight";
    EXPECT_GT((after.at(present) - before[present]).abs().max().item<double>(), 1e-3);
    const std::string table = "patch_embed.var_embed";  // [1, 3, D], never decayed
    support::expect_same_bits(after.at(table)[0][2], before[table][0][2], table);
    EXPECT_FALSE(after.at(table)[0][1].equal(before[table][0][1]));
  }
}

TEST(VariablesRunTest, SingleChannelMakesASampleOfEachVariable) {
  const data::testing::TempDir folder;
  auto config = variables_run(folder);
  auto vit = vit_of(config);
  vit.single_channel = true;
  vit.in_chans = 1;
  config.model = {vit};
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { open_training_data(config); }),
              AllOf(HasSubstr("data.train, set flow"), HasSubstr("single_channel: true")));
  for (auto* section : {&config.data.train, &config.data.val}) {
    auto mix = *(*section)->get_if<data::MixConfig>();
    for (auto& set : mix.sets) set.single_channel = true;
    *section = data::DataSectionConfig{mix};
  }
  const auto source = open_training_data(config);
  EXPECT_EQ(source.dataset->size(), 2 * 16 + 2 * 12);
  std::set<Names> seen;
  for (int i = 0; i < 11; ++i) {
    const auto batch = source.loader->next();
    EXPECT_EQ(batch.image_shape[1], 1);
    ASSERT_EQ(batch.variables.size(), 1U);
    seen.insert(batch.variables);
  }
  EXPECT_EQ(seen.size(), 3U);
  config.trainer.max_steps = 60;
  const auto result = Trainer(config, ProgressLine::Mode::kSilent).fit();
  EXPECT_EQ(result.last_eval.at("top1"), 100.0);
}

TEST(VariablesRunTest, RefusesDataWithOtherVariables) {
  const data::testing::TempDir folder;
  const auto config = variables_run(folder);
  const auto fault_with = [&](const Names& names) {
    auto changed = config;
    auto mix = *config.data.train->get_if<data::MixConfig>();
    mix.sets[1].variables = names;
    changed.data.train = data::DataSectionConfig{mix};
    return data::testing::message_of<ConfigError>([&] { open_training_data(changed); });
  };
  EXPECT_THAT(fault_with({"speed", "mass"}),
              AllOf(HasSubstr("data.train, set plasma"), HasSubstr("[mass]"),
                    HasSubstr("[density, speed, charge]")));
  EXPECT_THAT(fault_with({"a", "b"}), HasSubstr("none of its channels"));
  EXPECT_THAT(fault_with({"speed", "speed"}), HasSubstr("'speed' stands twice"));
  EXPECT_THAT(data::testing::message_of<ConfigError>([] {
                parse_config<data::MixSetConfig>(
                    "{name: a, source: {format: nifti, path: x}, variables: [t, t]}", "recipe");
              }),
              HasSubstr("'t' stands there twice"));
}

// The mean image of one choice of channels says nothing of another's.
TEST(VariablesRunTest, MeanImagesAreOfEachChoiceOfChannels) {
  models::MaeConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.variables = {"a", "b"};
  vit.in_chans = 2;
  vit.embed_dim = 16;
  vit.depth = 1;
  vit.num_heads = 2;
  config.mask_ratio = 0.5;
  config.decoder_embed_dim = 8;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  models::Mae model(config);
  model.init_weights(1);
  model.eval();
  const MaskedAutoencodingTask task({}, model);
  const auto evaluated = [&](const Names& choices) {
    const at::NoGradGuard no_grad;
    const auto evaluation = task.start_evaluation();
    for (const auto& name : choices) {
      TensorBatch batch;
      batch.images = support::random({6, 1, 8, 8}, at::kFloat, name == "a" ? 1 : 2) +
                     (name == "a" ? 0.0 : 5.0);
      batch.variables = {name};
      batch.indices = at::arange(6);
      evaluation->add(batch, task.loss(model, batch));
    }
    return evaluation->metrics().at("loss_mean_image");
  };
  const double of_a = evaluated({"a"}), of_b = evaluated({"b"});
  EXPECT_NEAR(evaluated({"a", "b"}), (of_a + of_b) / 2, 1e-6);
}

TEST(VariablesRunTest, SamplesHaveTheChannelsThatAreNamed) {
  models::DiffusionVitConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.variables = {"a", "b", "c"};
  vit.in_chans = 3;
  vit.class_token = false;
  vit.embed_dim = 16;
  vit.depth = 1;
  vit.num_heads = 2;
  config.linear_decoder = true;
  models::DiffusionVit model(config);
  model.init_weights(1);
  model.eval();
  SampleRequest request{.count = 2};
  request.sampler.steps = 2;
  const auto draw = [&] {
    return draw_samples(model, NoiseSchedule({}), PredictionType::kEpsilon, request,
                        at::TensorOptions().dtype(at::kFloat));
  };
  EXPECT_EQ(draw().sizes(), at::IntArrayRef({2, 3, 8, 8}));
  request.variables = {"c"};
  EXPECT_EQ(draw().sizes(), at::IntArrayRef({2, 1, 8, 8}));
}

TEST(VariablesRunTest, InferenceTakesTheNamesOfItsInputs) {
  const data::testing::TempDir folder;
  auto config = variables_run(folder);
  config.trainer.max_steps = 2;
  Trainer(config, ProgressLine::Mode::kSilent).fit();
  const auto inference = load_inference(config.run.dir, {.variables = {"charge"}, .device = "cpu"});
  EXPECT_EQ(inference.channels, Names{"charge"});
  EXPECT_EQ(inference.input.in_chans, 1);
  EXPECT_THROW(load_inference(config.run.dir, {.variables = {"mass"}, .device = "cpu"}),
               ConfigError);
}

}  // namespace
}  // namespace fovea::train
