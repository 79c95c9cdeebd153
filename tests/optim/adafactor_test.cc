#include "fovea/optim/adafactor.h"

#include <gtest/gtest.h>

#include "tests/optim/ten_steps.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

TEST(AdafactorTest, WeightsAndMomentsAreTorchs) {
  const auto golden = support::load_golden("adafactor.safetensors");
  for (const auto& [name, options] : golden.config.at("cases").items()) {
    const auto config = support::config_from_json<AdafactorConfig>(options);
    const auto optimizer = make_adafactor(config, golden_params(golden));
    take_golden_steps(*optimizer, golden, 0, 100, options.value("lr_factor", 1.0));
    EXPECT_PARITY(values_of(*optimizer), golden.group(name), at::kFloat);
    EXPECT_PARITY(optimizer->state(), golden.group(name + ".state"), at::kFloat);
  }
}

TEST(AdafactorTest, GoesOnFromSavedMomentsBitForBit) {
  const auto golden = support::load_golden("adafactor.safetensors");
  expect_same_after_resume(
      golden, [](std::vector<ParamSpec> params) { return make_adafactor({}, std::move(params)); });
}

TEST(AdafactorTest, TenStepsAreTorchs) {
  expect_ten_steps<AdafactorConfig>("adafactor_ten_steps.safetensors");
}

TEST(AdafactorTest, DoesNotDependOnTheNumberOfThreads) {
  support::expect_same_bits_for_any_threads([] {
    return two_steps_of_large_params(
        [](std::vector<ParamSpec> params) { return make_adafactor({}, std::move(params)); });
  });
}

}  // namespace
}  // namespace fovea::optim
