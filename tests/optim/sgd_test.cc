#include "fovea/optim/sgd.h"

#include <gtest/gtest.h>

#include "tests/optim/golden_params.h"
#include "tests/support/fields_from_json.h"

namespace fovea::optim {
namespace {

class SgdTest : public testing::TestWithParam<Implementation> {};

TEST_P(SgdTest, WeightsAndMomentumAreTorchs) {
  const auto golden = support::load_golden("optimizers.safetensors");
  for (const std::string name : {"sgd_plain", "sgd_momentum", "sgd_dampened", "sgd_nesterov"}) {
    const auto config = support::config_from_json<SgdConfig>(golden.config.at("cases").at(name));
    const auto optimizer = make_sgd(config, golden_params(golden), GetParam());
    take_golden_steps(*optimizer, golden);
    EXPECT_PARITY(values_of(*optimizer), golden.group(name), at::kFloat);
    if (config.momentum > 0) {
      EXPECT_PARITY(optimizer->state(), golden.group(name + ".state"), at::kFloat);
    } else {
      EXPECT_TRUE(optimizer->state().empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, SgdTest,
                         testing::Values(Implementation::kFused, Implementation::kPlain),
                         [](const auto& info) {
                           return info.param == Implementation::kFused ? "Fused" : "Plain";
                         });

TEST(SgdConfigTest, NesterovNeedsMomentumWithoutDampening) {
  SgdConfig config;
  config.nesterov = true;
  ConfigIssues none, without_momentum, dampened;
  config.validate(none);
  EXPECT_TRUE(none.all().empty());
  config.momentum = 0;
  config.validate(without_momentum);
  EXPECT_EQ(without_momentum.all().size(), 1u);
  config.momentum = 0.9;
  config.dampening = 0.1;
  config.validate(dampened);
  EXPECT_EQ(dampened.all().size(), 1u);
}

}  // namespace
}  // namespace fovea::optim
