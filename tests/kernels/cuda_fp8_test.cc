// FP8 on a GPU against the CPU, which has its numbers; skipped, and said so, where there is none.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/kernels/linear/fp8.h"
#include "fovea/kernels/linear/fp8_linear.h"
#include "tests/support/close.h"
#include "tests/support/gpu_test.h"

namespace fovea {
namespace {

using kernels::Fp8Format;
using support::random;

using CudaFp8Test = support::GpuTest<>;

at::Tensor bytes_of_codes(const at::Tensor& codes) {
  return codes.to(at::kCPU).contiguous().view(at::kByte);
}

TEST_F(CudaFp8Test, CastsHaveTheBitsOfTheCpu) {
  for (const auto format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const int64_t M : {1, 100, 1000}) {
        const auto x = random({M, 144}, dtype, 1), there = x.to(at::kCUDA);
        const auto largest = kernels::fp8_largest(there);
        EXPECT_EQ(largest.item<float>(), kernels::fp8_largest(x).item<float>());
        const auto seen = at::zeros({1}, largest.options());
        // A third of the largest value, so that some are beyond.
        const auto actual = kernels::fp8_cast(there, largest / 3, {.format = format, .seen = seen});
        const auto expected = kernels::fp8_cast(x, largest.to(at::kCPU) / 3, {.format = format});
        const auto codes = bytes_of_codes(expected.rows);
        EXPECT_TRUE(bytes_of_codes(actual.rows).equal(codes));
        EXPECT_TRUE(bytes_of_codes(actual.columns).narrow(1, 0, M).equal(codes.t()));
        EXPECT_EQ(actual.inverse_scale.item<float>(), expected.inverse_scale.item<float>());
        EXPECT_EQ(seen.item<float>(), largest.item<float>());
      }
    }
  }
}

TEST_F(CudaFp8Test, ProductsAreThoseOfTheCpu) {
  if (!kernels::has_fp8_products(at::kCUDA)) GTEST_SKIP() << "skipped: the GPU has no FP8";
  for (const int64_t M : {1, 100, 1000}) {
    const auto x = random({M, 144}, at::kBFloat16, 1), dy = random({M, 96}, at::kBFloat16, 4);
    const auto weight = random({96, 144}, at::kFloat, 2), bias = random({96}, at::kFloat, 3);
    const auto products = [&](c10::Device device) {
      std::vector<at::Tensor> leaves;
      for (const auto& tensor : {x, weight, bias}) {
        leaves.push_back(tensor.to(device).detach().requires_grad_());
      }
      const auto y = kernels::fp8_linear(leaves[0], {}, leaves[1], leaves[2]);
      y.backward(dy.to(device));
      std::vector<at::Tensor> result = {y.detach().to(at::kCPU)};
      for (const auto& leaf : leaves) result.push_back(leaf.grad().to(at::kCPU));
      return result;
    };
    const auto actual = products(at::kCUDA), expected = products(at::kCPU);
    for (size_t i = 0; i < expected.size(); ++i) {
      support::expect_close(actual[i], expected[i], at::kBFloat16, "result " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace fovea
