#include "fovea/kernels/cuda/fp8.h"

#include "fovea/kernels/linear/fp8.h"
#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using kernels::Fp8Format;
using support::random;

class Fp8KernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  at::Tensor values(int64_t M, int64_t K) const { return random({M, K}, GetParam().dtype, 1); }

  float largest(const at::Tensor& x) const {
    const auto parts = at::full({kernels::cuda::fp8_largest_parts(x.numel())}, NAN);
    const auto result = at::full({1}, NAN);
    kernels::cuda::fp8_largest(x.const_data_ptr(), x.numel(), GetParam().type,
                               parts.mutable_data_ptr<float>(), result.mutable_data_ptr<float>(),
                               nullptr);
    return result.item<float>();
  }

  struct Cast {
    at::Tensor rows, columns;  // bytes
    float inverse_scale, seen;
  };
  // Bytes that are not written are 0xEE.
  Cast cast(const at::Tensor& x, float largest, Fp8Format format, float seen_before) const {
    const int64_t M = x.size(0), K = x.size(1);
    const auto bytes = at::TensorOptions().dtype(at::kByte);
    Cast result{.rows = at::full({M, K}, 0xEE, bytes),
                .columns = at::full({K, (M + 15) / 16 * 16}, 0xEE, bytes),
                .inverse_scale = NAN,
                .seen = seen_before};
    const auto parts = at::full({kernels::cuda::fp8_cast_parts(M, K)}, NAN);
    kernels::cuda::fp8_cast(
        {.x = x.const_data_ptr(),
         .largest = &largest,
         .rows = result.rows.mutable_data_ptr<uint8_t>(),
         .columns = result.columns.mutable_data_ptr<uint8_t>(),
         .inverse_scale = &result.inverse_scale,
         .seen = &result.seen,
         .parts = parts.mutable_data_ptr<float>()},
        {.rows = M, .width = K, .type = GetParam().type, .format = format, .margin = 1}, nullptr);
    return result;
  }

  void expect_the_cpus(const at::Tensor& x, Fp8Format format) const {
    const auto wide = x.to(at::kFloat);  // what float16 is, too
    const auto of_all = kernels::fp8_largest(wide);
    const float limit = of_all.item<float>() / 5;  // some are beyond
    const auto expected =
        kernels::fp8_cast(wide, at::full({1}, limit), {.format = format, .margin = 1});
    const auto codes = expected.rows.view(at::kByte);
    const int64_t M = x.size(0);
    simt::any_schedule([&] {
      const auto actual = cast(x, limit, format, /*seen_before=*/0.5f);
      EXPECT_TRUE(actual.rows.equal(codes));
      EXPECT_TRUE(actual.columns.narrow(1, 0, M).equal(codes.t()));
      EXPECT_EQ(actual.columns.narrow(1, M, actual.columns.size(1) - M).sum().item<int64_t>(), 0);
      EXPECT_EQ(actual.inverse_scale, expected.inverse_scale.item<float>());
      EXPECT_EQ(actual.seen, std::max(0.5f, of_all.item<float>()));
    });
  }
};

TEST_P(Fp8KernelTest, LargestValuesAreExact) {
  for (const int64_t count : {1, 7, 4096, 40000}) {
    const auto x = random({count}, GetParam().dtype, 1);
    const float expected = x.to(at::kFloat).abs().max().item<float>();
    simt::any_schedule([&] { EXPECT_EQ(largest(x), expected); });
    x[count - 1] = -INFINITY;
    EXPECT_EQ(largest(x), INFINITY);
    x[count / 2] = NAN;
    EXPECT_TRUE(std::isnan(largest(x)));
  }
  EXPECT_EQ(largest(at::zeros({100}, GetParam().dtype)), 0);
}

TEST_P(Fp8KernelTest, CastsHaveTheBitsOfTheCpu) {
  for (const auto format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
    for (const int64_t M : {1, 16, 65, 130}) {
      for (const int64_t K : {16, 64, 144}) {
        SCOPED_TRACE(fmt::format("{} x {}", M, K));
        expect_the_cpus(values(M, K), format);
      }
    }
  }
}

TEST_P(Fp8KernelTest, WhatIsNotFiniteIsNoNumber) {
  const auto x = values(20, 32);
  x[3][4] = INFINITY;
  x[5][6] = NAN;
  const auto codes = cast(x, 1.0f, Fp8Format::kE5M2, 0).rows;
  EXPECT_EQ(codes[3][4].item<int64_t>(), kernels::kFp8NaN);
  EXPECT_EQ(codes[5][6].item<int64_t>(), kernels::kFp8NaN);
  EXPECT_TRUE(std::isnan(cast(x, 1.0f, Fp8Format::kE4M3, 0).seen));
}

TEST_P(Fp8KernelTest, MakesOneFormAlone) {
  const auto x = values(40, 48);
  const auto both = cast(x, 1.0f, Fp8Format::kE4M3, 0);
  const float limit = 1.0f;
  float inverse_scale = NAN;
  const kernels::cuda::Fp8CastShape shape{
      .rows = 40, .width = 48, .type = GetParam().type, .format = Fp8Format::kE4M3, .margin = 1};
  kernels::cuda::Fp8CastTensors tensors{.x = x.const_data_ptr(),
                                        .largest = &limit,
                                        .rows = nullptr,
                                        .columns = nullptr,
                                        .inverse_scale = &inverse_scale,
                                        .seen = nullptr,
                                        .parts = nullptr};
  const auto rows = at::zeros_like(both.rows), columns = at::zeros_like(both.columns);
  tensors.rows = rows.mutable_data_ptr<uint8_t>();
  kernels::cuda::fp8_cast(tensors, shape, nullptr);
  tensors.rows = nullptr;
  tensors.columns = columns.mutable_data_ptr<uint8_t>();
  kernels::cuda::fp8_cast(tensors, shape, nullptr);
  EXPECT_TRUE(rows.equal(both.rows));
  EXPECT_TRUE(columns.equal(both.columns));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Fp8KernelTest, support::kernel_cases(), support::kernel_case_name);

}  // namespace
}  // namespace fovea
