#include "fovea/train/step/fp8_layers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/fp8_linear.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/models/registry.h"
#include "fovea/train/bench/operation_log.h"
#include "tests/support/close.h"

namespace fovea::train {
namespace {

using support::random;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

models::ModelPtr vit_of_width(int64_t embed_dim) {
  models::VitConfig vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.embed_dim = embed_dim;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.num_classes = 16;
  return models::build_model({vit});
}

std::vector<std::string> fp8_names_of(const NamedLinears& layers) {
  std::vector<std::string> names;
  for (const auto& [name, layer] : layers) names.push_back(name);
  return names;
}

TEST(Fp8LayersTest, LayersOfBlocksWithWideRowsAreCandidates) {
  EXPECT_THAT(fp8_names_of(fp8_candidates(*vit_of_width(32))),
              ElementsAre("blocks.0.attn.qkv", "blocks.0.attn.proj", "blocks.0.mlp.fc1",
                          "blocks.0.mlp.fc2", "blocks.1.attn.qkv", "blocks.1.attn.proj",
                          "blocks.1.mlp.fc1", "blocks.1.mlp.fc2"));
  EXPECT_THAT(fp8_candidates(*vit_of_width(24)), IsEmpty());
}

// A layer by itself, and a way to train it on given numbers.
class OneFp8LayerTest : public ::testing::Test {
 protected:
  OneFp8LayerTest() {
    linear_->weight.set_data(random({48, 32}, at::kFloat, 2) * 0.02);
    linear_->bias.set_data(random({48}, at::kFloat, 3));
  }

  std::unique_ptr<Fp8Layers> make(Fp8Scale scale) {
    return std::make_unique<Fp8Layers>(NamedLinears{{"layer", linear_.get()}}, scale, at::kCPU,
                                       parallel::one_rank());
  }
  at::Tensor pass(const at::Tensor& x, const at::Tensor& dy) {
    const auto y = linear_(x);
    y.backward(dy);
    return y.detach();
  }
  static at::Tensor numbers(int64_t columns, uint64_t seed, double size = 1) {
    return random({40, columns}, at::kBFloat16, seed) * size;
  }
  // Largest values of the last step: x, weight, gradient.
  static std::vector<float> last_step(const Fp8Layers& layers) {
    const auto history = layers.state().at("history").get<std::vector<float>>();
    return {history.end() - 3, history.end()};
  }

  nn::Linear linear_{32, 48, /*has_bias=*/true, at::kCPU};
};

struct Fp8Passes {
  std::vector<at::Tensor> results;
  int64_t num_casts = 0;
};

// Two steps of three passes each; the weight changes after each step and once within one.
Fp8Passes train_layer(Fp8Scale scale, bool keeps_codes) {
  nn::Linear linear(32, 48, /*has_bias=*/true, at::kCPU);
  linear->weight.set_data(random({48, 32}, at::kFloat, 2));
  linear->bias.set_data(random({48}, at::kFloat, 3));
  Fp8Layers layers({{"layer", linear.get()}}, scale, at::kCPU, parallel::one_rank(), keeps_codes);
  OperationLog log;
  Fp8Passes passes;
  for (uint64_t pass = 0; pass < 6; ++pass) {
    const auto x = random({40, 32}, at::kBFloat16, 10 + pass).set_requires_grad(true);
    const auto y = linear(x);
    y.backward(random({40, 48}, at::kBFloat16, 20 + pass));
    passes.results.insert(passes.results.end(),
                          {y.detach(), x.grad(), linear->weight.grad().clone()});
    if (pass == 2) layers.after_step();
    const at::NoGradGuard no_grad;
    if (pass == 2 || pass == 4) linear->weight.mul_(3.3);
  }
  passes.num_casts = log.take().at("fovea::fp8_cast").calls;
  return passes;
}

TEST(Fp8LayersTest, WeightsAreCastOnceAStepWithTheSameBits) {
  for (const auto scale : {Fp8Scale::kCurrent, Fp8Scale::kDelayed}) {
    const auto kept = train_layer(scale, true), anew = train_layer(scale, false);
    for (size_t i = 0; i < anew.results.size(); ++i) {
      support::expect_same_bits(kept.results[i], anew.results[i], "result " + std::to_string(i));
    }
    // Forward and backward of six passes; and once for each of three values of the weight.
    EXPECT_EQ(anew.num_casts - kept.num_casts, 2 * 6 - 3);
  }
}

TEST_F(OneFp8LayerTest, TrainsInFp8AndEvaluatesWithout) {
  const auto x = numbers(32, 1);
  const auto plain = kernels::linear(x, linear_->weight, linear_->bias),
             rounded = kernels::fp8_linear(x, {}, linear_->weight, linear_->bias);
  EXPECT_FALSE(rounded.equal(plain));
  {
    const auto layers = make(Fp8Scale::kCurrent);
    support::expect_same_bits(linear_(x), rounded, "training");
    linear_->eval();
    support::expect_same_bits(linear_(x), plain, "evaluation");
    linear_->train();
  }
  support::expect_same_bits(linear_(x), plain, "afterwards");
}

// The transform of tensor parallel comes before, and what is behind it is in FP8.
TEST_F(OneFp8LayerTest, KeepsTransforms) {
  const auto x = numbers(32, 1);
  const kernels::HiddenActivation gelu;
  const auto expected = kernels::fp8_linear(-kernels::activate(x, gelu), {}, linear_->weight, {});
  linear_->input_transform = [](const at::Tensor& given) { return -given; };
  linear_->output_transform = [](const at::Tensor& given) { return given * 2; };
  const auto layers = make(Fp8Scale::kCurrent);
  support::expect_same_bits(linear_(x, gelu), expected * 2 + linear_->bias.to(at::kBFloat16), "y");
}

// However a step is cut, and what of it is run again, the largest values are the same.
TEST_F(OneFp8LayerTest, AStepIsWhatAllItsPassesSaw) {
  const auto x = numbers(32, 1), dy = numbers(48, 4);
  const auto whole = make(Fp8Scale::kDelayed);
  pass(x, dy);
  whole->after_step();
  EXPECT_THAT(last_step(*whole),
              ElementsAre(x.abs().max().item<float>(), linear_->weight.abs().max().item<float>(),
                          dy.abs().max().item<float>()));
  const auto expected = whole->state();
  const auto cut = make(Fp8Scale::kDelayed);
  for (const int64_t begin : {30, 0, 0, 15}) {
    const int64_t count = begin == 30 ? 10 : 15;
    pass(x.narrow(0, begin, count), dy.narrow(0, begin, count));
  }
  cut->after_step();
  EXPECT_EQ(cut->state(), expected);
}

TEST_F(OneFp8LayerTest, ScalesAreCurrentUntilTheHistoryIsFullAndThenOfTheLargestInIt) {
  linear_->bias.set_data(at::zeros({48}));  // beside it what is small would be lost
  const auto layers = make(Fp8Scale::kDelayed);
  const auto x = numbers(32, 1), dy = numbers(48, 4), weight = linear_->weight.detach();
  const auto current = kernels::fp8_linear(x, {}, weight, linear_->bias.detach());
  const auto largest = [](const at::Tensor& tensor, double factor) {
    return kernels::Fp8Scaling{.past = tensor.to(at::kFloat).abs().max().view({1}) * factor};
  };
  // A small x beside what was seen before: its least numbers show the scale.
  const auto small = x * 0x1p-14;
  pass(x * 64, dy);
  layers->after_step();
  for (int64_t step = 1; step < kFp8History; ++step) {
    support::expect_same_bits(pass(x, dy), current, "while there is no history");
    layers->after_step();
  }
  const auto with_scale_of = [&](const at::Tensor& of) {
    return kernels::fp8_linear(small, {}, weight, linear_->bias.detach(),
                               {.x = largest(of, 1), .weight = largest(weight, 1), .gradient = {}});
  };
  EXPECT_FALSE(with_scale_of(x * 64).equal(with_scale_of(x)));
  support::expect_same_bits(pass(small, dy), with_scale_of(x * 64), "64 x is in the history");
  layers->after_step();
  support::expect_same_bits(pass(small, dy), with_scale_of(x), "64 x is not any more");
}

TEST_F(OneFp8LayerTest, WhatIsNotFiniteIsNotRemembered) {
  const auto layers = make(Fp8Scale::kDelayed);
  const auto x = numbers(32, 1), dy = numbers(48, 4);
  x[3][4] = std::numeric_limits<float>::infinity();
  dy[5][6] = std::numeric_limits<float>::quiet_NaN();
  pass(x, dy);
  layers->after_step();
  EXPECT_THAT(last_step(*layers), ElementsAre(0, linear_->weight.abs().max().item<float>(), 0));
}

TEST_F(OneFp8LayerTest, AResumedHistoryIsTheSame) {
  const auto layers = make(Fp8Scale::kDelayed);
  for (uint64_t step = 0; step < 20; ++step) {
    pass(numbers(32, step, 0.1 * static_cast<double>(step)), numbers(48, 100 + step));
    layers->after_step();
  }
  const auto text = layers->state().dump();
  const auto x = numbers(32, 500, 0.01), dy = numbers(48, 501, 0.01);
  const auto expected = pass(x, dy);
  const auto resumed = make(Fp8Scale::kDelayed);
  EXPECT_NE(resumed->state().dump(), text);
  resumed->load_state(nlohmann::json::parse(text));
  EXPECT_EQ(resumed->state().dump(), text);
  support::expect_same_bits(pass(x, dy), expected, "y");
}

TEST_F(OneFp8LayerTest, StatesOfOtherLayersStartAnewAndDamagedOnesAreNamed) {
  const auto layers = make(Fp8Scale::kDelayed);
  pass(numbers(32, 1), numbers(48, 2));
  layers->after_step();
  const auto state = layers->state();
  const auto fresh = make(Fp8Scale::kDelayed);
  const auto empty = fresh->state();
  auto other = state;
  other["layers"] = {"another"};
  fresh->load_state(other);
  fresh->load_state(make(Fp8Scale::kCurrent)->state());
  EXPECT_EQ(fresh->state(), empty);
  const auto fault = [&](const nlohmann::json& damaged) -> std::string {
    try {
      fresh->load_state(damaged);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "";
  };
  auto damaged = state;
  damaged["history"] = {1.0, 2.0};
  EXPECT_THAT(fault(damaged), HasSubstr("2 numbers of 1 steps; expected 48"));
  damaged["history"] = "words";
  EXPECT_THAT(fault(damaged), HasSubstr("is damaged"));
  damaged = state;
  damaged.erase("layers");
  EXPECT_THAT(fault(damaged), HasSubstr("expected the names of layers"));
}

}  // namespace
}  // namespace fovea::train
