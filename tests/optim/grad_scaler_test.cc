#include "fovea/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "tests/support/golden.h"

namespace fovea::optim {
namespace {

GradScalerConfig scaler_config_of(const nlohmann::json& options) {
  GradScalerConfig config;
  config.init_scale = options.value("init_scale", config.init_scale);
  config.growth_factor = options.value("growth_factor", config.growth_factor);
  config.backoff_factor = options.value("backoff_factor", config.backoff_factor);
  config.growth_interval = options.value("growth_interval", config.growth_interval);
  return config;
}

// Half-way the scaler is replaced by one with its state, as a resumed run has it.
TEST(GradScalerTest, ScalesAreTorchsAlsoAfterAResume) {
  const auto golden = support::load_golden("grad_scaler.safetensors");
  ASSERT_EQ(golden.config.size(), 4u);
  for (const auto& [name, options] : golden.config.items()) {
    const auto is_finite = golden.tensors.at(name + "/is_finite");
    const auto expected = golden.tensors.at(name + "/scale");
    const auto steps = expected.size(0);
    ASSERT_EQ(steps, 60);
    auto scaler = std::make_unique<GradScaler>(scaler_config_of(options));
    int64_t skipped = 0;
    for (int64_t step = 0; step < steps; ++step) {
      if (step == steps / 2) {
        const auto state = nlohmann::json::parse(scaler->state().dump());
        scaler = std::make_unique<GradScaler>(scaler_config_of(options));
        scaler->load_state(state);
      }
      const bool finite = is_finite[step].item<int64_t>() != 0;
      scaler->update(finite);
      skipped += !finite;
      EXPECT_EQ(scaler->scale(), expected[step].item<double>()) << name << ", step " << step;
      EXPECT_EQ(scaler->num_skipped(), skipped);
    }
  }
}

TEST(GradScalerTest, SumsAreScaledByThePowerOfTwoNextToTheirWeight) {
  GradScaler scaler({});
  EXPECT_FALSE(scaler.knows_weight());
  for (const auto& [weight, divisor] : {std::pair(256.0, 256.0), {200.0, 256.0}, {0.3, 0.25}}) {
    scaler.expect_weight(weight);
    EXPECT_TRUE(scaler.knows_weight());
    EXPECT_EQ(scaler.factor_of_sums(), 65536 / divisor);
  }
}

TEST(GradScalerTest, EndsBelowItsLimitAndRefusesAStateThatIsNone) {
  GradScaler scaler({.init_scale = 4, .min_scale = 2});
  scaler.update(false);
  EXPECT_FALSE(scaler.is_below_limit());
  scaler.update(false);
  EXPECT_TRUE(scaler.is_below_limit());
  EXPECT_THROW(scaler.load_state({{"scale", 4}}), CheckpointError);
  EXPECT_THROW(scaler.load_state({{"scale", "four"}}), CheckpointError);
}

}  // namespace
}  // namespace fovea::optim
