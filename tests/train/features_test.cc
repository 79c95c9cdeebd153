// Features of frozen backbones, and the cache that a linear probe trains on.
#include "fovea/train/evaluate/features.h"

#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/run/feature_cache.h"
#include "fovea/train/trainer.h"
#include "tests/support/parity.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TrainConfig probe_config(const data::testing::TempDir& folder, const std::string& run,
                         const std::string& cache_features) {
  auto config = testing::tiny_config(folder, run);
  config.trainer.freeze = {"backbone"};
  config.trainer.cache_features = cache_features;
  config.trainer.max_steps = 14;  // almost three epochs of five batches, the last one smaller
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.drop_rate = 0.2;  // before the head: drawn anew in each step, cached or not
  config.model = {vit};
  return config;
}

// Lines of metrics.jsonl by split and step.
std::map<std::string, nlohmann::json> metrics_of(const TrainConfig& config) {
  std::map<std::string, nlohmann::json> records;
  std::ifstream lines(config.run.dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    records[record.at("split").get<std::string>() + "/" + record.at("step").dump()] = record;
  }
  return records;
}

support::NamedTensors weights_of(const TrainConfig& config) {
  support::NamedTensors weights;
  const auto inference = load_inference(config.run.dir, {.device = "cpu"});
  for (const auto& item : inference.model->named_parameters()) {
    weights[item.key()] = item.value().detach();
  }
  return weights;
}

void expect_equal_runs(const TrainConfig& left, const TrainConfig& right) {
  const auto a = metrics_of(left), b = metrics_of(right);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GT(a.size(), 14u);
  support::NamedTensors losses, expected;
  for (const auto& [place, record] : b) {
    ASSERT_TRUE(a.contains(place)) << place;
    for (const char* name : {"loss", "top1"}) {
      losses[place + name] = at::scalar_tensor(a.at(place).at(name).get<double>(), at::kDouble);
      expected[place + name] = at::scalar_tensor(record.at(name).get<double>(), at::kDouble);
    }
  }
  EXPECT_PARITY(losses, expected, at::kFloat);
  EXPECT_PARITY(weights_of(left), weights_of(right), at::kFloat);
}

TEST(FeaturesTest, CachedProbeIsTheUncachedOne) {
  const data::testing::TempDir folder;
  const auto cached = probe_config(folder, "cached", "exact");
  const auto uncached = probe_config(folder, "uncached", "none");
  const auto result = Trainer(cached, ProgressLine::Mode::kSilent).fit();
  Trainer(uncached, ProgressLine::Mode::kSilent).fit();
  expect_equal_runs(cached, uncached);
  EXPECT_EQ(result.step, 14);
}

TEST(FeaturesTest, CachedProbeInMicroBatchesIsTheUncachedOne) {
  const data::testing::TempDir folder;
  auto cached = probe_config(folder, "cached", "exact");
  cached.trainer.micro_batch_size = 7;
  const auto uncached = probe_config(folder, "uncached", "none");
  Trainer(cached, ProgressLine::Mode::kSilent).fit();
  Trainer(uncached, ProgressLine::Mode::kSilent).fit();
  expect_equal_runs(cached, uncached);
}

TEST(FeaturesTest, BackboneOfAProbeStaysAndHasNoDropout) {
  const data::testing::TempDir folder;
  auto with_drops = probe_config(folder, "with", "none");
  auto without = probe_config(folder, "without", "none");
  auto vit = *without.model.get_if<models::VitConfig>();
  vit.proj_drop_rate = vit.attn_drop_rate = vit.drop_path_rate = 0;
  without.model = {vit};
  const auto start = make_model(with_drops, {});
  for (const auto& config : {with_drops, without})
    Trainer(config, ProgressLine::Mode::kSilent).fit();
  expect_equal_runs(with_drops, without);
  int64_t same = 0;
  const auto trained = weights_of(with_drops);
  for (const auto& item : start->named_parameters()) {
    const bool is_head = item.key().starts_with("head.");
    EXPECT_NE(trained.at(item.key()).equal(item.value()), is_head) << item.key();
    same += !is_head;
  }
  EXPECT_GT(same, 20);
}

TEST(FeaturesTest, FirstEpochsDrawsAreKept) {
  const data::testing::TempDir folder;
  auto cached = probe_config(folder, "cached", "first_epoch");
  auto& idx = *cached.data.train->get_if<data::IdxConfig>();
  idx.transforms.insert(idx.transforms.begin(),
                        {data::RandomCropConfig{.size = {8}, .padding = {2}}});
  cached.trainer.max_steps = 5;  // one epoch
  auto uncached = cached;
  uncached.run.dir = folder.file("uncached");
  uncached.trainer.cache_features = "none";
  for (const auto& config : {cached, uncached}) Trainer(config, ProgressLine::Mode::kSilent).fit();
  const auto a = metrics_of(cached), b = metrics_of(uncached);
  ASSERT_EQ(a.size(), 6u);
  support::NamedTensors losses, expected;
  for (const auto& [place, record] : b) {
    losses[place] = at::scalar_tensor(a.at(place).at("loss").get<double>(), at::kDouble);
    expected[place] = at::scalar_tensor(record.at("loss").get<double>(), at::kDouble);
  }
  EXPECT_PARITY(losses, expected, at::kFloat);
}

// How often the samples of a data set are read.
class CountingDataset : public data::DatasetView {
 public:
  using DatasetView::DatasetView;
  void read(int64_t index, data::Sample& sample) const override {
    reads += 1;
    DatasetView::read(index, sample);
  }
  mutable std::atomic<int64_t> reads = 0;
};

TEST(FeaturesTest, CacheReadsEverySampleOnce) {
  const data::testing::TempDir folder;
  auto config = probe_config(folder, "run", "exact");
  config.data.threads = 0;  // no reading ahead into a second epoch
  auto setup = open_training_setup(config);
  const auto counting = std::make_shared<CountingDataset>(setup.dataset);
  setup.dataset = counting;
  FeatureCache cache(setup);
  const auto source = cache.source();
  const auto model = make_model(config, {});
  EXPECT_EQ(counting->reads, 0);
  cache.compute(*model, {});
  const int64_t reads = counting->reads;
  EXPECT_GE(reads, 100);
  EXPECT_LE(reads, 101);  // one to learn the size
  for (int64_t i = 0; i < 12; ++i) {
    auto batch = source.loader->next();
    auto tensors = to_tensors(batch, 0, batch.size(), {});
    cache.fill(tensors);
    EXPECT_EQ(tensors.features.sizes(), (std::vector<int64_t>{batch.size(), 32}));
    EXPECT_FALSE(tensors.features.requires_grad());
  }
  EXPECT_EQ(counting->reads, reads);
}

// Samples that cannot be read take the place in a cached run that they take in another.
class DamagedDataset : public data::DatasetView {
 public:
  using DatasetView::DatasetView;
  void read(int64_t index, data::Sample& sample) const override {
    if (index % 9 == 4) throw DataError("sample " + std::to_string(index) + ": cut short");
    DatasetView::read(index, sample);
  }
};

TEST(FeaturesTest, SamplesThatCannotBeReadCountForNothing) {
  const data::testing::TempDir folder;
  auto config = probe_config(folder, "run", "exact");
  config.data.bad_samples = {.policy = "skip", .budget = 0.5};
  auto setup = open_training_setup(config);
  setup.dataset = std::make_shared<DamagedDataset>(setup.dataset);
  FeatureCache cache(setup);
  const auto source = cache.source();
  data::Loader uncached(setup.dataset, setup.transforms, setup.options);
  const auto model = make_model(config, {});
  cache.compute(*model, {});
  int64_t left_out = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const auto batch = source.loader->next(), expected = uncached.next();
    EXPECT_EQ(batch.indices, expected.indices);
    EXPECT_EQ(batch.labels, expected.labels);
    EXPECT_EQ(batch.weights, expected.weights);
    left_out += std::count(batch.weights.begin(), batch.weights.end(), 0.0f);
  }
  EXPECT_EQ(left_out, 11);
  EXPECT_EQ(source.loader->bad_samples().size(), 11u);

  config.data.bad_samples.policy = "error";
  auto strict = open_training_setup(config);
  strict.dataset = std::make_shared<DamagedDataset>(strict.dataset);
  EXPECT_THROW(FeatureCache(strict).compute(*model, {}), DataError);
}

TEST(FeaturesTest, KilledProbeGoesOnBitwise) {
  const data::testing::TempDir folder;
  const auto whole = probe_config(folder, "whole", "exact");
  Trainer(whole, ProgressLine::Mode::kSilent).fit();
  auto half = probe_config(folder, "half", "exact");
  half.trainer.max_steps = 8;
  half.schedule = whole.schedule;
  std::get<optim::CosineScheduleConfig>(half.schedule.value).total_steps = 14;
  Trainer(half, ProgressLine::Mode::kSilent).fit();
  // The same run with the length it should have had: only its folder's config says otherwise.
  std::filesystem::remove(half.run.dir + "/config.yaml");
  auto longer = half;
  longer.trainer.max_steps = 14;
  Trainer(longer, ProgressLine::Mode::kSilent).fit();
  const auto expected = weights_of(whole);
  for (const auto& [name, tensor] : weights_of(longer)) {
    EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  }
}

// Of a config read from a file; empty: there is none.
std::string probe_fault_of(const TrainConfig& config) {
  try {
    parse_config<TrainConfig>(dump_config(config), "probe.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FeaturesTest, CacheOfWhatChangesIsRefusedWithWhatToDo) {
  const data::testing::TempDir folder;
  auto config = probe_config(folder, "run", "exact");
  EXPECT_EQ(probe_fault_of(config), "");
  auto random = config;
  random.data.train->get_if<data::IdxConfig>()->transforms.insert(
      random.data.train->get_if<data::IdxConfig>()->transforms.begin(),
      {data::HorizontalFlipConfig{}});
  EXPECT_THAT(probe_fault_of(random),
              AllOf(HasSubstr("probe.yaml:"), HasSubstr("trainer.cache_features: found exact"),
                    HasSubstr("through horizontal_flip"), HasSubstr("first_epoch")));
  random.trainer.cache_features = "first_epoch";
  EXPECT_EQ(probe_fault_of(random), "");
  auto mixed = config;
  mixed.data.mixup.mixup_alpha = 0.8;
  EXPECT_THAT(probe_fault_of(mixed), HasSubstr("turn mixup off"));
  auto trained = config;
  trained.trainer.freeze = {"blocks.*"};
  EXPECT_THAT(probe_fault_of(trained), HasSubstr("set freeze: [backbone]"));
  auto headless = config;
  auto vit = *headless.model.get_if<models::VitConfig>();
  vit.distilled = true;
  headless.model = {vit};
  EXPECT_THAT(data::testing::message_of<ConfigError>(
                  [&] { Trainer(headless, ProgressLine::Mode::kSilent); }),
              HasSubstr("the model's head does not stand on features"));
}

// As the evaluation of a diffusion run does, which measures its samples with another model.
TEST(LoadInferenceTest, LeavesTheKernelOfAttentionThatARunChose) {
  const c10::Device cpu(c10::kCPU);
  kernels::choose_attention("math", cpu);
  load_inference("vit_tiny_patch16_224", {.device = "cpu"});
  EXPECT_EQ(kernels::attention_choice(), kernels::AttentionChoice::kMath);
  kernels::choose_attention("auto", cpu);
}

}  // namespace
}  // namespace fovea::train
