#include "tests/support/gradcheck.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "tests/support/close.h"

namespace fovea::support {
namespace {

bool is_real(const at::Tensor& x) { return x.defined() && x.is_floating_point(); }

// Leaves that require gradients, with the strides of the originals.
std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> result;
  for (const auto& x : inputs) {
    if (!is_real(x)) {
      result.push_back(x);
      continue;
    }
    auto leaf = at::empty_strided(x.sizes(), x.strides(), x.options());
    leaf.copy_(x.detach());
    result.push_back(leaf.requires_grad_());
  }
  return result;
}

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> result;
  for (const auto& x : inputs) result.push_back(is_real(x) ? x.detach().clone().contiguous() : x);
  return result;
}

}  // namespace

Gradients gradients(const TensorFunction& f, const std::vector<at::Tensor>& inputs) {
  const auto copies = leaves(inputs);
  Gradients result;
  result.output = f(copies);
  const auto direction =
      random(result.output.sizes().vec(), at::kBFloat16, 77).to(result.output.options());
  torch::autograd::backward({result.output}, {direction});
  for (const auto& x : copies) result.inputs.push_back(is_real(x) ? x.grad() : at::Tensor());
  result.output = result.output.detach();
  return result;
}

void expect_gradients_are_derivatives(const TensorFunction& f,
                                      const std::vector<at::Tensor>& inputs) {
  constexpr double kStep = 1e-4;
  // The error of a central difference is of second order in the step, far above float64's rounding.
  const auto dtype = at::kFloat;
  const auto xs = leaves(inputs);
  const auto y = f(xs);
  ASSERT_EQ(y.scalar_type(), at::kDouble);
  const auto values = detached(inputs);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!is_real(xs[i])) continue;
    const auto numerical = at::zeros({y.numel(), xs[i].numel()}, y.options());
    const auto analytical = at::zeros_like(numerical);
    const auto moved = values[i].view({-1});
    for (int64_t j = 0; j < moved.size(0); ++j) {
      const double original = moved[j].item<double>();
      moved[j].fill_(original + kStep);
      const auto above = f(values).reshape({-1});
      moved[j].fill_(original - kStep);
      const auto below = f(values).reshape({-1});
      moved[j].fill_(original);
      numerical.select(1, j).copy_((above - below) / (2 * kStep));
    }
    for (int64_t k = 0; k < y.numel(); ++k) {
      const auto direction = at::zeros_like(y);
      direction.view({-1})[k].fill_(1.0);
      const auto row = torch::autograd::grad({y}, {xs[i]}, {direction}, /*retain_graph=*/true);
      analytical.select(0, k).copy_(row[0].reshape({-1}));
    }
    expect_close(analytical, numerical, dtype, "Jacobian of input " + std::to_string(i));
  }
}

void expect_matches_reference(const TensorFunction& op, const TensorFunction& reference,
                              const std::vector<at::Tensor>& inputs, at::ScalarType dtype) {
  std::vector<at::Tensor> wide;
  for (const auto& x : inputs) wide.push_back(is_real(x) ? x.to(at::kDouble) : x);
  const auto actual = gradients(op, inputs);
  const auto expected = gradients(reference, wide);
  expect_close(actual.output, expected.output, dtype, "output");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto name = "gradient of input " + std::to_string(i);
    ASSERT_EQ(actual.inputs[i].defined(), expected.inputs[i].defined()) << name;
    if (!actual.inputs[i].defined()) continue;
    EXPECT_EQ(actual.inputs[i].scalar_type(), inputs[i].scalar_type()) << name;
    expect_close(actual.inputs[i], expected.inputs[i], dtype, name);
  }
}

}  // namespace fovea::support
