#include "fovea/optim/muon.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/optim/ten_steps.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

class MuonTest : public testing::TestWithParam<Implementation> {};

TEST_P(MuonTest, WeightsAndMomentsAreTorchs) {
  const auto golden = support::load_golden("muon.safetensors");
  for (const auto& [name, options] : golden.config.at("cases").items()) {
    const auto config = support::config_from_json<MuonConfig>(options);
    const auto optimizer = make_muon(config, golden_params(golden), GetParam());
    take_golden_steps(*optimizer, golden);
    EXPECT_PARITY(values_of(*optimizer), golden.group(name), at::kFloat);
    EXPECT_PARITY(optimizer->state(), golden.group(name + ".state"), at::kFloat);
  }
}

TEST_P(MuonTest, GoesOnFromSavedMomentsBitForBit) {
  const auto golden = support::load_golden("muon.safetensors");
  expect_same_after_resume(golden, [](std::vector<ParamSpec> params) {
    return make_muon({}, std::move(params), GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(Implementations, MuonTest,
                         testing::Values(Implementation::kFused, Implementation::kPlain),
                         [](const auto& info) {
                           return info.param == Implementation::kFused ? "Fused" : "Plain";
                         });

TEST(MuonTenStepsTest, LossesWeightsAndMomentsAreTorchs) {
  expect_ten_steps<MuonConfig>("muon_ten_steps.safetensors");
}

TEST(MuonThreadsTest, DoesNotDependOnTheNumberOfThreads) {
  // Large enough for several blocks of the products and several tiles of AdamW.
  const auto wide = support::random({300, 700}, at::kFloat, 1);
  const auto tall = support::random({1100, 260}, at::kFloat, 2);
  const auto small = support::random({150, 90}, at::kFloat, 4);
  const auto table = support::random({400, 150}, at::kFloat, 3);
  support::expect_same_bits_for_any_threads([&] {
    std::vector<ParamSpec> params = {{"blocks.0.a.weight", wide.clone().set_requires_grad(true)},
                                     {"blocks.0.b.weight", tall.clone().set_requires_grad(true)},
                                     {"blocks.0.c.weight", small.clone().set_requires_grad(true)},
                                     {"blocks.0.d.weight", (-small).set_requires_grad(true)},
                                     {"table", table.clone().set_requires_grad(true)}};
    const auto optimizer = make_muon({}, params);
    for (int step = 0; step < 2; ++step) {
      optimizer->flat_grad().copy_(optimizer->flat_param());
      optimizer->step(1e-2);
    }
    return std::vector<at::Tensor>{optimizer->flat_param()};
  });
}

TEST(MuonConfigTest, RefusesPatternsThatMatchNoMatrix) {
  MuonConfig config;
  config.matrices = {"*.blocks.*.weight", "head.bias"};
  std::vector<ParamSpec> params = {{"head.bias", support::random({4}, at::kFloat, 1)},
                                   {"head.weight", support::random({4, 4}, at::kFloat, 2)}};
  for (auto& spec : params) spec.param.set_requires_grad(true);
  EXPECT_THROW(make_muon(config, params), ConfigError);
  config.matrices = {"head.*"};
  const auto state = make_muon(config, params)->state();
  EXPECT_EQ(state.size(), 3u);
  EXPECT_TRUE(state.contains("momentum_buffer/head.weight"));
  EXPECT_TRUE(state.contains("exp_avg_sq/head.bias"));
}

TEST(MuonConfigTest, ReportsAnEmptyListAndBetasOutOfRange) {
  MuonConfig config;
  config.matrices = {};
  config.betas = {0.9, 1.0};
  ConfigIssues issues;
  config.validate(issues);
  EXPECT_EQ(issues.all().size(), 2u);
}

}  // namespace
}  // namespace fovea::optim
