#include "fovea/optim/config.h"

#include <gtest/gtest.h>

#include "tests/support/close.h"

namespace fovea::optim {
namespace {

std::vector<ParamSpec> one_param() {
  return {{"a", support::random({4}, at::kFloat, 1).set_requires_grad(true)}};
}

TEST(OptimConfigTest, TheConfigChoosesTheOptimizer) {
  SgdConfig sgd_config;
  sgd_config.lr = 0.25;
  const OptimConfig adamw, sgd{sgd_config};
  EXPECT_EQ(adamw.name(), "adamw");
  EXPECT_EQ(base_lr(adamw), 1e-3);
  EXPECT_EQ(base_lr(sgd), 0.25);
  EXPECT_EQ(states_per_parameter(adamw), 2);
  EXPECT_EQ(states_per_parameter(sgd), 1);
  EXPECT_EQ(states_per_parameter({MuonConfig{}}), 1);
  EXPECT_EQ(states_per_parameter({LambConfig{}}), 2);
  EXPECT_EQ(states_per_parameter({AdafactorConfig{}}), 0);
  EXPECT_TRUE(make_optimizer({LambConfig{}}, one_param())->state().contains("exp_avg_sq/a"));
  EXPECT_TRUE(make_optimizer({AdafactorConfig{}}, one_param())->state().contains("variance/a"));
  EXPECT_TRUE(make_optimizer(adamw, one_param())->state().contains("exp_avg_sq/a"));
  EXPECT_TRUE(make_optimizer(sgd, one_param())->state().contains("momentum_buffer/a"));
}

}  // namespace
}  // namespace fovea::optim
