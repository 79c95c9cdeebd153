// Everything of an optimizer step together, against torch and timm: AdamW with groups and layer
// decay, a cosine schedule with warm-up beyond its end, clipping, the moving average.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "fovea/models/vit.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/param_groups.h"
#include "tests/optim/golden_params.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::optim {
namespace {

TEST(TenStepsTest, LossesWeightsAndAverageAreTimms) {
  const auto golden = support::load_golden("ten_steps.safetensors");
  const auto& config = golden.config;
  models::Vit model(support::config_from_json<models::VitConfig>(config.at("vit")));
  load_start(model, golden);
  AdamWConfig adamw = support::config_from_json<AdamWConfig>(config);
  const auto optimizer = make_optimizer({adamw}, param_groups(model, OptimConfig{adamw}));
  const Schedule schedule({support::config_from_json<CosineScheduleConfig>(config)}, adamw.lr, 10);
  Ema ema(*optimizer, {.decay = config.at("ema_decay"), .warmup = true});

  const auto losses = at::empty({10}, at::kDouble), grad_norms = at::empty({10}, at::kDouble);
  for (int64_t step = 0; step < 10; ++step) {
    const auto logits = model.forward(golden.at("images")[step]);
    const auto loss =
        at::cross_entropy_loss(logits, golden.at("labels")[step], {}, at::Reduction::Mean, -100,
                               config.at("label_smoothing"));
    optimizer->zero_grad();
    loss.backward();
    losses[step] = loss.item<double>();
    grad_norms[step] = clip_gradients(*optimizer, config.at("max_grad_norm"));
    optimizer->step(schedule.lr(step));
    ema.update(step);
  }
  support::expect_close(losses, golden.at("losses"), at::kFloat, "losses");
  support::expect_close(grad_norms, golden.at("grad_norms"), at::kFloat, "gradient norms");
  EXPECT_PARITY(values_of(*optimizer), golden.group("final"), at::kFloat);
  EXPECT_PARITY(ema.state(), golden.group("ema"), at::kFloat);
}

}  // namespace
}  // namespace fovea::optim
