#include "fovea/kernels/linear/split_products.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/cpu/split_values.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {
namespace {

std::atomic<Float32Products> products_choice{Float32Products::kFloat32};

// Which part of a factor stands at each place in depth: 0 is the largest one.
std::span<const int> parts_in_order(FactorPlace place) {
  static constexpr int kSixFirst[] = {2, 0, 1, 1, 0, 0}, kSixSecond[] = {0, 2, 1, 0, 1, 0};
  static constexpr int kThreeFirst[] = {1, 0, 0}, kThreeSecond[] = {0, 1, 0};
  const bool is_first = place == FactorPlace::kFirst;
  switch (float32_products()) {
    case Float32Products::kBfloat16x6:
      return is_first ? kSixFirst : kSixSecond;
    case Float32Products::kBfloat16x3:
      return is_first ? kThreeFirst : kThreeSecond;
    case Float32Products::kFloat32:
      break;
  }
  fail("products of float32 are not split");
}

}  // namespace

void choose_float32_products(const std::string& name) {
  if (name == "float32") {
    products_choice = Float32Products::kFloat32;
  } else if (name == "bfloat16x6") {
    products_choice = Float32Products::kBfloat16x6;
  } else if (name == "bfloat16x3") {
    products_choice = Float32Products::kBfloat16x3;
  } else {
    fail<ConfigError>(
        "float32_products '{}' is unknown; expected float32, bfloat16x6 or bfloat16x3", name);
  }
}

Float32Products float32_products() { return products_choice; }

at::Tensor split_factor(const at::Tensor& a, FactorPlace place, int64_t depth_dim) {
  const auto dense = with_dense_dim(a);
  if (dense.stride(1) != 1) return split_factor(dense.t(), place, 1 - depth_dim).t();
  const auto order = parts_in_order(place);
  const int64_t rows = dense.size(0), columns = dense.size(1), from_stride = dense.stride(0);
  auto sizes = dense.sizes().vec();
  sizes[static_cast<size_t>(depth_dim)] *= static_cast<int64_t>(order.size());
  auto out = at::empty(sizes, dense.options().dtype(at::kBFloat16));
  const int64_t stride = out.stride(0), step = depth_dim == 0 ? rows * columns : columns;
  const auto* from = dense.const_data_ptr<float>();
  auto* to = mutable_bits_of(out);
  constexpr int64_t kLeastValues = 1 << 14;
  cpu::for_ranges(rows, std::max<int64_t>(1, kLeastValues / std::max<int64_t>(columns, 1)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      cpu::split_values(from + row * from_stride, columns, order, to + row * stride,
                                        step);
                    }
                  });
  return out;
}

}  // namespace fovea::kernels
