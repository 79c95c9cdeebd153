// B batch.
#include "fovea/train/diffusion/row_draws.h"

#include <c10/util/accumulate.h>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/transforms/standard_normals.h"

namespace fovea::train {
namespace {

// Calls draw(b, row) for each row of the key.
template <class Draw>
void for_each_row(const kernels::DropKey& key, const Draw& draw) {
  FOVEA_CHECK(key.rows.defined() && key.rows.dim() == 1 && key.rows.scalar_type() == at::kLong,
              "rows of a draw: expected one dim of int64");
  const auto rows = key.rows.to(at::kCPU).contiguous();
  for (int64_t b = 0; b < rows.size(0); ++b) {
    draw(b, static_cast<uint64_t>(rows.const_data_ptr<int64_t>()[b]));
  }
}

}  // namespace

at::Tensor normal_rows(const kernels::DropKey& key, at::IntArrayRef sides, c10::Device device) {
  std::vector<int64_t> shape = {key.rows.size(0)};
  shape.insert(shape.end(), sides.begin(), sides.end());
  const int64_t elements = c10::multiply_integers(sides);
  const auto draw = [elements](const at::Tensor& host, const kernels::DropKey& drawn) {
    host.zero_();
    auto* values = host.mutable_data_ptr<float>();
    for_each_row(drawn, [&](int64_t b, uint64_t row) {
      // The sample's own key: the counter of its values is used up by their place.
      const auto words = philox4x32(
          {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), drawn.step, 0}, drawn.key);
      data::add_standard_normals({words[0], words[1]}, 0.0f, 1.0f,
                                 {values + b * elements, static_cast<size_t>(elements)});
    });
  };
  return kernels::drawn_by_host(key, shape, at::TensorOptions().dtype(at::kFloat).device(device),
                                draw);
}

at::Tensor integer_rows(const kernels::DropKey& key, int64_t count, c10::Device device) {
  const auto draw = [count](const at::Tensor& host, const kernels::DropKey& drawn) {
    auto* values = host.mutable_data_ptr<int64_t>();
    for_each_row(drawn, [&](int64_t b, uint64_t row) {
      values[b] = RandomStream(drawn.key, row, drawn.step).below(static_cast<uint32_t>(count));
    });
  };
  return kernels::drawn_by_host(key, {key.rows.size(0)},
                                at::TensorOptions().dtype(at::kLong).device(device), draw);
}

at::Tensor bernoulli_rows(const kernels::DropKey& key, double probability, c10::Device device) {
  const auto draw = [probability](const at::Tensor& host, const kernels::DropKey& drawn) {
    auto* values = host.mutable_data_ptr<bool>();
    for_each_row(drawn, [&](int64_t b, uint64_t row) {
      values[b] = RandomStream(drawn.key, row, drawn.step).bernoulli(probability);
    });
  };
  return kernels::drawn_by_host(key, {key.rows.size(0)},
                                at::TensorOptions().dtype(at::kBool).device(device), draw);
}

}  // namespace fovea::train
