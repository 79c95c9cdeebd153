#include "fovea/optim/ema.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fovea/core/error.h"
#include "fovea/optim/sgd.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::optim {
namespace {

std::unique_ptr<Optimizer> two_params() {
  std::vector<ParamSpec> params;
  for (const std::string name : {"a", "b"}) {
    params.push_back({name, support::random({5, 3}, at::kFloat, 1).set_requires_grad(true)});
  }
  return make_sgd({}, params);
}

TEST(EmaTest, DecaysAreTimms) {
  const auto document =
      nlohmann::json::parse(std::ifstream(support::golden_path("schedules.json")));
  for (const auto& expected : document.at("ema")) {
    const auto& values = expected.at("options");
    const EmaOptions options{.decay = values.at("decay"),
                             .warmup = values.value("use_warmup", false)};
    const auto decays = expected.at("decays").get<std::vector<double>>();
    for (size_t step = 0; step < decays.size(); ++step) {
      ASSERT_NEAR(ema_decay(options, static_cast<int64_t>(step)), decays[step], 1e-15)
          << values << " at " << step;
    }
  }
}

TEST(EmaTest, AveragesTheWeights) {
  const auto optimizer = two_params();
  Ema ema(*optimizer, {.decay = 0.75});
  const auto param = optimizer->flat_param();
  auto expected = param.clone();
  for (int64_t step = 0; step < 5; ++step) {
    param.add_(static_cast<double>(step + 1));
    ema.update(step);
    expected = step == 0 ? param.clone() : 0.75 * expected + 0.25 * param;
  }
  support::expect_close(ema.state().at("b").flatten(), expected.narrow(0, 16, 15), at::kFloat, "b");
}

// Of batches that have grown a step counts for several.
TEST(EmaTest, CountsItsWarmupAsItIsTold) {
  const auto optimizer = two_params();
  const EmaOptions options{.decay = 0.99, .warmup = true};
  Ema ema(*optimizer, options);
  ema.count_warmup([](int64_t step) { return 1.5 * static_cast<double>(step); });
  StepExtras extras;
  for (int64_t step = 0; step < 4; ++step) {
    ema.join(step, extras);
    const double counted = 1.5 * static_cast<double>(step);
    EXPECT_EQ(extras.average_weight, 1 - ema_decay(options, counted + 1));
  }
  EXPECT_NEAR(extras.average_weight, std::pow(5.5, -2.0 / 3), 1e-15);
}

TEST(EmaTest, SwapsInAndOut) {
  const auto optimizer = two_params();
  const auto weights = optimizer->params()[0].param;
  Ema ema(*optimizer, {.decay = 0.75});
  const auto average = weights.detach().clone();
  optimizer->flat_param().add_(1);
  const auto trained = weights.detach().clone();
  {
    const EmaScope scope(&ema);
    support::expect_same_bits(weights.detach(), average, "in");
    EXPECT_THROW(ema.update(1), Error);
    EXPECT_THROW(ema.state(), Error);
  }
  support::expect_same_bits(weights.detach(), trained, "out");
  support::expect_same_bits(ema.state().at("a"), average, "average");
  const EmaScope none(nullptr);
}

TEST(EmaTest, LoadsWhatItSaved) {
  const auto optimizer = two_params();
  Ema ema(*optimizer, {});
  auto saved = ema.state();
  for (auto& [name, tensor] : saved) tensor = tensor + 3;
  ema.load_state(saved);
  support::expect_same_bits(ema.state().at("a"), saved.at("a"), "a");
  saved.erase("a");
  EXPECT_THROW(ema.load_state(saved), CheckpointError);
}

}  // namespace
}  // namespace fovea::optim
