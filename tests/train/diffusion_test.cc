// fovea/train/tasks/diffusion.cc: the task by itself, a distribution learned, and whole runs.
#include "fovea/train/tasks/diffusion.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/nn/forward_context.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/diffusion/evaluation.h"
#include "fovea/train/diffusion/row_draws.h"
#include "fovea/train/diffusion/sampler.h"
#include "fovea/train/evaluate/evaluation_file.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

models::DiffusionVitConfig tiny_denoiser(int64_t side, int64_t patch, int64_t num_classes) {
  models::DiffusionVitConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {side};
  vit.patch_size = {patch};
  vit.in_chans = 1;
  vit.embed_dim = 32;
  vit.depth = 2;
  vit.num_heads = 2;
  config.num_classes = num_classes;
  return config;
}

TensorBatch denoising_batch(const at::Tensor& images, const at::Tensor& labels,
                            int64_t first_row = 0) {
  const auto rows = at::arange(first_row, first_row + images.size(0), at::kLong);
  TensorBatch batch;
  batch.images = images;
  batch.labels = labels;
  batch.rows = batch.indices = rows;
  return batch;
}

support::NamedTensors diffusion_gradients(models::Model& model, const Task& task,
                                          const std::vector<TensorBatch>& parts, double* loss) {
  model.zero_grad();
  *loss = 0;
  for (const auto& part : parts) {
    const nn::StepScope scope(5, 3, part.rows);
    const auto result = task.loss(model, part);
    result.loss_sum.backward();
    *loss += result.loss_sum.item<double>();
  }
  support::NamedTensors gradients;
  for (const auto& item : model.named_parameters()) {
    gradients[item.key()] = item.value().grad().detach().clone();
  }
  return gradients;
}

// Time steps, noise and dropped labels belong to rows of the global batch, and the loss is a sum.
TEST(DiffusionTaskTest, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  for (const char* conditioning : {"adaln_zero", "add"}) {
    auto config = tiny_denoiser(8, 4, 4);
    config.conditioning = conditioning;  // add: with its dropout of one half
    models::DiffusionVit model(config);
    model.init_weights(1);
    DiffusionConfig task_config;
    task_config.label_drop_rate = 0.5;
    const DiffusionTask task(task_config, model);
    const auto images = support::random({7, 1, 8, 8}, at::kFloat, 2);
    const auto labels = at::arange(7).remainder(4);
    double whole_loss = 0, loss = 0;
    const auto expected =
        diffusion_gradients(model, task, {denoising_batch(images, labels)}, &whole_loss);
    std::vector<TensorBatch> parts;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 1}, {4, 3}}) {
      parts.push_back(
          denoising_batch(images.narrow(0, first, count), labels.narrow(0, first, count), first));
    }
    const auto gradients = diffusion_gradients(model, task, parts, &loss);
    support::expect_close(at::tensor(loss), at::tensor(whole_loss), at::kFloat, "loss");
    EXPECT_PARITY(gradients, expected, at::kFloat);
  }
}

// Padding is no value of a sample, whatever stands in it.
TEST(DiffusionTaskTest, OfAdaptivePatchesThoseWithALeafCount) {
  auto denoiser = tiny_denoiser(8, 4, 0);
  denoiser.encoder.vit.patching = "adaptive";
  denoiser.encoder.vit.fixed_length = 7;
  denoiser.encoder.vit.pos_embed = "size_and_center";
  models::DiffusionVit model(denoiser);
  model.init_weights(1);  // predicts zeros
  model.eval();
  DiffusionConfig config;
  config.num_samples = 0;
  config.prediction = "x0";
  const DiffusionTask task(config, model);
  TensorBatch batch;
  batch.indices = batch.rows = at::arange(2);
  auto& patches = batch.patches;
  patches.tokens = support::random({2, 1, 7, 16}, at::kFloat, 3);
  patches.sizes = at::ones({2, 1, 7});
  patches.centers = at::ones({2, 1, 7, 2});
  patches.padding = at::zeros({2, 1, 7}, at::kBool);
  patches.padding[1].slice(1, 4).fill_(true);
  const auto parts = task.loss(model, batch);
  const auto squares = patches.tokens.square();
  const auto expected = squares[0].mean() + squares[1].narrow(1, 0, 4).mean();
  support::expect_close(parts.loss_sum.detach(), expected, at::kFloat, "loss");
  EXPECT_EQ(parts.weight, 2);
  config.num_samples = 3;
  EXPECT_THROW(DiffusionTask(config, model), ConfigError);
}

// The loss is that of its definition, taken apart with the same draws.
TEST(DiffusionTaskTest, LossIsTheMeanSquareOfWhatIsMissing) {
  models::DiffusionVit model(tiny_denoiser(8, 4, 0));
  model.init_weights(1);  // predicts zeros
  const auto images = support::random({5, 1, 8, 8}, at::kFloat, 2);
  for (const auto& name : prediction_type_names()) {
    DiffusionConfig config;
    config.prediction = name;
    config.schedule = "cosine";
    const DiffusionTask task(config, model);
    auto batch = denoising_batch(images, {});
    batch.weights = at::tensor({1.0f, 0.0f, 1.0f, 0.5f, 1.0f});
    const nn::StepScope scope(5, 3, batch.rows);
    const auto parts = task.loss(model, batch);
    const auto noise = normal_rows(model.drop_key("diffusion_noise"), {1, 8, 8});
    const auto timesteps = integer_rows(model.drop_key("diffusion_time"), 1000);
    const auto target = NoiseSchedule(config.schedule_options())
                            .target(prediction_type_from_name(name), images, noise, timesteps);
    const auto losses = target.square().mean({1, 2, 3}) * batch.weights;
    support::expect_close(parts.loss_sum, losses.sum(), at::kFloat, name);
    EXPECT_EQ(parts.weight, 3.5);
  }
}

TEST(DiffusionTaskTest, EvaluationsAreTheSameForAnyBatch) {
  models::DiffusionVit model(tiny_denoiser(8, 4, 4));
  model.init_weights(1);
  model.eval();
  const at::NoGradGuard no_grad;
  const DiffusionTask task({}, model);
  const auto images = support::random({6, 1, 8, 8}, at::kFloat, 2);
  const auto labels = at::arange(6).remainder(4);
  const auto whole = task.loss(model, denoising_batch(images, labels)).outputs;
  support::expect_same_bits(task.loss(model, denoising_batch(images, labels)).outputs, whole,
                            "again");
  for (int64_t i = 0; i < 6; i += 2) {
    const auto part = denoising_batch(images.narrow(0, i, 2), labels.narrow(0, i, 2), i);
    support::expect_close(task.loss(model, part).outputs, whole.narrow(0, i, 2), at::kFloat,
                          "in parts");
  }
}

TEST(DiffusionTaskTest, RefusesModelsAndDataThatDoNotFit) {
  const auto vit = models::build_model({models::VitConfig{}}, at::kMeta);
  EXPECT_THROW(DiffusionTask({}, *vit), ConfigError);
  models::DiffusionVit without(tiny_denoiser(8, 4, 0)), with(tiny_denoiser(8, 4, 4));
  DiffusionConfig guided;
  guided.sampler.guidance = 2;
  EXPECT_THROW(DiffusionTask(guided, without), ConfigError);
  EXPECT_NO_THROW(DiffusionTask(guided, with));
  with.init_weights(1);
  const auto images = support::random({2, 1, 8, 8}, at::kFloat, 2);
  const DiffusionTask task({}, with);
  const nn::StepScope scope(5, 3, at::arange(2));
  EXPECT_THROW(task.loss(with, denoising_batch(images, {})), ConfigError);
  EXPECT_THROW(task.loss(with, denoising_batch(images, at::tensor({0, 4}, at::kLong))), DataError);
  ConfigIssues issues;
  DiffusionConfig backwards;
  backwards.beta_end = 1e-5;
  backwards.sampler.steps = 2000;
  backwards.validate(issues);
  EXPECT_EQ(issues.all().size(), 2);
}

// Images of two by two pixels of one value, -0.6 (class 0, a quarter) or 0.6, with noise of 0.1.
struct Mixture {
  at::Tensor images, labels;
};

Mixture draw_mixture(int64_t step, int64_t count) {
  const auto rows = at::arange(count);
  const auto draw = [&](const char* name) {
    return kernels::DropKey{philox_key(11, name), static_cast<uint32_t>(step), rows};
  };
  const auto labels = bernoulli_rows(draw("class"), 0.75).to(at::kLong);
  const auto centre = (labels.to(at::kFloat) * 1.2 - 0.6).view({-1, 1, 1, 1});
  return {centre + 0.1 * normal_rows(draw("pixels"), {1, 2, 2}), labels};
}

struct Moments {
  double mean, variance, share_of_one, spread;  // spread: standard deviation within an image
};

Moments moments_of_samples(const at::Tensor& samples) {
  const auto flat = samples.flatten(1).to(at::kDouble);  // [N, 4]
  return {flat.mean().item<double>(), flat.var().item<double>(),
          flat.mean(1).gt(0).to(at::kDouble).mean().item<double>(),
          flat.var(1).mean().sqrt().item<double>()};
}

// The whole way: training, guidance-free and class-conditional sampling, both samplers. The bounds
// are wide against the error of 400 samples (0.03 of the mean) and of short training.
TEST(DiffusionTaskTest, ATinyModelLearnsADistribution) {
  at::set_num_threads(1);  // what there is to share out is tiny
  models::DiffusionVit model(tiny_denoiser(2, 1, 2));
  model.init_weights(1);
  DiffusionConfig config;
  config.schedule = "cosine";
  config.num_time_steps = 100;
  config.label_drop_rate = 0.3;
  const DiffusionTask task(config, model);
  optim::AdamWConfig adamw;
  adamw.weight_decay = 0;
  const optim::OptimConfig optim{adamw};
  const auto optimizer = optim::make_optimizer(optim, optim::param_groups(model, optim));
  constexpr int64_t kSteps = 600, kBatch = 128;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto mixture = draw_mixture(step, kBatch);
    const auto batch = denoising_batch(mixture.images, mixture.labels);
    const nn::StepScope scope(1, step, batch.rows);
    optimizer->zero_grad();
    const auto parts = task.loss(model, batch);
    (parts.loss_sum / parts.weight).backward();
    optimizer->step(4e-3 * (1.0 - static_cast<double>(step) / kSteps));
  }
  model.eval();
  const NoiseSchedule schedule(config.schedule_options());
  const auto sample = [&](const char* kind, int64_t steps, std::vector<int64_t> classes) {
    SampleRequest request{
        .count = 400, .seed = 3, .classes = std::move(classes), .batch_size = 400};
    request.sampler = {.kind = kind, .steps = steps};
    return moments_of_samples(draw_samples(model, schedule, PredictionType::kEpsilon, request,
                                           at::TensorOptions().dtype(at::kFloat)));
  };
  for (const auto& [kind, steps] : {std::pair<const char*, int64_t>{"ddim", 25}, {"ddpm", 100}}) {
    const auto mixed = sample(kind, steps, {});
    std::cout << "  " << kind << ": mean " << mixed.mean << " variance " << mixed.variance
              << " share " << mixed.share_of_one << " spread " << mixed.spread << "\n";
    EXPECT_NEAR(mixed.mean, 0.3, 0.12) << kind;
    EXPECT_NEAR(mixed.variance, 0.28, 0.1) << kind;
    EXPECT_NEAR(mixed.share_of_one, 0.75, 0.1) << kind;
    EXPECT_NEAR(mixed.spread, 0.1, 0.05) << kind;
    for (const int64_t label : {0, 1}) {
      const auto one = sample(kind, steps, std::vector<int64_t>(400, label));
      EXPECT_NEAR(one.mean, label == 0 ? -0.6 : 0.6, 0.06) << kind;
      EXPECT_NEAR(one.share_of_one, static_cast<double>(label), 0.02) << kind;
      EXPECT_LT(one.variance, 0.05) << kind;
    }
  }
}

TrainConfig diffusion_run(const data::testing::TempDir& folder, const std::string& run) {
  auto config = testing::tiny_config(folder, run);
  auto model = tiny_denoiser(8, 4, 4);
  model.encoder.vit.proj_drop_rate = 0.1;
  config.model = {model};
  DiffusionConfig task;
  task.num_samples = 6;
  task.sampler.steps = 3;
  config.task = {task};
  config.trainer.ema = {.enabled = true, .decay = 0.9};
  return config;
}

TEST(DiffusionRunTest, TrainsAndLeavesSamplesInItsReport) {
  const data::testing::TempDir folder;
  const auto config = diffusion_run(folder, "run");
  const auto result = testing::fit(config);
  EXPECT_EQ(result.step, 12);
  EXPECT_GT(result.last_eval.at("loss"), 0);
  const auto file = read_evaluation_file(config.run.dir + "/evaluation.json");
  ASSERT_EQ(file.pictures.size(), 1);
  EXPECT_EQ(file.pictures[0].title, "6 samples");
  EXPECT_FALSE(file.pictures[0].image_png.empty());
  EXPECT_EQ(file.num_samples, 40);
  EXPECT_TRUE(std::filesystem::exists(config.run.dir + "/report.html"));
  EXPECT_EQ(load_inference(config.run.dir).model->num_classes(), 4);
}

TEST(DiffusionRunTest, TrainsOnVolumesInBothConditionings) {
  const data::testing::TempDir folder;
  for (const char* conditioning : {"adaln_zero", "add"}) {
    auto config = testing::tiny_volume_config(folder);
    config.run.dir = folder.file(conditioning);
    auto model = tiny_denoiser(8, 4, 0);
    model.encoder.vit.img_size = {8, 8, 8};
    model.encoder.vit.embed_dim = 24;
    model.encoder.vit.pos_embed = "sincos_learn";
    model.conditioning = conditioning;
    model.linear_decoder = false;
    model.decoder_embed_dim = 12;
    model.decoder_depth = 1;
    model.decoder_num_heads = 2;
    config.model = {model};
    DiffusionConfig task;
    task.prediction = "v";
    task.num_samples = 2;
    task.sampler.steps = 2;
    config.task = {task};
    config.trainer.max_steps = 30;
    testing::fit(config);
    std::ifstream lines(config.run.dir + "/metrics.jsonl");
    std::vector<double> losses;
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.at("split") == "train") losses.push_back(record.at("loss"));
    }
    ASSERT_EQ(losses.size(), 30);
    const auto mean = [&](int64_t first) {
      return std::accumulate(losses.begin() + first, losses.begin() + first + 8, 0.0) / 8;
    };
    EXPECT_LT(mean(22), mean(0)) << conditioning;
  }
}

// The judge is a classifier that was trained on the same images.
TEST(DiffusionRunTest, GivesAFrechetDistanceOfItsSamples) {
  const data::testing::TempDir folder;
  const auto judge = testing::tiny_config(folder, "judge");
  testing::fit(judge);
  auto config = diffusion_run(folder, "run");
  auto task = *config.task.get_if<DiffusionConfig>();
  task.fid_backbone = judge.run.dir;
  task.fid_samples = 40;
  config.task = {task};
  config.checkpoint.best_metric = "fid";
  const auto result = testing::fit(config);
  EXPECT_GT(result.last_eval.at("fid"), 0);
  // Against the training images themselves, a sample of the same size is far nearer.
  FeatureBackbone backbone(judge.run.dir, 1, 2);
  const auto features_of = [&](const data::DataSectionConfig& section) {
    auto one = config;
    one.data.val = section;
    const auto source = open_validation_data(one, {});
    FeatureMoments moments;
    auto batch = source.loader->next();
    const auto images = to_tensors(batch, 0, batch.size(), {}).images;
    moments.add(backbone.features((images + 1) / 2));
    return moments;
  };
  const auto near =
      frechet_distance(features_of(*config.data.train), features_of(*config.data.val));
  EXPECT_LT(near, result.last_eval.at("fid"));
  EXPECT_THROW(FeatureBackbone(judge.run.dir, 3, 2), ConfigError);
  EXPECT_THROW(FeatureBackbone(config.run.dir, 1, 2), ConfigError);
}

}  // namespace
}  // namespace fovea::train
