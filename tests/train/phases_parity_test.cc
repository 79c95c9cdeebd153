// A linear probe and fine-tuning from it, against torch and timm: losses of every step, and the
// weights that each phase ends with.
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/data/datasets/cifar.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/run/phases.h"
#include "fovea/train/session.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using support::Golden;
using support::NamedTensors;

// The images as a CIFAR-10 folder.
data::DataSectionConfig write_cifar(const data::testing::TempDir& folder, const Golden& golden) {
  const auto images = golden.at("images").contiguous();  // [M, 3, 32, 32] bytes
  const auto labels = golden.at("labels");
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < images.size(0); ++i) {
    bytes.push_back(static_cast<uint8_t>(labels[i].item<int64_t>()));
    const auto* pixels = images[i].const_data_ptr<uint8_t>();
    bytes.insert(bytes.end(), pixels, pixels + data::kCifarPixels);
  }
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    folder.write(std::string("cifar/") + name, bytes);
  }
  data::CifarConfig config;
  config.path = folder.file("cifar");
  config.split = "test";
  config.variant = "cifar10";
  config.transforms = {{data::NormalizeConfig{}}};
  return {config};
}

TrainConfig config_of(const data::testing::TempDir& folder, const Golden& golden) {
  TrainConfig config;
  config.run = {.dir = folder.file("run"), .seed = 1};
  config.device = {.type = "cpu", .dtype = "float32", .threads = 1};
  const auto& model = golden.config.at("model");
  config.model = {support::config_from_json<models::VitConfig>(model)};
  config.data.train = write_cifar(folder, golden);
  config.data.global_batch_size = golden.at("images").size(0);
  optim::AdamWConfig adamw;
  adamw.lr = golden.config.at("lr");
  adamw.eps = golden.config.at("eps");
  adamw.weight_decay = 0;
  config.optim = {adamw};
  config.schedule = {optim::ConstantScheduleConfig{}};
  config.trainer.max_steps = golden.config.at("steps");
  config.log.every_steps = 1;
  config.init.weights = folder.file("start.safetensors");
  return config;
}

std::vector<double> losses_of(const std::string& run_dir) {
  std::vector<double> losses;
  std::ifstream lines(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    losses.push_back(nlohmann::json::parse(line).at("loss"));
  }
  return losses;
}

NamedTensors numbered(const std::vector<double>& values) {
  NamedTensors tensors;
  for (size_t i = 0; i < values.size(); ++i) {
    tensors[std::to_string(i)] = at::scalar_tensor(values[i], at::kDouble);
  }
  return tensors;
}

NamedTensors weights_in(const std::string& run_dir, const std::vector<std::string>& names = {}) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : nn::read_tensor_file(run_dir + "/weights.safetensors")) {
    if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) {
      tensors[name] = tensor;
    }
  }
  return tensors;
}

TEST(PhasesParityTest, ProbeAndFineTuningAreTorchs) {
  const auto golden = support::load_golden("phases.safetensors");
  const data::testing::TempDir folder;
  nn::NamedTensors start;
  for (const auto& [name, tensor] : golden.group("start")) start.emplace_back(name, tensor);
  nn::write_tensor_file(folder.file("start.safetensors"), start);
  auto config = config_of(folder, golden);
  const double lr = golden.config.at("lr"), decay = golden.config.at("layer_decay");
  config.phases.resize(2);
  config.phases[0].name = "probe";
  config.phases[0].set.root =
      parse_config_yaml("trainer: {freeze: [backbone], cache_features: exact}", "probe");
  config.phases[1].name = "fine_tune";
  config.phases[1].set.root = parse_config_yaml(
      fmt::format("optim: {{lr: {}, layer_decay: {}}}\nmodel: {{logits_scale: {}}}", lr / 8, decay,
                  golden.config.at("logits_scale").get<double>()),
      "fine_tune");

  const auto probe = resolve_phases(config)[0].config;
  const auto model = make_model(probe, {});
  const auto features = collect_features(*model, open_training_setup(probe), {});
  EXPECT_PARITY((NamedTensors{{"features", features.features}}),
                (NamedTensors{{"features", golden.at("features")}}), at::kFloat);

  const auto results = fit_phases(config, ProgressLine::Mode::kSilent);
  const auto& losses = golden.config.at("losses");
  EXPECT_PARITY(numbered(losses_of(results[0].fit.run_dir)),
                numbered(losses.at("probe").get<std::vector<double>>()), at::kFloat);
  EXPECT_PARITY(numbered(losses_of(results[1].fit.run_dir)),
                numbered(losses.at("fine_tune").get<std::vector<double>>()), at::kFloat);
  EXPECT_PARITY(weights_in(results[0].fit.run_dir, {"head.weight", "head.bias"}),
                golden.group("probe"), at::kFloat);
  EXPECT_PARITY(weights_in(results[1].fit.run_dir), golden.group("fine_tune"), at::kFloat);
}

}  // namespace
}  // namespace fovea::train
