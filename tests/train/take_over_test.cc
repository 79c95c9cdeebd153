// Runs of timm, torch, Hugging Face's model and BioNeMo go on here: weights, moments, count of
// steps and schedule are taken over, and ten further steps equal those of torch
// (tools/golden/make_moving_over.py).
#include "fovea/train/run/take_over.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/session.h"
#include "fovea/train/trainer.h"
#include "fovea/weights/torch_writer.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"
#include "tests/support/unpack.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string left_behind(const std::string& file) { return support::golden_path("moving/" + file); }

// As the run there was configured; file: what it left behind.
TrainConfig moving_config(const support::Golden& golden, const std::string& file) {
  TrainConfig config;
  config.device = {.type = "cpu", .dtype = "float32", .threads = 1};
  config.model = {support::config_from_json<models::VitConfig>(golden.config.at("vit"))};
  const auto& settings = golden.config.at("optim");
  const auto optimizer = golden.config.value("optimizer", std::string("adamw"));
  if (optimizer == "sgd") {
    config.optim = {support::config_from_json<optim::SgdConfig>(settings)};
  } else if (optimizer == "lamb") {
    config.optim = {support::config_from_json<optim::LambConfig>(settings)};
  } else {
    config.optim = {support::config_from_json<optim::AdamWConfig>(settings)};
  }
  if (golden.config.contains("schedule")) {
    config.schedule = {
        support::config_from_json<optim::CosineScheduleConfig>(golden.config.at("schedule"))};
  } else {
    config.schedule = {optim::ConstantScheduleConfig{}};
  }
  config.init.weights = config.init.optimizer = file.starts_with('/') ? file : left_behind(file);
  config.trainer.max_steps = 17;
  return config;
}

// A run that was taken over.
struct Taken {
  explicit Taken(const TrainConfig& config, double ema_decay = 0)
      : model(make_model(config, {})),
        optimizer(make_optimizer(config, *model)),
        schedule(config.schedule, optim::base_lr(config.optim), *config.trainer.max_steps) {
    if (ema_decay > 0)
      ema = std::make_unique<optim::Ema>(*optimizer, optim::EmaOptions{.decay = ema_decay});
    step = take_over_run(config, *model, *optimizer, ema.get());
  }

  models::ModelPtr model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  optim::Schedule schedule;
  int64_t step = 0;
};

// step: where the file does not tell it.
void expect_ten_further_steps(const std::string& name, const std::string& file,
                              std::optional<int64_t> step = {}) {
  SCOPED_TRACE(file);
  const auto golden = support::load_golden("moving_" + name + ".safetensors");
  auto config = moving_config(golden, file);
  config.init.step = step;
  Taken run(config, golden.config.value("ema_decay", 0.0));
  EXPECT_EQ(run.step, golden.config.at("steps").get<int64_t>());
  EXPECT_EQ(run.optimizer->steps_taken(), step ? 1 : run.step);
  const auto losses = at::empty({10}, at::kDouble), rates = at::empty({10}, at::kDouble);
  for (int64_t i = 0; i < 10; ++i, ++run.step) {
    // In float64: of ten steps in float32 the roundings of one side are enough.
    const auto logits = run.model->forward(golden.at("images")[i].to(at::kDouble));
    const auto loss = at::cross_entropy_loss(logits, golden.at("labels")[i]);
    run.optimizer->zero_grad();
    loss.backward();
    losses[i] = loss.item<double>();
    rates[i] = run.schedule.lr(run.step);
    optim::clip_gradients(*run.optimizer, golden.config.at("max_grad_norm"));
    run.optimizer->step(rates[i].item<double>());
    if (run.ema) run.ema->update(run.step);
  }
  support::expect_close(rates, golden.at("rates"), at::kFloat, "learning rates");
  support::expect_close(losses, golden.at("losses"), at::kFloat, "losses");
  support::NamedTensors weights;
  for (const auto& spec : run.optimizer->params()) weights[spec.name] = spec.param.detach();
  EXPECT_PARITY(weights, golden.group("final"), at::kFloat);
  EXPECT_PARITY(run.optimizer->state(), golden.group("state"), at::kFloat);
  if (run.ema) EXPECT_PARITY(run.ema->state(), golden.group("ema"), at::kFloat);
}

TEST(TakeOverTest, TenFurtherStepsOfATimmRunWithItsAverage) {
  expect_ten_further_steps("timm", "timm.pth.tar");
}

TEST(TakeOverTest, TenFurtherStepsOfATimmRunWithLayerDecay) {
  expect_ten_further_steps("timm_layer_decay", "timm_layer_decay.pth.tar");
}

// torch's SGD keeps no count of its steps, and timm none beside it.
TEST(TakeOverTest, TenFurtherStepsOfATimmRunWithMomentum) {
  expect_ten_further_steps("timm_sgd", "timm_sgd.pth.tar", 7);
}

TEST(TakeOverTest, TenFurtherStepsOfATimmRunWithLamb) {
  expect_ten_further_steps("timm_lamb", "timm_lamb.pth.tar");
}

TEST(TakeOverTest, TenFurtherStepsOfATorchRunFromFolders) {
  expect_ten_further_steps("dcp", "dcp");
  expect_ten_further_steps("dcp", "dcp_flat");
}

// Query, key and value are joined, and so are their moments.
TEST(TakeOverTest, TenFurtherStepsOfHuggingFacesModel) {
  expect_ten_further_steps("hf_vit", "hf_vit.pt");
}

TEST(TakeOverTest, TenFurtherStepsOfABioNeMoRun) { expect_ten_further_steps("bionemo", "bionemo"); }

// Rows of queries, keys and values stand head by head there, and so do their moments.
TEST(TakeOverTest, TenFurtherStepsOfABioNeMoRunWithTransformerEngine) {
  expect_ten_further_steps("te", "te");
}

// A Rosetta ViT in JAX, stopped by t5x's checkpoint.
TEST(TakeOverTest, TenFurtherStepsOfARosettaRun) {
  const support::TempDir folder;
  support::unpack(left_behind("t5x.zip"), folder);
  expect_ten_further_steps("t5x", folder.file("checkpoint_7"));
}

class TakeOverRunTest : public ::testing::Test {
 protected:
  TakeOverRunTest() : golden_(support::load_golden("moving_timm.safetensors")) {
    config_ = moving_config(golden_, "timm.pth.tar");
    config_.run.dir = folder_.file("run");
    const auto section = testing::write_tiny_set(folder_, "train", 50, 1);
    auto idx = *section.get_if<data::IdxConfig>();
    idx.num_classes = 5;
    config_.data.train = data::DataSectionConfig{idx};
    config_.data.global_batch_size = 12;  // five steps an epoch, the last of two samples
    config_.data.threads = 1;
    config_.data.drop_last = false;
    config_.log.every_steps = 1;
    config_.checkpoint.every_steps = 4;
  }

  // What the error of a run with `config` says.
  static std::string refusal(const TrainConfig& config) {
    try {
      const Taken run(config);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> list;
    std::ifstream lines(config_.run.dir + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) list.push_back(nlohmann::json::parse(line));
    return list;
  }

  data::testing::TempDir folder_;
  support::Golden golden_;
  TrainConfig config_;
};

// The trainer goes on at step 7: schedule, length, order of samples, checkpoints.
TEST_F(TakeOverRunTest, TheTrainerCountsTheStepsBefore) {
  config_.trainer.max_steps = 9;
  const auto first = Trainer(config_, ProgressLine::Mode::kSilent).fit();
  EXPECT_EQ(first.step, 9);
  const auto lines = records();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("step"), 8);
  const auto rates = golden_.at("rates");
  support::expect_close(at::scalar_tensor(lines[0].at("lr").get<double>(), at::kDouble), rates[0],
                        at::kFloat, "learning rate of the first step here");
  // Behind one epoch of 50 samples and two batches of 12.
  const auto state = checkpoint::Store(config_.run.dir + "/checkpoints", {}).load_latest();
  EXPECT_EQ(state->scalars.at("position"), 50 + 4 * 12);
  EXPECT_EQ(state->scalars.at("optimizer_steps"), 9);
}

// A run that was taken over, stopped and gone on with gives the weights of one that was not
// stopped, and does not need the file any more.
TEST_F(TakeOverRunTest, ResumesExactly) {
  config_.trainer.max_steps = 13;
  auto whole = config_;
  whole.run.dir = folder_.file("whole");
  Trainer(whole, ProgressLine::Mode::kSilent).fit();
  Trainer(config_, ProgressLine::Mode::kSilent).fit();
  fs::remove_all(config_.run.dir + "/checkpoints/step_00000013");
  std::ofstream(config_.run.dir + "/checkpoints/latest") << "step_00000012\n";
  config_.init.optimizer = config_.init.weights = "";
  Trainer(config_, ProgressLine::Mode::kSilent).fit();
  const auto a = checkpoint::Store(whole.run.dir + "/checkpoints", {}).load_latest();
  const auto b = checkpoint::Store(config_.run.dir + "/checkpoints", {}).load_latest();
  ASSERT_EQ(a->optimizer.size(), b->optimizer.size());
  for (const auto& [name, tensor] : a->optimizer)
    support::expect_same_bits(b->optimizer.at(name), tensor, name);
  for (const auto& [name, tensor] : a->model)
    support::expect_same_bits(b->model.at(name), tensor, name);
}

TEST_F(TakeOverRunTest, TheStepCanBeSaid) {
  config_.init.step = 0;  // a new schedule with the moments of the old run
  const Taken fresh(config_);
  EXPECT_EQ(fresh.step, 0);
  EXPECT_EQ(fresh.optimizer->steps_taken(), 7);
  config_.init.optimizer = "";
  config_.init.step = 5;  // weights alone, in the middle of a schedule
  const Taken weights(config_);
  EXPECT_EQ(weights.step, 5);
  EXPECT_EQ(weights.optimizer->steps_taken(), 0);
  config_.trainer.max_steps = 5;
  EXPECT_THAT(
      [&] { Trainer(config_, ProgressLine::Mode::kSilent).fit(); },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("5 steps were done, and the run has 5")));
  EXPECT_FALSE(fs::exists(config_.run.dir + "/config.yaml"));
}

// What is frozen here alone is left out; what is frozen there too is not in the file.
TEST_F(TakeOverRunTest, LeavesOutWhatIsFrozenHere) {
  config_.trainer.freeze = {"blocks.0.*"};
  const Taken run(config_);
  EXPECT_EQ(run.step, 7);
  EXPECT_EQ(run.optimizer->state().size(), 2 * (33 - 12));
}

TEST_F(TakeOverRunTest, RefusesTheStateOfAnotherModel) {
  auto vit = *config_.model.get_if<models::VitConfig>();
  const auto weights_of = [&](const models::VitConfig& other) {
    auto config = config_;
    config.model = {other};
    config.init = {};
    const auto path = folder_.file("weights.pt");
    weights::write_torch_file(path, models::weights_of(*make_model(config, {})));
    config.init.weights = path;
    config.init.optimizer = left_behind("timm.pth.tar");
    return config;
  };
  vit.depth = 1;
  EXPECT_THAT(refusal(weights_of(vit)),
              HasSubstr("numbers 33 parameters in groups of 23 + 10, and which they are cannot be "
                        "decided"));
  vit.depth = 2;
  vit.mlp_ratio = 4;
  EXPECT_THAT(refusal(weights_of(vit)),
              HasSubstr("blocks.0.mlp.fc1.bias [32] would have moments [16]"));
  // Moments with names: held against the model's parameters.
  auto named = weights_of(vit);
  named.init.optimizer = left_behind("dcp");
  const auto text = refusal(named);
  EXPECT_THAT(text, HasSubstr("these are moments of another model"));
  EXPECT_THAT(text, HasSubstr("missing       13  reg_token"));
  EXPECT_THAT(
      text,
      HasSubstr("mismatched     4  pos_embed: [1, 5, 8] -> [1, 7, 8], blocks.0.mlp.fc1.weight: "
                "[16, 8] -> [32, 8]"));
  vit = *config_.model.get_if<models::VitConfig>();
  vit.depth = 1;
  vit.class_token = false;
  vit.global_pool = "avg";
  named = weights_of(vit);
  named.init.optimizer = left_behind("dcp");
  EXPECT_THAT(refusal(named), HasSubstr("unexpected"));
}

TEST_F(TakeOverRunTest, RefusesWhatCannotGoOn) {
  auto config = config_;
  config.init.optimizer = folder_.file("none.pth");
  EXPECT_THAT(refusal(config), HasSubstr("none.pth"));
  config.init.optimizer = left_behind("timm.pth.tar");
  config.optim = {optim::SgdConfig{}};
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("holds the state of AdamW, but optim.name is sgd"),
                                     HasSubstr("set optim.name=adamw")));
  // Cut off.
  const auto bytes = read_file(left_behind("timm.pth.tar"), 1 << 20);
  std::ofstream(folder_.file("cut.pth"), std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  config = config_;
  config.init.optimizer = folder_.file("cut.pth");
  EXPECT_THAT(refusal(config), HasSubstr("cut.pth"));
  // Weights that do not keep the order of torch's parameters.
  const auto model = make_model(config_, {});
  models::save_weights(*model, folder_.file("w.safetensors"));
  config = config_;
  config.init.weights = folder_.file("w.safetensors");
  EXPECT_THAT(refusal(config), HasSubstr("does not keep the order"));
}

TEST_F(TakeOverRunTest, RefusesAnotherOptimizer) {
  const auto golden = support::load_golden("moving_timm_sgd.safetensors");
  auto config = moving_config(golden, "timm_sgd.pth.tar");
  EXPECT_THAT(refusal(config),
              AllOf(HasSubstr("does not say how many steps were done: its SGD keeps no count"),
                    HasSubstr("set init.step to the number of steps, or to 0")));
  config.init.step = 7;
  config.optim = {optim::AdamWConfig{}};
  EXPECT_THAT(refusal(config), HasSubstr("holds the state of SGD, but optim.name is adamw"));
  optim::SgdConfig plain;
  plain.momentum = 0;
  config.optim = {plain};
  EXPECT_THAT(refusal(config),
              HasSubstr("holds the state of SGD with momentum, but optim.momentum is 0"));
  config = moving_config(golden, "timm_lamb.pth.tar");
  config.init.step = 7;
  EXPECT_THAT(refusal(config), HasSubstr("holds the state of LAMB, but optim.name is sgd"));
}

TEST_F(TakeOverRunTest, ARecipeSaysWhatDoesNotGoTogether) {
  const auto fault = [&](const std::string& init) {
    try {
      parse_config<TrainConfig>(
          "run: {dir: a}\nmodel: {name: vit}\ntrainer: {max_steps: 1}\ninit: " + init,
          "recipe.yaml");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(fault("{weights: a.pt, optimizer: a.pt, step: auto}"), "nothing was refused");
  const auto file = left_behind("timm.pth.tar");
  EXPECT_THAT(fault("{optimizer: " + file + "}"), HasSubstr("init.weights names none"));
  EXPECT_THAT(fault("{weights: a, optimizer: a, part: encoder}"), HasSubstr("part: encoder"));
  EXPECT_THAT(fault("{weights: a, optimizer: a, skip_head: true}"), HasSubstr("skip_head"));
  EXPECT_THAT(fault("{step: -1}"), HasSubstr("step"));
}

}  // namespace
}  // namespace fovea::train
