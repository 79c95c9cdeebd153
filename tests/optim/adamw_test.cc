#include "fovea/optim/adamw.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/optim/golden_params.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

AdamWConfig config_of(const support::Golden& golden, const std::string& name) {
  const auto& options = golden.config.at("cases").at(name);
  AdamWConfig config;
  config.betas = options.at("betas").get<std::vector<double>>();
  config.eps = options.at("eps");
  return config;
}

class AdamWTest : public testing::TestWithParam<Implementation> {};

TEST_P(AdamWTest, WeightsAndMomentsAreTorchs) {
  const auto golden = support::load_golden("optimizers.safetensors");
  for (const std::string name : {"adamw", "adamw_other"}) {
    const auto optimizer = make_adamw(config_of(golden, name), golden_params(golden), GetParam());
    take_golden_steps(*optimizer, golden);
    EXPECT_EQ(optimizer->steps_taken(), 7);
    EXPECT_PARITY(values_of(*optimizer), golden.group(name), at::kFloat);
    EXPECT_PARITY(optimizer->state(), golden.group(name + ".state"), at::kFloat);
  }
}

TEST_P(AdamWTest, GoesOnFromSavedMomentsBitForBit) {
  const auto golden = support::load_golden("optimizers.safetensors");
  const auto config = config_of(golden, "adamw");
  expect_same_after_resume(golden, [&](std::vector<ParamSpec> params) {
    return make_adamw(config, std::move(params), GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(Implementations, AdamWTest,
                         testing::Values(Implementation::kFused, Implementation::kPlain),
                         [](const auto& info) {
                           return info.param == Implementation::kFused ? "Fused" : "Plain";
                         });

TEST(AdamWFusedTest, DoesNotDependOnTheNumberOfThreads) {
  const auto golden = support::load_golden("optimizers.safetensors");
  support::expect_same_bits_for_any_threads([&] {
    std::vector<ParamSpec> params;
    for (int i = 0; i < 3; ++i) {
      auto big = golden.at("start/weight").repeat({11, 3}).set_requires_grad(true);
      params.push_back({"p" + std::to_string(i), big, 1.0, 0.1 * i});
    }
    const auto optimizer = make_adamw({}, params);
    for (int step = 0; step < 3; ++step) {
      optimizer->flat_grad().copy_(optimizer->flat_param());
      optimizer->step(1e-2);
    }
    return std::vector<at::Tensor>{optimizer->flat_param()};
  });
}

TEST(AdamWConfigTest, RefusesBetasThatAreNotTwoSharesBelowOne) {
  AdamWConfig config;
  for (const auto& betas : {std::vector<double>{0.9}, {0.9, 1.0}, {-0.1, 0.9}, {0.9, 0.9, 0.9}}) {
    config.betas = betas;
    ConfigIssues issues;
    config.validate(issues);
    ASSERT_EQ(issues.all().size(), 1u);
    EXPECT_EQ(issues.all()[0].key, "betas");
  }
}

TEST(AdamWStateTest, RefusesTheStateOfAnotherModel) {
  const auto golden = support::load_golden("optimizers.safetensors");
  const auto optimizer = make_adamw({}, golden_params(golden));
  const auto state = optimizer->state();
  auto missing = state;
  missing.erase("exp_avg/bias");
  EXPECT_THROW(optimizer->load_state(missing, 1), CheckpointError);
  auto unknown = state;
  unknown["exp_avg/other"] = state.at("exp_avg/bias");
  EXPECT_THROW(optimizer->load_state(unknown, 1), CheckpointError);
  auto reshaped = state;
  reshaped["exp_avg/bias"] = state.at("exp_avg/weight");
  EXPECT_THROW(optimizer->load_state(reshaped, 1), CheckpointError);
  EXPECT_THROW(optimizer->load_state(state, -1), CheckpointError);
  EXPECT_EQ(optimizer->steps_taken(), 0);
}

}  // namespace
}  // namespace fovea::optim
