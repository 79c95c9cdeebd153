#include "fovea/optim/lamb.h"

#include <gtest/gtest.h>

#include "tests/optim/ten_steps.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

class LambTest : public testing::TestWithParam<Implementation> {};

TEST_P(LambTest, WeightsAndMomentsAreTimms) {
  const auto golden = support::load_golden("lamb.safetensors");
  for (const auto& [name, options] : golden.config.at("cases").items()) {
    const auto config = support::config_from_json<LambConfig>(options);
    const auto optimizer = make_lamb(config, golden_params(golden), GetParam());
    take_golden_steps(*optimizer, golden);
    EXPECT_PARITY(values_of(*optimizer), golden.group(name), at::kFloat);
    EXPECT_PARITY(optimizer->state(), golden.group(name + ".state"), at::kFloat);
  }
}

TEST_P(LambTest, GoesOnFromSavedMomentsBitForBit) {
  const auto golden = support::load_golden("lamb.safetensors");
  expect_same_after_resume(golden, [](std::vector<ParamSpec> params) {
    return make_lamb({}, std::move(params), GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(Implementations, LambTest,
                         testing::Values(Implementation::kFused, Implementation::kPlain),
                         [](const auto& info) {
                           return info.param == Implementation::kFused ? "Fused" : "Plain";
                         });

TEST(LambTenStepsTest, LossesWeightsAndMomentsAreTimms) {
  expect_ten_steps<LambConfig>("lamb_ten_steps.safetensors");
}

TEST(LambThreadsTest, DoesNotDependOnTheNumberOfThreads) {
  support::expect_same_bits_for_any_threads([] {
    return two_steps_of_large_params(
        [](std::vector<ParamSpec> params) { return make_lamb({}, std::move(params)); });
  });
}

TEST(LambConfigTest, RefusesBetasOutOfRange) {
  LambConfig config;
  config.betas = {0.9, 1.0};
  ConfigIssues issues;
  config.validate(issues);
  EXPECT_EQ(issues.all().size(), 1u);
}

}  // namespace
}  // namespace fovea::optim
