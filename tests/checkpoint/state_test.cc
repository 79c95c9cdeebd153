#include "fovea/checkpoint/state.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

class Layer : public torch::nn::Module {
 public:
  Layer() {
    weight = register_parameter("weight", at::zeros({3, 5}));
    bias = register_parameter("bias", at::zeros({5}));
  }
  at::Tensor weight, bias;
};

TEST(StateTest, CopiesIntoTheLeavesOfAModel) {
  Layer layer;
  const auto* data = layer.weight.data_ptr();
  copy_into(layer, state_of(4).model);
  EXPECT_EQ(layer.weight.data_ptr(), data);
  EXPECT_EQ(layer.weight.sum().item<double>(), 60);
}

TEST(StateTest, RefusesAnotherModelsStateAndCopiesNothing) {
  Layer layer;
  auto missing = state_of(4).model, unknown = missing, reshaped = missing;
  missing.erase("weight");
  unknown["head"] = at::zeros({1});
  reshaped["weight"] = at::zeros({5, 3});
  for (const auto& saved : {missing, unknown, reshaped}) {
    EXPECT_THROW(copy_into(layer, saved), CheckpointError);
    EXPECT_EQ(layer.bias.sum().item<double>(), 0);
  }
}

}  // namespace
}  // namespace fovea::checkpoint
