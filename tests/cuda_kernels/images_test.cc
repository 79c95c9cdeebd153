#include "fovea/kernels/cuda/images.h"

#include "fovea/kernels/elementwise/images.h"
#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

class ImagesKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  // Four samples; the first is left as it is, the others are mirrored, mixed and cut.
  static kernels::ImageMixes mixes() {
    const auto table = at::tensor({0, 0, 0, 0, 0, 0,  //
                                   1, 2, 0, 0, 0, 0,  //
                                   0, 1, 2, 3, 5, 9,  //
                                   1, 3, 0, 0, 0, 0},
                                  at::kLong);
    return {table.view({4, kernels::kImageMixColumns}), at::tensor({1.0f, 0.3f, 0.8f, 1.0f})};
  }

  static void compare(int64_t C, int64_t H, int64_t W, const kernels::ImageMixes& mixes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", C, H, W));
    const auto values = support::random({4, C, H, W}, at::kFloat, 1) * 60 + 120;
    const auto bytes = values.clamp(0, 255).to(at::kByte);
    const auto mean = support::random({C}, at::kFloat, 2).abs(),
               std = support::random({C}, at::kFloat, 3).abs() + 0.2;
    const auto expected = kernels::normalize_images(bytes, mean, std, mixes, GetParam().dtype);
    const bool has_mixes = mixes.table.defined();
    simt::any_schedule([&] {
      const auto images = support::unwritten_like(expected);
      kernels::cuda::normalize_images(
          {.bytes = bytes.const_data_ptr<uint8_t>(),
           .mean = mean.const_data_ptr<float>(),
           .std = std.const_data_ptr<float>(),
           .mixes = has_mixes
                        ? static_cast<const kernels::cuda::ImageMix*>(mixes.table.const_data_ptr())
                        : nullptr,
           .lam = support::floats_or_null(mixes.lam)},
          {.batch = 4, .channels = C, .height = H, .width = W, .type = GetParam().type},
          images.mutable_data_ptr(), nullptr);
      support::expect_close(images, expected, GetParam().dtype, "images");
    });
  }
};

TEST_P(ImagesKernelTest, NormalizesMirrorsAndMixes) {
  for (const int64_t C : {1, 3}) {
    for (const int64_t W : {16, 13, 40}) {
      compare(C, 11, W, mixes());
      compare(C, 11, W, {});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ImagesKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
