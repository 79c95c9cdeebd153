#include "fovea/kernels/saved_activation.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/elementwise/residual.h"
#include "fovea/kernels/linear/batched_product.h"
#include "fovea/kernels/linear/linear.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/product_rows.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using kernels::save_activation;
using support::random;
using Inputs = std::vector<at::Tensor>;

// While alive, activations are saved so.
struct SavedAs {
  explicit SavedAs(const char* name) { kernels::choose_saved_activations(name); }
  ~SavedAs() { kernels::choose_saved_activations("full"); }
};

at::Tensor float_of(const std::vector<int64_t>& shape, uint64_t seed) {
  return random(shape, at::kFloat, seed);
}

at::Tensor mlp(const Inputs& in, const kernels::HiddenActivation& activation) {
  kernels::NormedInput made_of;
  const auto y = kernels::layer_norm(in[0], in[1], in[2], 1e-6, &made_of);
  const auto hidden = kernels::linear_to_activation({y, made_of}, activation, in[3], in[4]);
  return kernels::linear_of_activation(hidden, activation, in[5], {}, in[0]);
}
Inputs inputs_of_mlp(int64_t hidden, int64_t activated) {
  return {float_of({3, 11, 20}, 1),  float_of({20}, 2),     float_of({20}, 3),
          float_of({hidden, 20}, 4), float_of({hidden}, 5), float_of({20, activated}, 6)};
}

struct SavingCase {
  const char* name;
  support::TensorFunction run;
  Inputs inputs;
};

std::vector<SavingCase> saving_cases() {
  const auto no_keys =
      at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1}).view({2, 9}).to(at::kBool);
  return {
      {"linear",
       [](const Inputs& in) { return kernels::linear(in[0], in[1], in[2]); },
       {float_of({3, 11, 20}, 1), float_of({12, 20}, 2), float_of({12}, 3)}},
      {"linear of more columns than a piece has",
       [](const Inputs& in) { return kernels::linear(in[0], in[1], {}); },
       {float_of({5, 800}, 1), float_of({3, 800}, 2)}},
      {"linear of a transposed input",
       [](const Inputs& in) { return kernels::linear(in[0].t(), in[1], {}); },
       {float_of({20, 33}, 1), float_of({12, 20}, 2)}},
      {"norm, linear, gelu, linear",
       [](const Inputs& in) { return mlp(in, {kernels::Activation::kGelu}); },
       inputs_of_mlp(40, 40)},
      {"norm, linear, silu and gate, linear",
       [](const Inputs& in) {
         return mlp(in, {kernels::Activation::kSilu, true});
       },
       inputs_of_mlp(40, 20)},
      {"gelu of several parts",
       [](const Inputs& in) { return kernels::activate(in[0], kernels::Activation::kGelu); },
       {float_of({40, 1000}, 1)}},
      {"self-attention",
       [](const Inputs& in) { return kernels::self_attention(in[0], 2, 0.3); },
       {float_of({2, 17, 3 * 2 * 8}, 1)}},
      {"self-attention of a row of samples",
       [](const Inputs& in) {
         return kernels::packed_self_attention(in[0], 2, 0.3, {0, 5, 17});
       },
       {float_of({1, 17, 3 * 2 * 8}, 1)}},
      {"attention with a mask",
       [no_keys](const Inputs& in) {
         return kernels::attention(in[0], in[1], in[2], 0.3, {}, no_keys);
       },
       {float_of({2, 2, 9, 8}, 1), float_of({2, 2, 9, 8}, 2), float_of({2, 2, 9, 8}, 3)}},
      {"residual",
       [](const Inputs& in) { return kernels::add_residual(in[0], in[1], in[2], {}); },
       {float_of({3, 70, 20}, 1), float_of({3, 70, 20}, 2), float_of({20}, 3)}},
      {"batched product",
       [](const Inputs& in) { return kernels::batched_product(in[0], in[1].transpose(1, 2)); },
       {float_of({3, 5, 7}, 1), float_of({3, 7, 4}, 2)}},
  };
}

TEST(SavedActivationTest, GradientsAreThoseOfWhatWasComputedButForRounding) {
  for (const auto& item : saving_cases()) {
    SCOPED_TRACE(item.name);
    const auto full = support::gradients(item.run, item.inputs);
    const SavedAs saved("bfloat16");
    const auto rounded = support::gradients(item.run, item.inputs);
    support::expect_same_bits(rounded.output, full.output, "output");
    for (size_t i = 0; i < full.inputs.size(); ++i) {
      EXPECT_EQ(rounded.inputs[i].scalar_type(), at::kFloat);
      support::expect_close(rounded.inputs[i], full.inputs[i], at::kBFloat16,
                            "gradient " + std::to_string(i));
    }
  }
}

// Each of them saves something, and what it saves is rounded.
TEST(SavedActivationTest, EveryFunctionSavesWhatIsRounded) {
  for (const auto& item : saving_cases()) {
    SCOPED_TRACE(item.name);
    const bool is_gelu = std::string(item.name).starts_with("gelu");
    if (is_gelu && !kernels::has_own_gelu(at::kFloat)) continue;
    const auto full = support::gradients(item.run, item.inputs);
    const SavedAs saved("bfloat16");
    const auto rounded = support::gradients(item.run, item.inputs);
    bool is_same = true;
    for (size_t i = 0; i < full.inputs.size(); ++i) {
      is_same = is_same && at::equal(rounded.inputs[i], full.inputs[i]);
    }
    EXPECT_FALSE(is_same);
  }
}

// Of a product nothing else is rounded, and nothing twice.
TEST(SavedActivationTest, GradientsOfAWeightAreThoseOfTheRoundedInputToTheBit) {
  const auto x = float_of({150, 40}, 1), weight = float_of({33, 40}, 2);
  const auto run = [](const Inputs& in) { return kernels::linear(in[0], in[1], {}); };
  const auto of_rounded = support::gradients(run, {x.to(at::kBFloat16).to(at::kFloat), weight});
  const SavedAs saved("bfloat16");
  const auto found = support::gradients(run, {x, weight});
  support::expect_same_bits(found.inputs[0], of_rounded.inputs[0], "dx");
  support::expect_same_bits(found.inputs[1], of_rounded.inputs[1], "dW");
}

TEST(SavedActivationTest, ThreadsChangeNoBit) {
  if (support::threads_split_sums()) GTEST_SKIP() << "skipped: sums are split by threads";
  const SavedAs saved("bfloat16");
  const auto cases = saving_cases();
  support::expect_same_bits_for_any_threads([&] {
    std::vector<at::Tensor> all;
    for (const auto& item : cases) {
      const auto found = support::gradients(item.run, item.inputs);
      all.insert(all.end(), found.inputs.begin(), found.inputs.end());
    }
    return all;
  });
}

using Look = std::function<void(const at::Tensor&)>;

struct Looking : kernels::SavingFunction<Looking> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const Look& look) {
    look(x);
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& given) {
    return {given[0], {}};
  }
};

// What save_activation makes of x in a forward that is recorded.
void look_in_forward(const at::Tensor& x, const Look& look) {
  Looking::apply(x.detach().requires_grad_(), look);
}

TEST(SavedActivationTest, WhoSavesATensorTooSharesItsCopy) {
  const SavedAs saved("bfloat16");
  look_in_forward(float_of({2, 3, 4}, 1), [](const at::Tensor& x) {
    const auto copy = save_activation(x);
    support::expect_same_bits(copy, x.to(at::kBFloat16), "copy");
    const auto rows = save_activation(x.view({6, 4}));
    EXPECT_TRUE(rows.is_alias_of(copy));
    support::expect_same_bits(rows, copy.view({6, 4}), "rows");
    const auto turned = save_activation(x.transpose(1, 2));
    EXPECT_TRUE(turned.is_alias_of(copy));
    support::expect_same_bits(turned, copy.transpose(1, 2), "turned");
    EXPECT_FALSE(save_activation(x.clone()).is_alias_of(copy)) << "the same values elsewhere";
    const auto part = save_activation(x.narrow(2, 1, 2));
    EXPECT_FALSE(part.is_alias_of(copy));
    support::expect_same_bits(part, copy.narrow(2, 1, 2), "part");
  });
}

TEST(SavedActivationTest, ACopyIsOfWhatTheTensorHoldsNow) {
  const SavedAs saved("bfloat16");
  look_in_forward(float_of({6, 4}, 1), [](const at::Tensor& x) {
    const auto y = x.clone();
    const auto copy = save_activation(y);
    y.add_(1);
    support::expect_same_bits(save_activation(y), y.to(at::kBFloat16), "written to since");
  });
}

// A copy, and the tensor that it is of, live as long as somebody keeps them.
TEST(SavedActivationTest, NothingIsKeptForBeingKnown) {
  const SavedAs saved("bfloat16");
  look_in_forward(float_of({6, 4}, 1), [](const at::Tensor& x) {
    const auto y = x.clone();
    const auto copy = save_activation(y);
    EXPECT_EQ(y.storage().use_count(), 1u);
    EXPECT_EQ(copy.storage().use_count(), 1u);
    EXPECT_EQ(copy.use_count(), 1u);
  });
}

TEST(SavedActivationTest, TiesGoToTheEvenNeighbour) {
  const SavedAs saved("bfloat16");
  const float least = std::ldexp(1.0f, -8), infinity = std::numeric_limits<float>::infinity();
  const auto given = at::tensor({1 + least, 1 + 3 * least, 1 + least * 1.001f, -infinity, NAN});
  const auto expected = at::tensor({1.0f, 1 + 4 * least, 1 + 2 * least, -infinity, NAN});
  look_in_forward(given, [&](const at::Tensor& x) {
    const auto found = kernels::read_activation(save_activation(x), at::kFloat);
    EXPECT_TRUE(found.narrow(0, 0, 4).equal(expected.narrow(0, 0, 4))) << found;
    EXPECT_TRUE(std::isnan(found[4].item<float>()));
  });
}

TEST(SavedActivationTest, WhatIsNoActivationOfFloat32StaysAsItIs) {
  const auto x = float_of({6, 4}, 1);
  const auto expect_as_it_is = [](const at::Tensor& given) {
    EXPECT_TRUE(save_activation(given).is_same(given));
  };
  look_in_forward(x, expect_as_it_is);  // nobody has asked for it
  const SavedAs saved("bfloat16");
  Looking::apply(x, expect_as_it_is);  // without a gradient
  {
    const at::NoGradGuard no_gradient;
    Looking::apply(x.detach().requires_grad_(), expect_as_it_is);
  }
  look_in_forward(x.to(at::kDouble), expect_as_it_is);
  look_in_forward(x.to(at::kBFloat16), expect_as_it_is);
  expect_as_it_is(x);  // of no function
  look_in_forward(x, [&](const at::Tensor& given) {
    EXPECT_FALSE(save_activation({}).defined());
    Looking::apply(given, expect_as_it_is);  // within another one's, which records
    EXPECT_EQ(save_activation(given).scalar_type(), at::kBFloat16);
  });
}

TEST(SavedActivationTest, AnotherNameIsRefused) {
  EXPECT_THROW(kernels::choose_saved_activations("float16"), ConfigError);
}

}  // namespace
}  // namespace fovea
