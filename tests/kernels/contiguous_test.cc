#include "fovea/kernels/elementwise/contiguous.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/support/close.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;

// Patches as rows that lie apart, some of odd sizes: [B, C, G, P, G, P] -> [B, G, G, C, P, P].
at::Tensor patches_of(const at::Tensor& images, int64_t height, int64_t width) {
  return images.unflatten(3, {-1, width}).unflatten(2, {-1, height}).permute({0, 2, 4, 1, 3, 5});
}

TEST(ContiguousTest, RowsAreThoseOfLibtorchsCopy) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kHalf}) {
    const auto images = random({2, 3, 35, 48}, dtype, 1);
    for (const auto& [height, width] : {std::pair(5, 16), std::pair(7, 3), std::pair(35, 48)}) {
      const auto x = patches_of(images, height, width);
      const auto y = kernels::contiguous(x);
      EXPECT_TRUE(y.is_contiguous());
      support::expect_same_bits(y, x.contiguous(), "patches");
    }
  }
}

TEST(ContiguousTest, TakesAnyStrides) {
  const auto x = random({3, 4, 5, 6}, at::kFloat, 1);
  for (const auto& view : {x, x.transpose(0, 2), x.transpose(2, 3), x.narrow(3, 1, 4),
                           x.select(1, 2), x.narrow(0, 1, 1).expand({7, -1, -1, -1}),
                           x.select(3, 0), at::empty({2, 0, 3}).transpose(0, 1)}) {
    support::expect_same_bits(kernels::contiguous(view), view.contiguous(), "copy");
  }
}

TEST(ContiguousTest, WhatIsContiguousIsNotCopied) {
  const auto x = random({3, 4}, at::kFloat, 1);
  EXPECT_TRUE(kernels::contiguous(x).is_same(x));
}

TEST(ContiguousTest, GradientsGoThrough) {
  const auto images = random({1, 2, 4, 6}, at::kFloat, 1).set_requires_grad(true);
  const auto dy = random({1, 2, 2, 2, 2, 3}, at::kFloat, 2);
  kernels::contiguous(patches_of(images, 2, 3)).backward(dy);
  support::expect_same_bits(patches_of(images.grad(), 2, 3).contiguous(), dy, "gradient");
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(kernels::contiguous(patches_of(images, 2, 3)).requires_grad());
}

TEST(ContiguousTest, SameBitsForAnyNumberOfThreads) {
  const auto images = random({3, 3, 96, 80}, at::kFloat, 1);
  support::expect_same_bits_for_any_threads(
      [&] { return std::vector<at::Tensor>{kernels::contiguous(patches_of(images, 8, 5))}; });
}

}  // namespace
}  // namespace fovea
