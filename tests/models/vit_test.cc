#include "fovea/models/vit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include "tests/support/close.h"

namespace fovea::models {
namespace {

VitConfig small() {
  VitConfig config;
  config.img_size = {16};
  config.patch_size = {4};
  config.in_chans = 1;
  config.num_classes = 3;
  config.embed_dim = 32;
  config.depth = 1;
  config.num_heads = 2;
  return config;
}

TEST(VitTest, LearnsAFixedBatch) {
  Vit model(small());
  model.init_weights(1);
  const auto images = support::random({6, 1, 16, 16}, at::kFloat, 1);
  const auto labels = at::arange(6) % 3;
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 100; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(images), labels);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad() * 0.1);
  }
  EXPECT_NEAR(first, std::log(3.0), 0.5);
  EXPECT_LT(last, 0.5 * first);
}

}  // namespace
}  // namespace fovea::models
