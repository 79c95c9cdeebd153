#include "fovea/kernels/cuda/drop_mask.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "fovea/kernels/cpu/drop_words.h"
#include "fovea/kernels/elementwise/drop.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

TEST(DropMaskKernelTest, DrawsTheCpusMaskBitForBit) {
  const double rate = 0.3;
  const auto rows = at::tensor(std::vector<int64_t>{0, 1, 77, (int64_t{1} << 32) + 3}, at::kLong);
  const kernels::DropKey key{
      .key = philox_key(42, "blocks.1.mlp.drop1"), .step = 5, .rows = rows, .parts = {}};
  for (const int64_t elements : {1, 3, 4, 511, 512, 513, 1030}) {
    const auto stamp = kernels::drop_stamp(key.step, rows, at::kCPU);
    const auto expected = kernels::drop_mask(key, elements, rate);
    simt::any_schedule([&] {
      const auto mask = at::full({4, elements}, -1.0f);
      kernels::cuda::draw_drop_mask(stamp.const_data_ptr<int64_t>(),
                                    {.rows = 4, .elements = elements},
                                    {.key = key.key,
                                     .threshold = kernels::cpu::drop_threshold(rate),
                                     .scale = static_cast<float>(1.0 / (1.0 - rate))},
                                    mask.mutable_data_ptr<float>(), nullptr);
      support::expect_same_bits(mask, expected, std::to_string(elements) + " elements");
    });
  }
}

}  // namespace
}  // namespace fovea
