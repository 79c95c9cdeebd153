// The state that convert takes along: what torch does with it, and a run that goes on from it.
#include "apps/fovea/commands/convert_state.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/fovea/commands/convert_load.h"
#include "fovea/core/error.h"
#include "fovea/train/run/take_over.h"
#include "fovea/train/session.h"
#include "fovea/train/state/sharding.h"
#include "fovea/weights/dcp_writer.h"
#include "fovea/weights/torch_writer.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/support/python.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::app {
namespace {

using data::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using train::TrainConfig;

class ConvertStateTest : public ::testing::Test {
 protected:
  ConvertStateTest() : config_(train::testing::tiny_config(folder_)) {
    config_.trainer.max_steps = 3;
    config_.data.val = {};
  }

  // Each with settings that are not torch's own.
  static std::vector<optim::OptimConfig> optimizers() {
    optim::AdamWConfig adamw;
    adamw.betas = {0.8, 0.95};
    optim::AdamWConfig by_layer = adamw;
    by_layer.layer_decay = 0.7;
    optim::SgdConfig sgd;
    sgd.lr = 0.01;
    sgd.momentum = 0.8;
    sgd.weight_decay = 0.02;
    optim::SgdConfig plain = sgd;
    plain.momentum = 0;
    optim::LambConfig lamb;
    lamb.max_grad_norm = 0.5;
    optim::MuonConfig muon;
    muon.momentum = 0.9;
    return {{adamw}, {by_layer}, {sgd}, {plain}, {lamb}, {optim::AdafactorConfig{}}, {muon}};
  }

  // A run of three steps, as a file and as a folder.
  TrainConfig run_with(const optim::OptimConfig& optimizer, const std::string& name) {
    auto config = config_;
    config.optim = optimizer;
    config.run.dir = folder_.file(name);
    train::testing::fit(config);
    for (const bool is_folder : {false, true}) convert(config, is_folder);
    return config;
  }
  static std::string target_of(const TrainConfig& config, bool is_folder) {
    return config.run.dir + (is_folder ? "_dcp" : ".pt");
  }
  static void convert(const TrainConfig& config, bool is_folder) {
    ConvertArguments arguments;
    arguments.source = config.run.dir;
    arguments.target = target_of(config, is_folder);
    arguments.optimizer = true;
    if (is_folder) arguments.to = "dcp";
    const auto loaded = load_source(arguments);
    const auto dict = saved_dict(arguments, weights::naming_named("timm"), loaded.tensors,
                                 *loaded.state, loaded.num_heads);
    if (is_folder) {
      weights::write_dcp_folder(arguments.target, dict);
    } else {
      weights::write_torch_file(arguments.target, weights::TorchObject(dict));
    }
  }

  // The model and optimizer that begin with what `config.init` names.
  struct Taken {
    explicit Taken(const TrainConfig& config)
        : model(train::make_model(config, {})), optimizer(train::make_optimizer(config, *model)) {
      step = train::take_over_run(config, *model, *optimizer, nullptr);
    }
    // One step whose gradients are as in optimizer_check.py.
    support::NamedTensors next_weights(double lr) const {
      {
        const at::NoGradGuard no_grad;
        optimizer->zero_grad();
        for (const auto& spec : optimizer->params())
          spec.param.grad().copy_((spec.param + 1) * 0.01);
      }
      optimizer->step(lr);
      support::NamedTensors weights;
      for (const auto& spec : optimizer->params()) weights[spec.name] = spec.param.detach();
      return weights;
    }

    models::ModelPtr model;
    std::unique_ptr<optim::Optimizer> optimizer;
    int64_t step = 0;
  };

  data::testing::TempDir folder_;
  TrainConfig config_;
  int next_ = 0;  // number of the next run
};

// File and folder give the state of the run itself, bit for bit.
TEST_F(ConvertStateTest, ARunGoesOnFromWhatWasWritten) {
  for (const auto& optimizer : optimizers()) {
    SCOPED_TRACE(optimizer.name());
    auto config = run_with(optimizer, fmt::format("run{}", next_++));
    auto own = config;
    own.init.optimizer = config.run.dir;
    const Taken expected(own);
    EXPECT_EQ(expected.step, 3);
    for (const bool is_folder : {false, true}) {
      config.init.weights = config.init.optimizer = target_of(config, is_folder);
      const Taken taken(config);
      EXPECT_EQ(taken.step, 3);
      EXPECT_EQ(taken.optimizer->steps_taken(), expected.optimizer->steps_taken());
      const auto moments = expected.optimizer->state();
      EXPECT_EQ(taken.optimizer->state().size(), moments.size());
      for (const auto& [key, tensor] : taken.optimizer->state())
        support::expect_same_bits(tensor, moments.at(key), key);
      const auto weights = expected.model->named_parameters();
      for (const auto& item : taken.model->named_parameters())
        support::expect_same_bits(item.value(), weights[item.key()], item.key());
    }
  }
}

// torch loads both, and its next step is the next step here.
TEST_F(ConvertStateTest, TorchGoesOnFromWhatWasWritten) {
  const auto python = support::python();
  if (python.empty() ||
      support::run_command(python + " -c 'import torch, timm, safetensors' 2>&1").status != 0)
    GTEST_SKIP() << "set FOVEA_PYTHON to a Python with torch, timm and safetensors";
  for (const auto& optimizer : optimizers()) {
    const auto number = next_++;
    const std::string kind(optimizer.name());
    SCOPED_TRACE(fmt::format("{} {}", number, kind));
    const auto config = run_with(optimizer, fmt::format("run{}", number));
    const auto next = folder_.file(fmt::format("next{}.safetensors", number));
    const auto result = support::run_command(fmt::format(
        "{} {}/tests/app_units/optimizer_check.py {} {} {} {} 2>&1", python, FOVEA_SOURCE_DIR,
        target_of(config, false), target_of(config, true), next, kind));
    ASSERT_EQ(result.status, 0) << result.output;
    auto own = config;
    own.init.optimizer = config.run.dir;
    const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim), 3);
    support::NamedTensors expected;
    for (const auto& [name, tensor] : nn::read_tensor_file(next)) expected[name] = tensor;
    EXPECT_PARITY(Taken(own).next_weights(schedule.lr(3)), expected, at::kFloat);
  }
}

TEST_F(ConvertStateTest, SaysWhatItHasAndRefusesWhatItHasNot) {
  config_.trainer.ema = {.enabled = true, .decay = 0.9};
  const auto config = run_with(config_.optim, "run");
  ConvertArguments arguments;
  arguments.source = target_of(config, false);
  arguments.target = folder_.file("out");
  arguments.to = "dcp";
  const auto loaded = load_source(arguments);  // from a file to a folder: without being asked
  ASSERT_TRUE(loaded.state.has_value());
  EXPECT_THAT(loaded.state->text(),
              AllOf(HasSubstr("AdamW after 3 steps, "), HasSubstr("in 2 groups"),
                    HasSubstr("averaged weights under \"state_dict_ema\""), HasSubstr("; step")));
  arguments.weights_only = true;
  EXPECT_FALSE(load_source(arguments).state.has_value());
  const auto fault = [&](auto change) {
    auto other = arguments;
    other.weights_only = false;
    other.optimizer = true;
    change(other);
    return message_of<ConfigError>([&] { load_source(other); });
  };
  EXPECT_THAT(fault([](auto& a) { a.weights_only = true; }), HasSubstr("--weights-only"));
  EXPECT_THAT(fault([](auto& a) { a.skip_head = true; }), HasSubstr("--skip-head"));
  EXPECT_THAT(fault([](auto& a) { a.key = "state_dict_ema"; }), HasSubstr("not to their average"));
  EXPECT_THAT(fault([](auto& a) {
                a.to = "timm";
                a.target = "out.safetensors";
              }),
              HasSubstr("expected a name that ends in .pt"));
  EXPECT_THAT(fault([](auto& a) { a.source = "vit_tiny_patch16_224"; }),
              HasSubstr("no run and no checkpoint of one"));
  EXPECT_THAT(fault([&](auto& a) { a.source = config.run.dir + "/weights.safetensors"; }),
              HasSubstr("no run and no checkpoint of one"));
}

}  // namespace
}  // namespace fovea::app
