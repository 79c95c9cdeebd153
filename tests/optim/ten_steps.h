// Ten steps of a tiny ViT with a schedule and clipping, as tools/golden/ten_steps.py took them.
#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>

#include <string>

#include "fovea/models/vit.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/param_groups.h"
#include "fovea/optim/schedules.h"
#include "tests/optim/golden_params.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"

namespace fovea::optim {

template <class Config>
void expect_ten_steps(const std::string& file) {
  const auto golden = support::load_golden(file);
  const auto& config = golden.config;
  models::Vit model(support::config_from_json<models::VitConfig>(config.at("vit")));
  load_start(model, golden);
  const auto own = support::config_from_json<Config>(config);
  const auto optimizer = make_optimizer({own}, param_groups(model, OptimConfig{own}));
  const Schedule schedule({support::config_from_json<CosineScheduleConfig>(config)}, own.lr, 10);
  const auto losses = at::empty({10}, at::kDouble), grad_norms = at::empty({10}, at::kDouble);
  for (int64_t step = 0; step < 10; ++step) {
    const auto logits = model.forward(golden.at("images")[step]);
    const auto loss = at::cross_entropy_loss(logits, golden.at("labels")[step]);
    optimizer->zero_grad();
    loss.backward();
    losses[step] = loss.template item<double>();
    grad_norms[step] = clip_gradients(*optimizer, config.at("max_norm"));
    optimizer->step(schedule.lr(step));
  }
  support::expect_close(losses, golden.at("losses"), at::kFloat, "losses");
  support::expect_close(grad_norms, golden.at("grad_norms"), at::kFloat, "gradient norms");
  EXPECT_PARITY(values_of(*optimizer), golden.group("final"), at::kFloat);
  EXPECT_PARITY(optimizer->state(), golden.group("state"), at::kFloat);
}

// Three parameters over several tiles, and small ones, updated twice: the flat buffer after that.
template <class Make>
std::vector<at::Tensor> two_steps_of_large_params(const Make& make) {
  std::vector<ParamSpec> params;
  for (const auto& shape : {std::vector<int64_t>{300, 700}, {40000}, {6, 50, 20, 30}, {150, 90}}) {
    const auto i = params.size();
    auto value = support::random(shape, at::kFloat, i + 1).set_requires_grad(true);
    params.push_back({"blocks." + std::to_string(i) + ".weight", value, 1.0, 0.1});
  }
  const auto optimizer = make(params);
  for (int step = 0; step < 2; ++step) {
    optimizer->flat_grad().copy_(optimizer->flat_param() * 0.3);
    optimizer->step(1e-2);
  }
  return {optimizer->flat_param()};
}

}  // namespace fovea::optim
