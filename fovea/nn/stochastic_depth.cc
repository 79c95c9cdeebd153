#include "fovea/nn/stochastic_depth.h"

#include <ATen/ops/zeros.h>

#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/residual.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

// n of B samples.
struct Kept {
  at::Tensor indices;  // [n] int64, CPU
  at::Tensor factors;  // [n] float32, CPU: 1 / (1 - rate), or 0
};

// None: all samples are kept, or, on the meta device, it isn't known which.
std::optional<Kept> kept_samples(const UnitImpl& unit, const char* name, double rate,
                                 int64_t batch_size) {
  auto key = unit.sample_drop_key(name);
  key.stamp = at::Tensor();  // drawn on the host
  FOVEA_CHECK(key.rows.defined() && key.rows.numel() == batch_size,
              "{}.{}: {} rows named for a batch of {}; expected one for each sample", unit.path(),
              name, key.rows.defined() ? key.rows.numel() : 0, batch_size);
  const auto mask = kernels::drop_mask(key, 1, rate).squeeze(1);  // [B]
  if (mask.is_meta()) return {};
  auto indices = mask.nonzero().squeeze(1);
  if (indices.numel() == batch_size) return {};
  if (indices.numel() == 0) indices = at::zeros({1}, indices.options());
  return Kept{indices, mask.index_select(0, indices)};
}

}  // namespace

at::Tensor add_branch(const UnitImpl& unit, const char* name, const DropPath& drop_path,
                      const std::vector<at::Tensor>& tensors, LayerScale scale,
                      const Branch& branch) {
  const auto& x = tensors.front();
  const bool drops = unit.is_training() && drop_path.rate > 0;
  const auto kept =
      drops && drop_path.skip ? kept_samples(unit, name, drop_path.rate, x.size(0)) : std::nullopt;
  const auto scaled = [&](const at::Tensor& y) { return scale ? scale(y) : y; };
  if (!kept) {
    if (!scale && !drops) return branch(tensors, x);
    auto y = branch(tensors, {});
    const bool is_part = scale && !scale->is_watched();  // of the pass that adds
    if (!is_part) y = scaled(y);
    const auto mask = unit.drop_path_mask(x, drop_path.rate, name);
    return kernels::add_residual(x, y, is_part ? scale->gamma : at::Tensor(), mask);
  }
  const auto indices = kept->indices.to(x.device());
  std::vector<at::Tensor> chosen;
  for (const auto& tensor : tensors) {
    chosen.push_back(tensor.defined() ? tensor.index_select(0, indices) : tensor);
  }
  const auto step = forward_context().step.value();  // drop_key has found one
  const StepScope rows(step.seed, step.step, step.rows.index_select(0, kept->indices));
  const auto y = scaled(branch(chosen, {}));  // [n, ...]
  std::vector<int64_t> shape(static_cast<size_t>(y.dim()), 1);
  shape[0] = y.size(0);
  return x.index_add(0, indices, y * kept->factors.to(y.device(), y.scalar_type()).view(shape));
}

}  // namespace fovea::nn
